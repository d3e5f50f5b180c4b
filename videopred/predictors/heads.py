"""Heads: from what the stack foresees to the next frame.

    direct      the decoder paints the frame, squashed by tanh: the papers' form
    transport   each latent cell says where its pixels come from: `num_kernels` distributions over the (2 radius + 1)^2
                displacements of the newest frame (CDNA of Finn et al., NeurIPS 2016; dynamic filters of De Brabandere
                et al., NeurIPS 2016). The decoder paints one mask per kernel and a canvas for what no shift brings.

    flow        each pixel says where it comes from: `num_flows` fields of displacements, read from the newest frame
                between its pixels (appearance flow: Zhou et al., ECCV 2016; Liu et al., ICCV 2017). A mask per field
                and a canvas as above. For motion of many pixels, as when a camera turns. With `keep_mean` a further
                mask lets through the mean of all frames fed so far, which outlives what the newest has lost.

Moving pixels keeps what a thing looks like; painting it anew each frame wears it away.

A head's `outputs` are the channels the decoder must paint; forward(hidden, painted, newest) gives the frame in [-1, 1].
A head whose `keep_mean` is true is handed the mean of the frames so far as well; the predictor carries it in its state.
"""

import math
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


@dataclass(frozen=True)
class FlowConfig:
    """`reach` in pixels is about how far a pixel moves per frame; motion may be larger, but is learned more slowly."""

    kind: Literal["flow"] = "flow"
    num_flows: int = 2
    reach: float = 8.0
    keep_mean: bool = False

    def __post_init__(self):
        at_least(self, num_flows=1)
        if not 0 < self.reach < math.inf:
            raise ValueError(f"reach = {self.reach}: must be above 0, and finite")

    def build(self, channels: int, features: int, stride: int) -> "Flow":
        return Flow(channels, self.num_flows, self.reach, self.keep_mean)


class Direct(nn.Module):
    """hidden (n, d, h, w), painted (n, c, H, W), newest (n, c, H, W) -> (n, c, H, W)."""

    keep_mean = False

    def __init__(self, channels: int):
        super().__init__()
        self.outputs = channels

    def forward(self, hidden: Tensor, painted: Tensor, newest: Tensor) -> Tensor:
        return painted.tanh()


class Transport(nn.Module):
    """hidden (n, d, h, w), painted (n, outputs, H, W), newest (n, c, H, W) -> (n, c, H, W)."""

    keep_mean = False

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


class Flow(nn.Module):
    """hidden (n, d, h, w), painted (n, outputs, H, W), newest and mean (n, c, H, W) -> (n, c, H, W)."""

    def __init__(self, channels: int, num_flows: int, reach: float, keep_mean: bool):
        super().__init__()
        self.num_flows, self.reach, self.keep_mean = num_flows, reach, keep_mean
        self.num_sources = num_flows + 1 + keep_mean
        self.outputs = 2 * num_flows + self.num_sources + channels

    def forward(self, hidden: Tensor, painted: Tensor, newest: Tensor, mean: Tensor | None = None) -> Tensor:
        painted, newest = at_least_float32(painted), at_least_float32(newest)
        flows, masks, canvas = painted.split([2 * self.num_flows, self.num_sources, newest.shape[1]], 1)
        masks = masks.softmax(1).unsqueeze(2)  # n m 1 H W
        moved = self.move(self.reach * flows, newest)
        others = [] if mean is None else [mean]
        sources = torch.cat([moved, torch.stack([*others, canvas.tanh()], 1)], 1)
        return (masks * sources).sum(1)

    def move(self, flows: Tensor, newest: Tensor) -> Tensor:
        """The newest frame as each field moves it, (n, m, c, H, W); `flows` (n, (m 2), H, W) are x and y, in pixels.

        Pixel p of the result is the newest frame at p + flow; beyond the border it repeats the border.
        """
        height, width = newest.shape[-2:]
        rows = torch.arange(height, dtype=flows.dtype, device=flows.device)
        columns = torch.arange(width, dtype=flows.dtype, device=flows.device)
        base = torch.stack([columns.expand(height, width), rows[:, None].expand(height, width)])  # x, y
        places = rearrange(flows, "n (m two) h w -> (n m) two h w", two=2) + base
        size = flows.new_tensor([width, height]).view(2, 1, 1)
        grid = ((2 * places + 1) / size - 1).movedim(1, -1)  # -1 and 1 are the outer edges of the frame
        source = newest.repeat_interleave(self.num_flows, 0)
        with torch.autocast(newest.device.type, enabled=False):
            moved = functional.grid_sample(source, grid, padding_mode="border", align_corners=False)
        return moved.unflatten(0, (-1, self.num_flows))


Head = DirectConfig | TransportConfig | FlowConfig
