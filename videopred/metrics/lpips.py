"""LPIPS: how different two frames look to a network trained on photographs; 0 is equal, lower is better.

Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR 2018), version 0.1, through
the package `lpips`, which holds the heads. The trunk is torchvision's ImageNet network, a file of its own. The package
would download it, and on request (`pnet_rand`) use random numbers in its place, which give plausible distances: here
there is no distance unless the real trunk has been loaded.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from videopred import weights
from videopred.metrics.frames import network_distance, require_pair
from videopred.metrics.numbers import PerFrame

Net = Literal["alex", "vgg", "squeeze"]
TRUNKS = {"alex": "alexnet", "vgg": "vgg16", "squeeze": "squeezenet1_1"}
SMALLEST = {"alex": 31, "vgg": 16, "squeeze": 17}  # pixels that the trunk's pools leave something of


@dataclass(frozen=True)
class LPIPSConfig:
    """LPIPS: perceptual distance of frames by a network's features.

    net : the trunk; papers' numbers are `alex` unless they say otherwise
    """

    kind: Literal["lpips"] = "lpips"
    net: Net = "alex"
    better: ClassVar[str] = "lower"
    unit: ClassVar[str] = ""

    @property
    def label(self) -> str:
        return "lpips" if self.net == "alex" else f"lpips-{self.net}"

    def build(self) -> PerFrame:
        """Raises WeightsMissing where the trunk is not on this machine, ValueError without the package."""
        path, digest = weights.load(TRUNKS[self.net])
        _network(self.net, path, digest)
        about = {"name": TRUNKS[self.net], "sha256": digest, "heads_sha256": _heads(self.net)}
        return PerFrame(partial(lpips, net=self.net), extras={"weights": about})


def lpips(predicted: Tensor, target: Tensor, net: Net = "alex") -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1], c 1 or 3 -> distances (b, t), computed in float32."""
    require_pair(predicted, target)
    height, width, channels = predicted.shape[2:]
    if min(height, width) < SMALLEST[net]:
        raise ValueError(f"LPIPS ({net}) needs frames of at least {SMALLEST[net]} pixels; these are {height} x {width}")
    if channels not in (1, 3):
        raise ValueError(f"LPIPS takes frames of 1 or 3 channels, got {channels}")
    module = _network(net, *weights.load(TRUNKS[net])).to(predicted.device)
    return network_distance(module, predicted, target)


def differentiable(net: Net) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean distance of frames (n, c, h, w) in [-1, 1], c 1 or 3, as a loss; gradient for the frames alone.

    Raises ValueError (WeightsMissing where the trunk is not on this machine).
    """
    module = _network(net, *weights.load(TRUNKS[net]))

    def distance(x: Tensor, y: Tensor) -> Tensor:
        x, y = (frames.float().expand(-1, 3, -1, -1) for frames in (x, y))
        return module.to(x.device)(x, y).mean()

    return distance


def _heads(net: Net) -> str:
    """SHA-256 of the package's file of heads."""
    import lpips as package

    return weights.sha256(Path(package.__file__).parent / "weights" / "v0.1" / f"{net}.pth")


@lru_cache(maxsize=3)
def _network(net: Net, path: Path, digest: str) -> Any:
    """The package's module with its own heads and the trunk of the file, whose every layer must be there."""
    try:
        import lpips as package
    except ImportError as error:
        raise ValueError("LPIPS needs the package lpips: pip install 'videopred[lpips]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls torchvision in an old way
        module = package.LPIPS(net=net, pnet_rand=True, verbose=False)
    file = torch.load(path, map_location="cpu", weights_only=True)
    names = {name: "features." + name.partition(".")[2] for name in module.net.state_dict()}  # slice2.3.weight
    if lacking := sorted(set(names.values()) - set(file)):
        raise ValueError(f"{path}: lacks {lacking[0]}; it is no {TRUNKS[net]} of torchvision")
    module.net.load_state_dict({name: file[layer] for name, layer in names.items()})
    return module.eval().requires_grad_(False)
