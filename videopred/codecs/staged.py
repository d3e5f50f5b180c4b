"""An encoder and a decoder of any spatial blocks: a stem, then stages of blocks between which the side is halved.

The layout of ConvNeXt (Liu et al., CVPR 2022) and EfficientMod (Ma et al., ICLR 2024): a strided stem with a norm, then
at each width blocks of one kind, then a strided 3x3 convolution with a norm. The decoder mirrors it: upsampling by
nearest neighbours and 3x3 convolutions, then a norm and one map to patches of pixels.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import LayerNorm
from videopred.spatial import Spatial
from videopred.spatial.convnext import ConvNeXtConfig

EPSILON = 1e-5  # of EfficientMod's code


@dataclass(frozen=True)
class StagedCodecConfig:
    """`widths` from fine to coarse, each with `depth` blocks; the stem has stride `patch`.

    `stem_kernel_size` 0 is 2 patch - 1, the least that sees every pixel (7 for a patch of 4, as in EfficientMod).
    """

    kind: Literal["staged"] = "staged"
    widths: tuple[int, ...] = (64, 128)
    depth: int = 1
    patch: int = 4
    stem_kernel_size: int = 0
    spatial: Spatial = field(default_factory=ConvNeXtConfig)

    def __post_init__(self):
        at_least(self, widths=1, depth=1, patch=1, stem_kernel_size=0)
        if not self.widths:
            raise ValueError("widths = []: must name at least one width")
        least = 2 * self.patch - 1
        if self.stem_kernel_size and (self.stem_kernel_size < least or self.stem_kernel_size % 2 == 0):
            raise ValueError(
                f"stem_kernel_size = {self.stem_kernel_size}: must be odd and at least {least}, so that every pixel is "
                f"seen with patch = {self.patch}; or 0 for {least}"
            )

    @property
    def stride(self) -> int:
        return self.patch * 2 ** (len(self.widths) - 1)

    def build(self, channels: int, features: int, outputs: int, height: int, width: int) -> "StagedCodec":
        if height % self.stride or width % self.stride:
            raise ValueError(
                f"frames of {height}x{width} cannot be coded with stride {self.stride} (patch {self.patch} and "
                f"{len(self.widths)} widths); height and width must be multiples of {self.stride}"
            )
        return StagedCodec(channels, features, outputs, self)


class StagedCodec(nn.Module):
    def __init__(self, channels: int, features: int, outputs: int, config: StagedCodecConfig):
        super().__init__()
        self.stride, self.channels = config.stride, config.widths[-1]
        self.encoder = Encoder(channels, config)
        self.decoder = Decoder(features, outputs, config)

    def encode(self, frames: Tensor) -> Tensor:
        return self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])

    def decode(self, latents: Tensor, extra: Tensor | None = None) -> Tensor:
        x = latents if extra is None else torch.cat([latents, extra], 2)
        return self.decoder(x.flatten(0, 1)).unflatten(0, latents.shape[:2])


class Encoder(nn.Module):
    """(n, c, h, w) -> (n, widths[-1], h / s, w / s), s the config's stride."""

    def __init__(self, inputs: int, config: StagedCodecConfig):
        super().__init__()
        first, *later = config.widths
        stem_kernel_size = config.stem_kernel_size or 2 * config.patch - 1
        layers: list[nn.Module] = [Shrink(inputs, first, stem_kernel_size, config.patch)]
        layers += blocks(first, config)
        for before, width in zip(config.widths, later, strict=False):
            layers += [Shrink(before, width, 3, 2), *blocks(width, config)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Decoder(nn.Module):
    """(n, inputs, h, w) -> (n, outputs, s h, s w)."""

    def __init__(self, inputs: int, outputs: int, config: StagedCodecConfig):
        super().__init__()
        last, *earlier = reversed(config.widths)
        layers: list[nn.Module] = [Conv(inputs, last, 1), *blocks(last, config)]
        for before, width in zip(reversed(config.widths), earlier, strict=False):
            layers += [nn.Upsample(scale_factor=2.0), Conv(before, width, 3), *blocks(width, config)]
        self.layers = nn.Sequential(*layers)
        self.norm = LayerNorm(config.widths[0])
        self.head = Conv(config.widths[0], outputs * config.patch**2, 1)
        self.patch = config.patch

    def forward(self, x: Tensor) -> Tensor:
        return functional.pixel_shuffle(self.head(self.norm(self.layers(x))), self.patch)


class Shrink(nn.Module):
    """A convolution and a norm: (n, inputs, h, w) -> (n, width, h / stride, w / stride). Odd kernels only."""

    def __init__(self, inputs: int, width: int, kernel_size: int, stride: int):
        super().__init__()
        self.conv = Conv(inputs, width, kernel_size)
        self.norm = LayerNorm(width, EPSILON)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.conv.weight, self.conv.bias
        return self.norm(functional.conv2d(x, weight, bias, self.stride, padding=weight.shape[-1] // 2))


def blocks(width: int, config: StagedCodecConfig) -> list[nn.Module]:
    return [config.spatial.build(width) for _ in range(config.depth)]
