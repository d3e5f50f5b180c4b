"""VQGAN: a frame as a grid of tokens, each one of a learned set of codes (Esser et al., CVPR 2021).

Convolutional encoder and decoder of residual blocks with a little attention, and between them the nearest code. Trained
by itself (`training/tokenizer.py`) and frozen where a predictor uses it. `patch` cuts frames into patches first (space
to depth), so that no convolution runs at full resolution; 1 is the paper's.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.clip import Format
from videopred.config import at_least, at_most
from videopred.nn.conv import Conv
from videopred.nn.norm import GroupNorm
from videopred.nn.quantize import AveragedCodebook, Codebook, Quantized

MOST_CODES = 2**16  # ids are stored in 16 bits


@dataclass(frozen=True)
class VQGANConfig:
    """Level i is `width` times `multipliers[i]` wide; from each to the next the side is halved.

    attention : levels whose blocks are followed by attention over all pixels; the middle always has one
    latent_channels, code_width : of the encoder's output, and of the codes after a 1x1 convolution
    learn : codes are running means ("average", with memory `decay`), or learn by their loss ("loss", as in the paper)
    commitment : weight that draws vectors to their codes
    restart_below : a code met less often, in shares of an equal spread, is put to new use; 0 turns that off
    """

    kind: Literal["vqgan"] = "vqgan"
    width: int = 128
    multipliers: tuple[int, ...] = (1, 1, 2)
    num_blocks: int = 2
    attention: tuple[int, ...] = (2,)
    num_groups: int = 32
    patch: int = 1
    latent_channels: int = 256
    code_width: int = 256
    num_codes: int = 1024
    learn: Literal["average", "loss"] = "average"
    decay: float = 0.99
    commitment: float = 0.25
    restart_below: float = 0.05

    def __post_init__(self):
        at_least(self, width=1, multipliers=1, num_blocks=1, attention=0, num_groups=1, patch=1)
        at_least(self, latent_channels=1, code_width=1, num_codes=2, commitment=0, restart_below=0)
        at_most(self, num_codes=MOST_CODES, commitment=1e6, restart_below=0.5)
        if not self.multipliers:
            raise ValueError("multipliers = []: must name at least one level")
        if beyond := [level for level in self.attention if level >= len(self.multipliers)]:
            raise ValueError(f"attention = {beyond}: levels go from 0 to {len(self.multipliers) - 1}")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay = {self.decay}: must be at least 0 and below 1")

    @property
    def stride(self) -> int:
        return self.patch * 2 ** (len(self.multipliers) - 1)

    def build(self, channels: int, height: int, width: int) -> "VQGAN":
        if height % self.stride or width % self.stride:
            raise ValueError(
                f"frames of {height}x{width} cannot be cut into tokens with stride {self.stride} (patch {self.patch} "
                f"and {len(self.multipliers)} levels); height and width must be multiples of {self.stride}"
            )
        return VQGAN(Format(channels, height, width), self)

    def codebook(self) -> Codebook:
        settings = {"beta": self.commitment, "restart_below": self.restart_below}
        if self.learn == "average":
            return AveragedCodebook(self.num_codes, self.code_width, decay=self.decay, **settings)
        return Codebook(self.num_codes, self.code_width, **settings)


class VQGAN(nn.Module):
    """`channels` is the width of codes; frames (b, t, c, h, w) <-> tokens (b, t, h / stride, w / stride)."""

    def __init__(self, format: Format, config: VQGANConfig):
        super().__init__()
        self.format, channels = format, format.channels
        self.patch, self.stride = config.patch, config.stride
        self.channels, self.num_codes = config.code_width, config.num_codes
        self.encoder = Encoder(channels * config.patch**2, config)
        self.to_codes = Conv(config.latent_channels, config.code_width, 1)
        self.codebook = config.codebook()
        self.from_codes = Conv(config.code_width, config.latent_channels, 1)
        self.decoder = Decoder(channels * config.patch**2, config)

    def encode(self, frames: Tensor) -> Tensor:
        """The vectors of the nearest codes (b, t, channels, h', w'): `embed(tokenize(frames))`, differentiable."""
        return self.quantize(self.features(frames))[0]

    def decode(self, latents: Tensor, extra: None = None) -> Tensor:
        """Codes' vectors (b, t, channels, h', w') -> frames (b, t, c, h, w), near [-1, 1] but not squashed."""
        x = self.decoder(self.from_codes(latents.flatten(0, 1)))
        return functional.pixel_shuffle(x, self.patch).unflatten(0, latents.shape[:2])

    @torch.no_grad()
    def tokenize(self, frames: Tensor) -> Tensor:
        """int64 (b, t, h', w')."""
        return self.codebook.nearest(self.features(frames).movedim(2, -1))

    def embed(self, ids: Tensor) -> Tensor:
        """Tokens (b, t, h', w') -> their codes' vectors (b, t, channels, h', w')."""
        return self.codebook.embed(ids).movedim(-1, 2)

    def features(self, frames: Tensor) -> Tensor:
        """What is compared with the codes: (b, t, channels, h', w')."""
        x = functional.pixel_unshuffle(frames.flatten(0, 1), self.patch)
        return self.to_codes(self.encoder(x)).unflatten(0, frames.shape[:2])

    def quantize(self, features: Tensor) -> Quantized:
        """`features` at the nearest codes, in their own layout, with the losses of the codebook."""
        found = self.codebook(features.movedim(2, -1))
        return found._replace(vectors=found.vectors.movedim(-1, 2))


class Encoder(nn.Module):
    """(n, c, h, w) -> (n, latent_channels, h / s, w / s), s = 2^(levels - 1)."""

    def __init__(self, inputs: int, config: VQGANConfig):
        super().__init__()
        widths = [config.width * multiplier for multiplier in config.multipliers]
        self.stem = Conv(inputs, config.width, 3)
        before = [config.width, *widths]
        self.levels = nn.ModuleList(
            Level(before[i], width, config.num_blocks, i in config.attention, config.num_groups)
            for i, width in enumerate(widths)
        )
        self.shrink = nn.ModuleList(Halving(width, width, 3) for width in widths[:-1])
        self.middle = Middle(widths[-1], config.num_groups)
        self.norm = GroupNorm(config.num_groups, widths[-1])
        self.head = Conv(widths[-1], config.latent_channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for i, level in enumerate(self.levels):
            x = level(x)
            if i < len(self.shrink):
                x = self.shrink[i](x)
        return self.head(functional.silu(self.norm(self.middle(x))))


class Decoder(nn.Module):
    """(n, latent_channels, h, w) -> (n, outputs, s h, s w); one block more at each level than the encoder has."""

    def __init__(self, outputs: int, config: VQGANConfig):
        super().__init__()
        widths = [config.width * multiplier for multiplier in reversed(config.multipliers)]
        attention = [len(widths) - 1 - level for level in config.attention]
        self.stem = Conv(config.latent_channels, widths[0], 3)
        self.middle = Middle(widths[0], config.num_groups)
        before = [widths[0], *widths]
        self.levels = nn.ModuleList(  # from coarse to fine
            Level(before[i], width, config.num_blocks + 1, i in attention, config.num_groups)
            for i, width in enumerate(widths)
        )
        self.grow = nn.ModuleList(Conv(width, width, 3) for width in widths[:-1])
        self.norm = GroupNorm(config.num_groups, widths[-1])
        self.head = Conv(widths[-1], outputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.middle(self.stem(x))
        for i, level in enumerate(self.levels):
            x = level(x)
            if i < len(self.grow):
                x = self.grow[i](functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.head(functional.silu(self.norm(x)))


class Halving(Conv):
    """A 3x3 convolution with stride 2 that pads the right and the lower edge alone."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.weight, self.bias, stride=2)


class Level(nn.Module):
    """Blocks of one width, each followed by attention where the level has it."""

    def __init__(self, inputs: int, width: int, num_blocks: int, attention: bool, num_groups: int):
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock(width if i else inputs, width, num_groups) for i in range(num_blocks))
        self.attention = nn.ModuleList(Attention(width, num_groups) for _ in range(num_blocks if attention else 0))

    def forward(self, x: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = block(x)
            if self.attention:
                x = self.attention[i](x)
        return x


class Middle(nn.Sequential):
    def __init__(self, width: int, num_groups: int):
        super().__init__(
            ResidualBlock(width, width, num_groups),
            Attention(width, num_groups),
            ResidualBlock(width, width, num_groups),
        )


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, width: int, num_groups: int):
        super().__init__()
        self.norm1 = GroupNorm(num_groups, inputs)
        self.conv1 = Conv(inputs, width, 3)
        self.norm2 = GroupNorm(num_groups, width)
        self.conv2 = Conv(width, width, 3)
        self.skip = Conv(inputs, width, 1) if inputs != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        h = self.conv2(functional.silu(self.norm2(h)))
        return self.skip(x) + h


class Attention(nn.Module):
    """Of each pixel to all pixels of its frame, one head, (n, width, h, w) -> the same shape."""

    def __init__(self, width: int, num_groups: int):
        super().__init__()
        self.norm = GroupNorm(num_groups, width)
        self.query, self.key, self.value, self.output = (Conv(width, width, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        query, key, value = (part(normed).flatten(2).mT for part in (self.query, self.key, self.value))  # n (h w) d
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return x + self.output(mixed.mT.unflatten(2, x.shape[2:]))
