"""Convolutions that keep a frame's size, activations by name, and the initialisations of the papers' code."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Activation = Literal["relu", "gelu", "swish", "elu"]

# The standard deviation of a normal distribution that was cut at two standard deviations.
_CUT = 0.87962566103423978


def same_conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int = 1) -> Tensor:
    """Cross-correlation of stride 1, (n, c, h, w) -> (n, c', h, w); kernel k pads (k-1)//2 before and k//2 after."""
    height, width = weight.shape[-2:]
    if height % 2 and width % 2:
        return functional.conv2d(x, weight, bias, padding=(height // 2, width // 2), groups=groups)
    pad = ((width - 1) // 2, width // 2, (height - 1) // 2, height // 2)
    return functional.conv2d(functional.pad(x, pad), weight, bias, groups=groups)


def channels_last(x: Tensor) -> Tensor:
    """The same (n, c, h, w) in the memory order that convolutions are fastest in; most of them keep it from there on.

    For what arrives in another order: cut into patches, concatenated, or of one channel, which could be either.
    """
    return x.contiguous(memory_format=torch.channels_last)


class Conv(nn.Module):
    """A `same_conv` with LeCun-normal weights and zero bias, as flax initialises the papers' models."""

    def __init__(self, inputs: int, outputs: int, kernel_size: int, *, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        variance_scaling_(self.weight, 1.0, inputs * kernel_size**2)

    def forward(self, x: Tensor) -> Tensor:
        return same_conv(x, self.weight, self.bias)


class DepthwiseConv(nn.Module):
    """A `same_conv` of each channel by itself, (n, width, h, w) -> the same shape; LeCun-normal weights, zero bias."""

    def __init__(self, width: int, kernel_size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 1, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.zeros(width))
        variance_scaling_(self.weight, 1.0, kernel_size**2)

    def forward(self, x: Tensor) -> Tensor:
        return same_conv(x, self.weight, self.bias, groups=len(self.weight))


def variance_scaling_(weight: Tensor, scale: float, fan_in: int) -> Tensor:
    """Fills with a normal cut at two standard deviations, so that the final deviation is sqrt(scale / fan_in).

    Scale 1 is LeCun's, scale 2 is He's.
    """
    std = math.sqrt(scale / fan_in) / _CUT
    with torch.no_grad():
        return nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


def activate(x: Tensor, name: Activation) -> Tensor:
    """The activation of that name; gelu is the tanh approximation, as in the papers' code."""
    match name:
        case "relu":
            return functional.relu(x)
        case "gelu":
            return functional.gelu(x, approximate="tanh")
        case "swish":
            return functional.silu(x)
        case "elu":
            return functional.elu(x)
