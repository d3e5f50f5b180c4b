"""Linear attention over all tokens of this frame and those before it: the softmax replaced by a product of features.

Katharopoulos et al., "Transformers are RNNs" (ICML 2020), feature map elu + 1, and Choromanski et al., "Rethinking
Attention with Performers" (ICLR 2021), positive random features, which approximate the softmax. A token is a pixel.

    y = phi(q) S_t / phi(q) z_t       S_t = sum phi(k) v^T, z_t = sum phi(k), over the tokens of frames 1..t

Both maps are given as logarithms and both sums are kept relative to the largest phi(k) so far, one maximum per feature,
so that nothing overflows and z is never 0: one stabiliser per query, running maxima for the keys, none looks ahead. The
state has the same size after any number of frames.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.attention import head_width, orthogonal_directions, sinusoid, tokens
from videopred.nn.conv import Conv
from videopred.nn.norm import at_least_float32

State = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class LinearAttentionConfig:
    """Linear attention with the feature map elu + 1."""

    kind: Literal["linear_attention"] = "linear_attention"
    num_heads: int = 4

    def __post_init__(self):
        at_least(self, num_heads=1)

    def build(self, width: int) -> "LinearAttention":
        return LinearAttention(width, self.num_heads, LogElu())


@dataclass(frozen=True)
class PerformerConfig:
    """Linear attention with positive random features, drawn once and saved with the weights."""

    kind: Literal["performer"] = "performer"
    num_heads: int = 4
    num_features: int = 32

    def __post_init__(self):
        at_least(self, num_heads=1, num_features=1)

    def build(self, width: int) -> "LinearAttention":
        features = LogRandomFeatures(self.num_features, head_width(width, self.num_heads))
        return LinearAttention(width, self.num_heads, features)


class LogElu(nn.Module):
    """log(elu(x) + 1)."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x.clamp(min=0).log1p(), x)


class LogRandomFeatures(nn.Module):
    """w x - |x|^2 / 2 for each direction w, (..., d) -> (..., m); x is shrunk first, as softmax shrinks products."""

    def __init__(self, num: int, width: int):
        super().__init__()
        self.directions: Tensor
        self.register_buffer("directions", orthogonal_directions(num, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x / x.shape[-1] ** 0.25
        return x @ self.directions.mT - x.square().sum(-1, keepdim=True) / 2


class LinearAttention(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (sums, maxima, number of frames), sums float32."""

    def __init__(self, width: int, num_heads: int, log_features: nn.Module):
        super().__init__()
        head_width(width, num_heads)
        self.num_heads = num_heads
        self.log_features = log_features
        self.queries_keys = Conv(width, 2 * width, 1)
        self.values = Conv(width, width, 1)
        self.out = Conv(width, width, 1)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        before = state[2] if state is not None else torch.zeros(len(x), dtype=torch.int64, device=x.device)
        times = before[:, None] + torch.arange(x.shape[1], device=x.device)
        placed = x + _places(times, *x.shape[2:]).to(x.dtype)
        q, k = self.queries_keys(placed.flatten(0, 1)).unflatten(0, x.shape[:2]).chunk(2, 2)
        v = self.values(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        with torch.autocast(x.device.type, enabled=False):
            q, k, v = (tokens(at_least_float32(maps), self.num_heads) for maps in (q, k, v))
            y, sums, maxima = self._attend(self.log_features(q), self.log_features(k), v, state)
        y = y.transpose(-2, -1).flatten(2, 3).unflatten(-1, x.shape[-2:])  # b t (heads d) h w
        return self.out(y.to(x.dtype).flatten(0, 1)).unflatten(0, x.shape[:2]), (sums, maxima, before + x.shape[1])

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        """Log features q, k (b, t, heads, n, m) and values v (b, t, heads, n, d) -> y (b, t, heads, n, d), state."""
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # the sum of the last column is z
        tops = k.amax(3)  # b t heads m
        first = state[1] if state is not None else tops[:, 0]
        maxima = torch.cat([first[:, None], tops], 1).cummax(1).values
        shares = torch.einsum("bthnm,bthnd->bthmd", (k - maxima[:, 1:, :, None]).exp(), v)
        decays = (maxima[:, :-1] - maxima[:, 1:]).exp()[..., None]
        total = state[0] if state is not None else torch.zeros_like(shares[:, 0])
        sums = []
        for decay, share in zip(decays.unbind(1), shares.unbind(1), strict=True):
            total = decay * total + share
            sums.append(total)
        q = q + maxima[:, 1:, :, None]
        y = (q - q.amax(-1, keepdim=True)).exp() @ torch.stack(sums, 1)
        return y[..., :-1] / y[..., -1:], total, maxima[:, -1].clone()


def _places(times: Tensor, channels: int, height: int, width: int) -> Tensor:
    """Positions to add, (b, t, channels, height, width): a third of the channels each for time, row and column."""
    third = channels // 3
    rows, columns = (torch.arange(size, device=times.device) for size in (height, width))
    parts = [
        sinusoid(times, channels - 2 * third)[..., None, None].expand(-1, -1, -1, height, width),
        sinusoid(rows, third).mT[..., None].expand(*times.shape, -1, -1, width),
        sinusoid(columns, third).mT[:, None].expand(*times.shape, -1, height, -1),
    ]
    return torch.cat(parts, 2)
