"""Diversity: how far apart the samples of a clip are; 0 where a model draws the same again and again.

    diversity at frame t = mean over clips and over pairs of samples i < j of the mean over h, w, c of (x_i - x_j)^2

Frames in [0, 1]. Two draws of the right distribution are as far from each other as each is from the truth, which is a
draw too: so its ratio to the samples' mean squared error, `ratio_to_error`, would be 1. It is 0 for a collapsed prior,
and a model whose samples differ by noise has more than it should.

Frames are not kept, but SIZE sums of each: over disjoint random sets of its values, with random signs. The squared
distance of two frames' sums is that of the frames but for an error without bias, whose deviation is sqrt(2 / SIZE) of
it (Charikar et al., "Finding frequent items in data streams", 2002); exact where a frame has no more values than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from videopred.metrics.frames import per_frame
from videopred.metrics.numbers import Numbers, Score

SIZE = 128


@dataclass(frozen=True)
class DiversityConfig:
    """Diversity: mean squared difference between samples of a clip, over pairs; the protocol must ask for several."""

    kind: Literal["diversity"] = "diversity"
    better: ClassVar[str] = "neither"  # noise has much of it
    unit: ClassVar[str] = ""

    def build(self) -> "Diversity":
        return Diversity()


class Diversity:
    """Keeps the sums of each predicted frame and its squared error, (SIZE + 1, clip, sample, frame)."""

    def __init__(self):
        self.numbers = Numbers()

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None:
        self.numbers.add(per_frame(_kept, predicted, target), clip_ids, sample)

    def merge(self, other: "Diversity") -> None:
        self.numbers.merge(other.numbers)

    def compute(self, order: Sequence[str] | None = None) -> Score:
        clips, kept = self.numbers.arrays(order)
        sums, errors = kept[:-1], kept[-1]
        pairs = list(combinations(range(errors.shape[1]), 2))
        if not pairs:
            raise ValueError("one sample of each clip was drawn, and diversity is of two or more: ask for --samples 2")
        apart = np.stack([np.square(sums[:, :, i] - sums[:, :, j]).sum(0) for i, j in pairs], 1)  # clip, pair, frame
        terms = apart.mean(1)
        ratio = float(terms.mean() / errors.mean()) if errors.any() else None
        return Score(clips, terms, terms.mean(1), {"pairs": apart}, extras={"ratio_to_error": ratio})


def _kept(predicted: Tensor, target: Tensor) -> Tensor:
    """Frames (n, h, w, c) -> their sums, scaled to the mean over values, and the squared error, (SIZE + 1, n)."""
    values = predicted.flatten(1)
    order, signs = (x.to(values.device) for x in _sets(values.shape[1]))
    padded = torch.nn.functional.pad(values, (0, len(order) - values.shape[1]))
    sums = (padded[:, order] * signs).unflatten(1, (SIZE, -1)).sum(2) / values.shape[1] ** 0.5
    return torch.cat([sums.T, (predicted - target).square().mean((1, 2, 3))[None]])


@lru_cache(maxsize=2)
def _sets(count: int) -> tuple[Tensor, Tensor]:
    """A random order of `count` values, filled up to a multiple of SIZE, and signs for them; always the same."""
    generator = torch.Generator().manual_seed(0)
    length = -(-count // SIZE) * SIZE
    return torch.randperm(length, generator=generator), torch.randint(2, (length,), generator=generator) * 2.0 - 1
