"""What attention needs beside torch's: tokens of feature maps, heads, positions, masks."""

import math

import torch
from torch import Tensor

from videopred.nn.norm import at_least_float32


def tokens(maps: Tensor, num_heads: int) -> Tensor:
    """Feature maps (b, t, heads d, h, w) as tokens (b, t, heads, h w, d)."""
    return maps.flatten(3).unflatten(2, (num_heads, -1)).transpose(-2, -1)


def head_width(width: int, num_heads: int) -> int:
    """Channels per head. Raises ValueError if they are not alike."""
    if width % num_heads:
        raise ValueError(f"num_heads = {num_heads}: must divide the width, {width}, so that all heads are equal")
    return width // num_heads


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """Vaswani et al. (2017), all sines before all cosines, of frequencies 10000^(-2i/width).

    Integers (...,) -> (..., width), float64.
    """
    frequencies = 10000.0 ** (-2 * torch.arange((width + 1) // 2, device=positions.device).double() / width)
    angles = positions[..., None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)[..., :width]


def rotate(x: Tensor, times: Tensor, height: int, width: int) -> Tensor:
    """Rotary positions (Su et al., 2021): turns pairs of channels by time, row and column, a third of the pairs each.

    x (b, t, heads, height width, d), times (t,). The product of two turned vectors depends on differences of position
    alone. Time gets what cannot be divided by three; an odd channel stays.
    """
    pairs = x.shape[-1] // 2
    in_space = pairs // 3
    pixels = torch.arange(height * width, device=times.device)
    angles = torch.cat(
        [
            _angles(times, pairs - 2 * in_space)[:, None].expand(-1, len(pixels), -1),
            _angles(pixels // width, in_space).expand(len(times), -1, -1),
            _angles(pixels % width, in_space).expand(len(times), -1, -1),
        ],
        -1,
    )[:, None]  # t 1 n pairs
    even, odd, rest = at_least_float32(x).split([pairs, pairs, x.shape[-1] - 2 * pairs], -1)
    sin, cos = angles.sin().to(even), angles.cos().to(even)
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos, rest], -1).to(x.dtype)


def _angles(positions: Tensor, num: int) -> Tensor:
    """Of wavelengths from 6 to about 600 positions, (n, num), float64."""
    return positions[:, None] * 100.0 ** (-torch.arange(num, device=positions.device).double() / max(1, num))


def orthogonal_directions(num: int, width: int) -> Tensor:
    """Normal vectors (num, width), orthogonal within each `width` of them, with lengths as independent ones have."""
    blocks = [torch.linalg.qr(torch.randn(width, width)) for _ in range(math.ceil(num / width))]
    uniform = torch.cat([q * r.diagonal().sign() for q, r in blocks])  # the signs of a bare q are not random
    return uniform[:num] * torch.randn(num, width).norm(dim=1, keepdim=True)
