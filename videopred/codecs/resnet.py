"""The residual encoder and decoder of ConvS5 (pixels, or VQ embeddings, to latents and back).

Smith et al. (NeurIPS 2023), appendix; residual branches are scaled by 0.1. The decoder starts at its smallest width.
`patch` cuts frames into patches first (space to depth): no convolution runs at full resolution. 1 is the paper's.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Activation, Conv, activate, channels_last
from videopred.nn.norm import GroupNorm, LayerNorm


@dataclass(frozen=True)
class ResNetCodecConfig:
    """Widths from fine to coarse; each step halves the side. `*_blocks` are residual blocks per width."""

    kind: Literal["resnet"] = "resnet"
    encoder_widths: tuple[int, ...] = (64, 128, 256)
    encoder_blocks: int = 1
    decoder_widths: tuple[int, ...] = (64, 128, 256)
    decoder_blocks: int = 1
    num_groups: int = 32
    activation: Activation = "elu"
    patch: int = 1

    def __post_init__(self):
        at_least(self, encoder_widths=1, encoder_blocks=1, decoder_widths=1, decoder_blocks=1, num_groups=1, patch=1)
        if not self.encoder_widths:
            raise ValueError("encoder_widths = []: must name at least one width")
        if len(self.encoder_widths) != len(self.decoder_widths):
            raise ValueError(
                f"encoder_widths {list(self.encoder_widths)} and decoder_widths {list(self.decoder_widths)} must be "
                f"equally long, so that frames come back in their own size"
            )

    @property
    def stride(self) -> int:
        return self.patch * 2 ** (len(self.encoder_widths) - 1)

    def build(self, channels: int, features: int, outputs: int, height: int, width: int) -> "ResNetCodec":
        if height % self.stride or width % self.stride:
            raise ValueError(
                f"frames of {height}x{width} cannot be coded with stride {self.stride} (patch {self.patch} and "
                f"{len(self.encoder_widths)} widths); height and width must be multiples of {self.stride}"
            )
        return ResNetCodec(channels, features, outputs, self)


class ResNetCodec(nn.Module):
    def __init__(self, channels: int, features: int, outputs: int, config: ResNetCodecConfig):
        super().__init__()
        self.patch, self.stride, self.channels = config.patch, config.stride, config.encoder_widths[-1]
        area = config.patch**2
        style = config.num_groups, config.activation
        self.encoder = Encoder(channels * area, config.encoder_widths, config.encoder_blocks, *style)
        self.decoder = Decoder(features, config.decoder_widths, config.decoder_blocks, outputs * area, *style)

    def encode(self, frames: Tensor) -> Tensor:
        x = functional.pixel_unshuffle(frames.flatten(0, 1), self.patch)
        return self.encoder(x).unflatten(0, frames.shape[:2])

    def decode(self, latents: Tensor, extra: Tensor | None = None) -> Tensor:
        x = latents if extra is None else torch.cat([latents, extra], 2)
        x = functional.pixel_shuffle(self.decoder(x.flatten(0, 1)), self.patch)
        return x.unflatten(0, latents.shape[:2])


class Encoder(nn.Module):
    """(n, c, h, w) -> (n, widths[-1], h / s, w / s) with s = 2^(len(widths) - 1); one block at the first width."""

    def __init__(self, inputs: int, widths: tuple[int, ...], num_blocks: int, num_groups: int, activation: Activation):
        super().__init__()
        self.stem = Conv(inputs, widths[0], 3)
        self.num_blocks = num_blocks
        planned = [widths[0]] + [width for width in widths[1:] for _ in range(num_blocks)]
        self.blocks = _blocks(widths[0], planned, num_groups, activation)

    def forward(self, x: Tensor) -> Tensor:
        x = channels_last(self.stem(x))
        for i, block in enumerate(self.blocks):
            if i and (i - 1) % self.num_blocks == 0:
                x = functional.avg_pool2d(x, 2)
            x = block(x)
        return x


class Decoder(nn.Module):
    """(n, c, h, w) -> (n, outputs, s h, s w); `num_blocks` blocks at every width, the smallest width first and last."""

    def __init__(
        self,
        inputs: int,
        widths: tuple[int, ...],
        num_blocks: int,
        outputs: int,
        num_groups: int,
        activation: Activation,
    ):
        super().__init__()
        self.stem = Conv(inputs, widths[0], 3)
        self.num_blocks = num_blocks
        planned = [width for width in reversed(widths) for _ in range(num_blocks)]
        self.blocks = _blocks(widths[0], planned, num_groups, activation)
        self.norm = LayerNorm(widths[0])
        self.head = Conv(widths[0], outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            if i and i % self.num_blocks == 0:
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(x)
        return self.head(self.norm(x))


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, width: int, num_groups: int, activation: Activation):
        super().__init__()
        self.activation: Activation = activation
        self.skip = Conv(inputs, width, 1, bias=False) if inputs != width else nn.Identity()
        self.norm1 = GroupNorm(num_groups, inputs)
        self.conv1 = Conv(inputs, width, 3)
        self.norm2 = GroupNorm(num_groups, width)
        self.conv2 = Conv(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(activate(self.norm1(x), self.activation))
        h = self.conv2(activate(self.norm2(h), self.activation))
        return self.skip(x) + 0.1 * h


def _blocks(inputs: int, widths: list[int], num_groups: int, activation: Activation) -> nn.ModuleList:
    return nn.ModuleList(
        ResidualBlock(before, width, num_groups, activation)
        for before, width in zip([inputs, *widths], widths, strict=False)
    )
