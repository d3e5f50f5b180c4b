"""Normalisation within one frame, epsilon 1e-6 as in ConvS5's code, statistics at least in float32."""

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-6


class GroupNorm(nn.GroupNorm):
    """Groups of contiguous channels, (n, c, h, w); statistics over a group's channels and all pixels of a frame."""

    def __init__(self, num_groups: int, channels: int):
        if channels % num_groups:
            raise ValueError(
                f"{channels} channels cannot be normalised in num_groups = {num_groups} equal groups; "
                f"choose a divisor of {channels}"
            )
        super().__init__(num_groups, channels, eps=EPSILON)

    def forward(self, input: Tensor) -> Tensor:
        # also the faster way on a CPU: channels-last bfloat16 takes six times as long as float32 there
        return super().forward(at_least_float32(input)).to(input.dtype)


class LayerNorm(nn.Module):
    """Over the channels of each pixel, (n, c, h, w)."""

    def __init__(self, channels: int, epsilon: float = EPSILON):
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        pixels = at_least_float32(x.movedim(1, -1))  # channels-last memory makes this view free
        normed = functional.layer_norm(pixels, self.weight.shape, self.weight, self.bias, self.epsilon)
        return normed.movedim(-1, 1).to(x.dtype)


def at_least_float32(x: Tensor) -> Tensor:
    """float64 and float32 as they are, anything shorter as float32."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
