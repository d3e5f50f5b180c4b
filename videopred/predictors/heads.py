"""Heads: from what the stack foresees to the next frame.

    direct      the decoder paints the frame, squashed by tanh: the papers' form
    transport   each latent cell says where its pixels come from: `num_kernels` distributions over the (2 radius + 1)^2
                displacements of the newest frame (CDNA of Finn et al., NeurIPS 2016; dynamic filters of De Brabandere
                et al., NeurIPS 2016). The decoder paints one mask per kernel and a canvas for what no shift brings.

Moving pixels keeps what a thing looks like; painting it anew each frame wears it away.

A head's `outputs` are the channels the decoder must paint; forward(hidden, painted, newest) gives the frame in [-1, 1].
"""

from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import at_least_float32


@dataclass(frozen=True)
class DirectConfig:
    kind: Literal["direct"] = "direct"

    def build(self, channels: int, features: int, stride: int) -> "Direct":
        return Direct(channels)


@dataclass(frozen=True)
class TransportConfig:
    """`radius` in pixels: at least the fastest motion per frame."""

    kind: Literal["transport"] = "transport"
    num_kernels: int = 2
    radius: int = 3

    def __post_init__(self):
        at_least(self, num_kernels=1, radius=1)

    def build(self, channels: int, features: int, stride: int) -> "Transport":
        return Transport(channels, features, stride, self.num_kernels, self.radius)


class Direct(nn.Module):
    """hidden (n, d, h, w), painted (n, c, H, W), newest (n, c, H, W) -> (n, c, H, W)."""

    def __init__(self, channels: int):
        super().__init__()
        self.outputs = channels

    def forward(self, hidden: Tensor, painted: Tensor, newest: Tensor) -> Tensor:
        return painted.tanh()


class Transport(nn.Module):
    """hidden (n, d, h, w), painted (n, outputs, H, W), newest (n, c, H, W) -> (n, c, H, W)."""

    def __init__(self, channels: int, features: int, stride: int, num_kernels: int, radius: int):
        super().__init__()
        self.stride, self.num_kernels, self.radius = stride, num_kernels, radius
        self.outputs = num_kernels + 1 + channels
        self.kernels = Conv(features, num_kernels * (2 * radius + 1) ** 2, 3)

    def forward(self, hidden: Tensor, painted: Tensor, newest: Tensor) -> Tensor:
        hidden, painted, newest = (at_least_float32(x) for x in (hidden, painted, newest))
        masks, canvas = painted.split([self.num_kernels + 1, newest.shape[1]], 1)
        masks = masks.softmax(1).unsqueeze(2)  # n m 1 H W
        moved = self.move(hidden, newest)
        return (masks[:, :-1] * moved).sum(1) + masks[:, -1] * canvas.tanh()

    def move(self, hidden: Tensor, newest: Tensor) -> Tensor:
        """The newest frame as each kernel moves it, (n, m, c, H, W); beyond the border it is black (-1)."""
        side, reach = self.stride, 2 * self.radius + 1
        logits = rearrange(self.kernels(hidden), "n (m k) h w -> n h w m k", m=self.num_kernels)
        kernels = at_least_float32(logits).softmax(-1)
        padded = functional.pad(newest, (self.radius,) * 4, value=-1.0)
        windows = padded.unfold(2, side + reach - 1, side).unfold(3, side + reach - 1, side)  # n c h w (window)
        sources = windows.unfold(4, side, 1).unfold(5, side, 1)  # n c h w ky kx y x: the cell at every displacement
        sources = rearrange(sources, "n c h w ky kx y x -> n h w (ky kx) (c y x)")
        with torch.autocast(newest.device.type, enabled=False):  # bfloat16 would round the frame at every step
            moved = torch.matmul(kernels, sources)
        return rearrange(moved, "n h w m (c y x) -> n m c (h y) (w x)", y=side, x=side)


Head = DirectConfig | TransportConfig
