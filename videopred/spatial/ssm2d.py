"""2-D state space: every pixel sees the whole frame, through a kernel with few parameters however large the frame is.

Baron et al., "A 2-Dimensional State Space Layer for Spatial Inductive Bias" (ICLR 2024). As a mixer it stands where a
depthwise convolution would (`SSM2D`); as a block it is followed by norm, gelu and a 1x1 convolution (`SSM2DBlock`).
The arithmetic is in `videopred/nn/ssm2d.py`. What differs from the paper's code: each direction has systems of its own,
D is on, frames need not be square, and complex systems begin with a smaller C (there its size makes training unstable).
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import LayerNorm, at_least_float32
from videopred.nn.recall import Recall
from videopred.nn.ssm2d import convolve, kernel, merge

FLIPS: dict[int, tuple[tuple[int, ...], ...]] = {1: ((),), 2: ((), (-2, -1)), 4: ((), (-2,), (-1,), (-2, -1))}
COUPLED = {"full": (0, 1, 2, 3), "one_way": (0, 1, 3), "none": (0, 3)}  # which of A1..A4 are not zero


@dataclass(frozen=True)
class SSM2DMixerConfig:
    """A 2-D state space of each channel, in place of a depthwise convolution.

    num_states  : of one system (the paper's N); num_systems: of one direction, shared by equally many channels each
    directions  : 4 looks from every corner, 2 from two opposite ones, 1 from the upper left alone
    numbers     : `complex` systems can oscillate; they learn at a tenth of the learning rate, as the paper advises
    coupling    : `one_way` lets the vertical state feed the horizontal one, but not the reverse (A3 = 0); `none` lets
                  neither, so that a pixel sees its own row and column (A2 = A3 = 0)
    kernel_size : how many pixels the kernel reaches, its own one counted; 0: as far as the frame goes
    """

    kind: Literal["ssm2d"] = "ssm2d"
    num_states: int = 16
    num_systems: int = 2
    directions: Literal[1, 2, 4] = 4
    numbers: Literal["real", "complex"] = "real"
    coupling: Literal["full", "one_way", "none"] = "full"
    kernel_size: int = 0

    def __post_init__(self):
        at_least(self, num_states=1, num_systems=1, kernel_size=0)

    def build(self, width: int) -> nn.Module:
        return SSM2D(width, self)


@dataclass(frozen=True)
class SSM2DConfig(SSM2DMixerConfig):
    """2-D state space, norm, gelu, 1x1 convolution."""

    def build(self, width: int) -> nn.Module:
        return SSM2DBlock(width, self)


class SSM2DBlock(nn.Module):
    """(n, width, h, w) -> the same shape."""

    def __init__(self, width: int, config: SSM2DMixerConfig):
        super().__init__()
        self.mixer = SSM2D(width, config)
        self.norm = LayerNorm(width)
        self.out = Conv(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(functional.gelu(self.norm(self.mixer(x))))


class SSM2D(nn.Module):
    """(n, width, h, w) -> the same shape: the sum over directions of causal convolutions, and D x.

    Systems are kept in the order (direction, system), channels in the order (system, channel of it). Complex parameters
    are pairs, last axis 2: (modulus, angle) of A and (re, im) of B before the sigmoid, (re, im) of C.
    """

    def __init__(self, width: int, config: SSM2DMixerConfig):
        super().__init__()
        if width % config.num_systems:
            raise ValueError(
                f"width {width} cannot be shared by num_systems = {config.num_systems}; choose a divisor of {width}"
            )
        self.complex = config.numbers == "complex"
        self.coupled, self.flips = COUPLED[config.coupling], FLIPS[config.directions]
        self.kernel_size = config.kernel_size
        pair = (2,) if self.complex else ()
        systems = (config.directions, config.num_systems, config.num_states, *pair)
        raw_a = torch.empty(len(self.coupled), *systems)
        self.a = nn.Parameter(raw_a.uniform_(0.5, 3) if self.complex else raw_a.normal_(0, 0.2))
        self.b = nn.Parameter(torch.randn(2, *systems) * 0.2)
        c = torch.randn(2, config.directions, width, config.num_states, *pair)
        self.c = nn.Parameter(c / (5 * math.sqrt(config.directions)) if self.complex else c)
        self.d = nn.Parameter(torch.randn(width))
        self.recall = Recall()

    def no_decay(self) -> list[nn.Parameter]:
        """Parameters that weight decay would harm: all that set the kernel's shape and size."""
        return [self.a, self.b, self.c, self.d]

    def learning_rates(self) -> list[tuple[nn.Parameter, float]]:
        """Complex systems learn at a tenth of the rate: at the full one they are unstable."""
        return [(p, 0.1) for p in (self.a, self.b, self.c)] if self.complex else []

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        with torch.autocast(x.device.type, enabled=False):
            spectrum = self.recall((height, width), [self.a, self.b, self.c], lambda: self.spectrum(height, width))
            frames = at_least_float32(x)
            return (convolve(frames, spectrum) + self.d[:, None, None] * frames).to(x.dtype)

    def spectrum(self, height: int, width: int) -> Tensor:
        """Of all directions together, for frames of this size: (channels, 2 height, width + 1)."""
        reach = self.kernel_size or max(height, width)
        kernels = self.kernels(min(height, reach), min(width, reach))
        return merge(kernels, self.flips, height, width)

    def kernels(self, height: int, width: int) -> Tensor:
        """Each direction's kernel before it is turned, (directions, channels, height, width)."""
        a, b, c = self.constrained()
        systems = a.shape[1:3]
        grouped = c.unflatten(2, (systems[1], -1)).flatten(1, 2)
        flat = kernel(a.flatten(1, 2), b.flatten(1, 2), grouped, height, width)  # (directions systems) group i j
        return flat.unflatten(0, systems).flatten(1, 2)

    def constrained(self) -> tuple[Tensor, Tensor, Tensor]:
        """A (4, directions, systems, n) of modulus below 1, B (2, directions, systems, n), C (2, directions, c, n)."""
        a, b, c = (at_least_float32(p) for p in (self.a, self.b, self.c))
        a, b = a.sigmoid(), b.sigmoid()
        if self.complex:
            a, b, c = (
                torch.polar(a[..., 0], 2 * torch.pi * a[..., 1]),
                torch.view_as_complex(b),
                torch.view_as_complex(c),
            )
        rows = iter(a)
        zero = torch.zeros_like(a[0])
        return torch.stack([next(rows) if i in self.coupled else zero for i in range(4)]), b, c
