"""MaskGit: a bidirectional transformer that fills in the masked tokens of one frame, given features of that frame.

Chang et al., "MaskGIT" (CVPR 2022), as the prior of TECO (Yan et al., "Temporally Consistent Transformers for Video
Generation", ICML 2023). A frame's tokens, some of them masked, become vectors; the features are concatenated to them:

    z = fc_in([table[token], features]) + row position, column position
    z = block(z)                                                            `depth` times; every token sees all others
    logits = table[:num_codes] norm(gelu(fc(norm(gelu(fc_out(z)))))) + bias

It learns with a random share of the tokens masked: `mask_ratio` of a number in 0..1. It draws by draft and revise (Lee
et al., "Draft-and-Revise", NeurIPS 2022): at first all tokens are masked, and a random order of them is cut into
`draft_steps` parts; each part is drawn given those before it. Then, `revisions` times, a new order is cut into
`revise_steps` parts, and each part is masked and drawn again given all others.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.attention import head_width
from videopred.nn.conv import activate
from videopred.nn.norm import EPSILON
from videopred.nn.transformer import Block, linear
from videopred.predictors.sampling import choose, uniform

Schedule = Literal["cosine", "uniform", "pow2", "pow0.5"]
LEAST_RATIO = 1e-6


@dataclass(frozen=True)
class MaskGitConfig:
    """`vocab_width` is that of a token's vector, `token_width` that of the transformer; the papers' are the defaults.

    More steps and revisions make better frames and cost as many calls of the prior each; see `MaskGit.calls`.
    """

    vocab_width: int = 256
    token_width: int = 512
    mlp_width: int = 2048
    num_heads: int = 8
    depth: int = 8
    schedule: Schedule = "cosine"
    draft_steps: int = 8
    revise_steps: int = 8
    revisions: int = 2
    temperature: float = 1.0

    def __post_init__(self):
        at_least(self, vocab_width=1, token_width=2, mlp_width=1, num_heads=1, depth=1)
        at_least(self, draft_steps=1, revise_steps=1, revisions=0)
        head_width(self.token_width, self.num_heads)
        if self.token_width % 2:
            raise ValueError(
                f"token_width = {self.token_width}: must be even, for rows and columns have half of it each"
            )
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature = {self.temperature}: must be above 0, and finite")

    def build(self, num_codes: int, features: int, grid: tuple[int, int]) -> "MaskGit":
        return MaskGit(num_codes, features, grid, self)


class MaskGit(nn.Module):
    """tokens (n, h, w) and features (n, d, h, w) -> logits (n, h, w, num_codes); a token of -1 is masked."""

    def __init__(self, num_codes: int, features: int, grid: tuple[int, int], config: MaskGitConfig):
        super().__init__()
        self.config, self.num_codes, self.grid = config, num_codes, grid
        width, half = config.token_width, config.token_width // 2
        self.table = nn.Parameter(torch.randn(num_codes + 1, config.vocab_width) * 0.02)  # the last one is the mask
        self.rows = nn.Parameter(torch.randn(grid[0], half) * 0.02)
        self.columns = nn.Parameter(torch.randn(grid[1], half) * 0.02)
        self.fc_in = linear(config.vocab_width + features, width)
        self.blocks = nn.ModuleList(Block(width, config.mlp_width, config.num_heads) for _ in range(config.depth))
        self.fc_out = linear(width, width)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.head = linear(width, config.vocab_width)
        nn.init.normal_(self.head.weight, std=0.02)
        self.head_norm = nn.LayerNorm(config.vocab_width, EPSILON)
        self.bias = nn.Parameter(torch.zeros(num_codes))

    def no_decay(self) -> list[nn.Parameter]:
        return [self.table, self.rows, self.columns]

    @property
    def calls(self) -> int:
        """How often the transformer runs to draw one frame."""
        config = self.config
        return len(self._parts(config.draft_steps)) + config.revisions * len(self._parts(config.revise_steps))

    @property
    def length(self) -> int:
        """Tokens of a frame."""
        return self.grid[0] * self.grid[1]

    def noise_shape(self) -> tuple[int, int, int]:
        """Of one frame: for the draft and each revision an order of the tokens, and a number that draws each."""
        return 1 + self.config.revisions, 2, self.length

    def forward(self, tokens: Tensor, features: Tensor, places: Tensor | None = None) -> Tensor:
        """With `places` (n, k), counted along rows, the logits of these tokens alone, (n, k, num_codes)."""
        self._require_grid(tokens, features)
        z = self._embed(tokens.flatten(1), features)
        *blocks, last = self.blocks
        for block in blocks:
            z = block(z)
        z = last(z, places=places)  # others need no more than be seen there
        z = self.norm(activate(self.fc_out(z), "gelu"))
        words = self.head_norm(activate(self.head(z), "gelu"))
        logits = nn.functional.linear(words, self.table[: self.num_codes], self.bias)
        return logits.unflatten(1, self.grid) if places is None else logits

    def sample(self, features: Tensor, noise: Tensor) -> Tensor:
        """Codes (n, h, w) of frames with features (n, d, h, w), by draft and revise; noise (n, *noise_shape())."""
        tokens = torch.full((len(features), self.length), -1, device=features.device)
        for places, chance in self._steps(noise):
            tokens = tokens.scatter(1, places, -1)
            logits = self(tokens.unflatten(1, self.grid), features, places)
            tokens = tokens.scatter(1, places, choose(logits, chance, self.config.temperature))
        return tokens.unflatten(1, self.grid)

    def mask(self, share: Tensor, order: Tensor) -> Tensor:
        """Which tokens to mask in training, (n, h, w): so many as `mask_ratio` of `share` (n,) in 0..1 says.

        They are the first by the random numbers `order` (n, h w).
        """
        count = (mask_ratio(share, self.config.schedule) * self.length).floor().clamp(min=1)
        return order.argsort(-1).argsort(-1).lt(count[:, None]).unflatten(1, self.grid)

    def _steps(self, noise: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each call: the places (n, k) to be drawn, and the numbers in 0..1 that draw them."""
        for i, (order, chance) in enumerate(pair.unbind(1) for pair in noise.unbind(1)):
            order, chance = order.argsort(-1), uniform(chance)
            for part in self._parts(self.config.revise_steps if i else self.config.draft_steps):
                places = order[:, part]
                yield places, chance.gather(1, places)

    def _parts(self, steps: int) -> list[slice]:
        """The order of the tokens cut into `steps` nearly equal parts, larger ones first, without empty ones."""
        ends = itertools.accumulate(part_sizes(self.length, steps))
        return [slice(end - size, end) for end, size in zip(ends, part_sizes(self.length, steps)) if size]

    def _embed(self, tokens: Tensor, features: Tensor) -> Tensor:
        """(n, h w), (n, d, h, w) -> (n, h w, token_width)."""
        vectors = self.table[torch.where(tokens < 0, self.num_codes, tokens)]
        z = self.fc_in(torch.cat([vectors.to(features.dtype), features.flatten(2).mT], -1))
        rows, columns = self.rows.repeat_interleave(self.grid[1], 0), self.columns.repeat(self.grid[0], 1)
        return z + torch.cat([rows, columns], -1).to(z.dtype)

    def _require_grid(self, tokens: Tensor, features: Tensor) -> None:
        for what, found in ("tokens", tokens.shape[-2:]), ("features", features.shape[-2:]):
            if tuple(found) != self.grid:
                raise ValueError(f"{what} of {tuple(found)}: this prior has learned a grid of {self.grid}; give such")


def mask_ratio(share: Tensor, schedule: Schedule) -> Tensor:
    """The share of tokens that is masked, for numbers `share` in 0..1; it falls from 1 to 1e-6."""
    match schedule:
        case "cosine":
            ratio = torch.cos(math.pi / 2 * share)
        case "uniform":
            ratio = 1 - share
        case "pow2" | "pow0.5":
            ratio = 1 - share ** float(schedule.removeprefix("pow"))
    return ratio.clamp(LEAST_RATIO, 1)


def part_sizes(length: int, steps: int) -> list[int]:
    """`length` tokens in `steps` nearly equal parts, the larger ones first."""
    return [length // steps + (i < length % steps) for i in range(steps)]
