"""ST-LPIPS: a perceptual distance that forgives small shifts; a metric of its own, not LPIPS.

Ghildyal and Liu, "Shift-tolerant Perceptual Similarity Metric" (ECCV 2022). Its package `stlpips-pytorch` brings all
its weights, trained on human judgements, so it is there where LPIPS's trunk cannot be had. 0 is equal, lower is better.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from videopred.metrics.frames import network_distance, require_pair
from videopred.metrics.numbers import PerFrame
from videopred.weights import sha256

Net = Literal["alex", "vgg"]
SMALLEST = 32  # pixels


@dataclass(frozen=True)
class STLPIPSConfig:
    """ST-LPIPS: perceptual distance that forgives small shifts, with weights from a package; not LPIPS.

    net : the trunk
    """

    kind: Literal["stlpips"] = "stlpips"
    net: Net = "alex"
    better: ClassVar[str] = "lower"
    unit: ClassVar[str] = ""

    @property
    def label(self) -> str:
        return f"stlpips-{self.net}"

    def build(self) -> PerFrame:
        """Raises ValueError without the package."""
        _, about = _network(self.net)
        return PerFrame(partial(stlpips, net=self.net), extras={"weights": about})


def stlpips(predicted: Tensor, target: Tensor, net: Net = "alex") -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1], c 1 or 3 -> distances (b, t), computed in float32."""
    require_pair(predicted, target)
    height, width, channels = predicted.shape[2:]
    if min(height, width) < SMALLEST or channels not in (1, 3):
        raise ValueError(
            f"ST-LPIPS takes frames of at least {SMALLEST} pixels and 1 or 3 channels; these are {height} x {width} x "
            f"{channels}"
        )
    module = _network(net)[0].to(predicted.device)
    return network_distance(module, predicted, target)


@lru_cache(maxsize=2)
def _network(net: Net) -> tuple[nn.Module, dict[str, Any]]:
    """The package's module, and what to say about its weights; every tensor of the module must be in the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from stlpips_pytorch import stlpips as package
    except ImportError as error:
        raise ValueError(
            "weights missing: run `pip install 'videopred[offline-metrics]'`, which brings ST-LPIPS"
        ) from error
    module = package.LPIPS(net=net, variant="shift_tolerant", verbose=False)
    path = Path(package.__file__).parent / "weights" / "vST0.0" / f"{net}_shift_tolerant.pth"
    lacking = module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True), strict=False).missing_keys
    if lacking := [name for name in lacking if not name.startswith(("lins.", "scaling_layer."))]:  # lins are lin0, ...
        raise ValueError(f"{path}: lacks {lacking[0]}")
    return module.eval().requires_grad_(False), {"name": path.name, "sha256": sha256(path)}
