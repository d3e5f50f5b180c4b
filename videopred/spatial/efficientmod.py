"""The EfficientMod block: a depthwise context that modulates the hidden channels of a fused MLP.

Ma et al., "Efficient Modulation for Vision Networks" (ICLR 2024):

    u = norm(x);  context = g(gelu(depthwise(f(u))));  v = value(u), with gelu if ratio > 1
    y = x + gamma * out(v * context)       hidden channel c is modulated by context channel c mod width

f and `value` read the same input and are one 1x1 convolution here, `inward`: context first, then the hidden channels.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Conv, DepthwiseConv
from videopred.nn.norm import LayerNorm

EPSILON = 1e-5  # of the paper's code


@dataclass(frozen=True)
class EfficientModConfig:
    """`ratio`: hidden over width; `fuse` "sum" is the paper's ablation; gamma begins at `layer_scale` (there 1e-4)."""

    kind: Literal["efficientmod"] = "efficientmod"
    ratio: int = 4
    kernel_size: int = 7
    fuse: Literal["mul", "sum"] = "mul"
    layer_scale: float = 1e-2

    def __post_init__(self):
        at_least(self, ratio=1, kernel_size=1)

    def build(self, width: int) -> "EfficientMod":
        return EfficientMod(width, self)


class EfficientMod(nn.Module):
    """(n, width, h, w) -> the same shape."""

    def __init__(self, width: int, config: EfficientModConfig):
        super().__init__()
        self.width, self.ratio, self.fuse = width, config.ratio, config.fuse
        self.norm = LayerNorm(width, EPSILON)
        self.inward = Conv(width, width * (1 + config.ratio), 1)
        self.depthwise = DepthwiseConv(width, config.kernel_size)
        self.context = Conv(width, width, 1)
        self.out = Conv(width * config.ratio, width, 1)
        self.gamma = nn.Parameter(torch.full((width,), config.layer_scale))

    def forward(self, x: Tensor) -> Tensor:
        f, value = self.inward(self.norm(x)).split([self.width, self.width * self.ratio], 1)
        context = self.context(functional.gelu(self.depthwise(f))).unsqueeze(1)  # n 1 width h w
        hidden = (functional.gelu(value) if self.ratio > 1 else value).unflatten(1, (self.ratio, self.width))
        hidden = hidden * context if self.fuse == "mul" else hidden + context
        return x + self.gamma[:, None, None] * self.out(hidden.flatten(1, 2))
