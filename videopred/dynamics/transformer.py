"""Transformer: softmax attention of every token to those of its own frame and of the frames before it.

Vaswani et al. (2017), made causal by frame, with a cache of keys and values for its state. It is the attention alone:
what follows it in a layer is the spatial block, and norms and skips are the stack's. A token is `patch` x `patch`
pixels; its place in time and space is told by rotary positions (Su et al., 2021), so that only distances matter and
a clip may be of any length. `window` is how many frames a token sees, its own among them.

The cache always has room for `window` - 1 frames, so the state has constant size; keys and values stay in the precision
they were computed in (a cache is no sum: nothing is gained by float32).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.attention import head_width, rotate, tokens
from videopred.nn.conv import Conv

State = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class TransformerConfig:
    kind: Literal["transformer"] = "transformer"
    num_heads: int = 4
    window: int = 32
    patch: int = 1

    def __post_init__(self):
        at_least(self, num_heads=1, window=1, patch=1)

    def build(self, width: int) -> "Transformer":
        return Transformer(width, self)


class Transformer(nn.Module):
    """(b, t, width, h, w) -> the same shape.

    The state is keys and values, (b, window - 1, heads, n, d) each, newest last, and how many frames of them there are.
    """

    def __init__(self, width: int, config: TransformerConfig):
        super().__init__()
        head_width(width, config.num_heads)
        self.num_heads, self.window, self.patch = config.num_heads, config.window, config.patch
        self.queries_keys_values = Conv(width * config.patch**2, 3 * width, 1)
        self.out = Conv(width, width * config.patch**2, 1)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        times = x.shape[:2]
        cut = functional.pixel_unshuffle(self._divisible(x).flatten(0, 1), self.patch)
        maps = self.queries_keys_values(cut).unflatten(0, times)
        q, k, v = (tokens(part, self.num_heads) for part in maps.chunk(3, 2))
        if state is not None:
            k, v = torch.cat([state[0], k], 1), torch.cat([state[1], v], 1)
        starts = range(0, times[1], self.window)
        y = torch.cat([self._attend(q, k, v, start, state, maps.shape[-2:]) for start in starts], 1)
        y = y.transpose(-2, -1).flatten(2, 3).unflatten(-1, maps.shape[-2:])  # b t width h/patch w/patch
        y = functional.pixel_shuffle(self.out(y.flatten(0, 1)), self.patch).unflatten(0, times)
        count = times[1] + (state[2] if state is not None else torch.zeros(len(x), dtype=torch.int64, device=x.device))
        return y, (self._newest(k), self._newest(v), count.clamp(max=self.window - 1))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, start: int, state: State | None, size: torch.Size) -> Tensor:
        """Outputs (b, t', heads, n, d) of up to `window` frames of queries, those from `start` on."""
        cached, end = k.shape[1] - q.shape[1], min(start + self.window, q.shape[1])
        first = max(0, start + cached - self.window + 1)
        frames = torch.arange(first, end + cached, device=q.device)  # that some query sees; frame i of q is i + cached
        asking = torch.arange(start + cached, end + cached, device=q.device)[:, None]
        seen = (frames <= asking) & (frames > asking - self.window)
        if state is not None:
            seen = seen & (frames >= cached - state[2][:, None, None, None])  # the rest of the cache is empty
        n = q.shape[3]
        mask = seen.repeat_interleave(n, -2).repeat_interleave(n, -1)
        q = rotate(q[:, start:end], asking[:, 0] - first, *size)
        k = rotate(k[:, first : end + cached], frames - first, *size)
        q, k, v = (part.transpose(1, 2).flatten(2, 3) for part in (q, k, v[:, first : end + cached]))
        y = functional.scaled_dot_product_attention(q, k, v, mask)
        return y.unflatten(2, (-1, n)).transpose(1, 2)

    def _newest(self, cache: Tensor) -> Tensor:
        """The last window - 1 frames, with empty ones before them where there are fewer."""
        cache = cache[:, max(0, cache.shape[1] - self.window + 1) :]
        room = self.window - 1 - cache.shape[1]
        return functional.pad(cache, (0, 0, 0, 0, 0, 0, room, 0)) if room else cache.clone()

    def _divisible(self, x: Tensor) -> Tensor:
        if x.shape[-2] % self.patch or x.shape[-1] % self.patch:
            raise ValueError(
                f"transformer.patch = {self.patch}: must divide height and width of the feature maps, "
                f"which are {tuple(x.shape[-2:])}"
            )
        return x
