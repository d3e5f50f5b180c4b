"""The ConvNeXt block: mix each channel over the frame, normalise, an MLP at each pixel, a residual.

Liu et al., "A ConvNet for the 2020s" (CVPR 2022): y = x + gamma * reduce(gelu(expand(norm(mixer(x))))).
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Conv, DepthwiseConv
from videopred.nn.norm import LayerNorm
from videopred.spatial.ssm2d import SSM2DMixerConfig


@dataclass(frozen=True)
class DepthwiseConfig:
    """A depthwise convolution, the paper's mixer."""

    kind: Literal["depthwise"] = "depthwise"
    kernel_size: int = 7

    def __post_init__(self):
        at_least(self, kernel_size=1)

    def build(self, width: int) -> DepthwiseConv:
        return DepthwiseConv(width, self.kernel_size)


Mixer = DepthwiseConfig | SSM2DMixerConfig


@dataclass(frozen=True)
class ConvNeXtConfig:
    """A ConvNeXt block. `ratio` is hidden over width; gamma begins at `layer_scale` (1e-6 there)."""

    kind: Literal["convnext"] = "convnext"
    mixer: Mixer = field(default_factory=DepthwiseConfig)
    ratio: int = 4
    layer_scale: float = 1e-2

    def __post_init__(self):
        at_least(self, ratio=1)

    def build(self, width: int) -> "ConvNeXt":
        return ConvNeXt(width, self)


class ConvNeXt(nn.Module):
    """(n, width, h, w) -> the same shape."""

    def __init__(self, width: int, config: ConvNeXtConfig):
        super().__init__()
        self.mixer = config.mixer.build(width)
        self.norm = LayerNorm(width)
        self.expand = Conv(width, config.ratio * width, 1)
        self.reduce = Conv(config.ratio * width, width, 1)
        self.gamma = nn.Parameter(torch.full((width,), config.layer_scale))

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.gelu(self.expand(self.norm(self.mixer(x))))
        return x + self.gamma[:, None, None] * self.reduce(hidden)
