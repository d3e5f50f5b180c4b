"""Is a difference more than luck of the clips? The paired bootstrap over clips.

Both rows are scored on the same clips, so what varies is the difference of each clip. Clips are drawn again, as many as
there are and with replacement, RESAMPLES times; the interval holds the middle 95 % of the mean differences (Efron and
Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES, SEED, LEVEL = 10_000, 0, 0.95
PIECE = 500  # resamples at a time


@dataclass(frozen=True)
class Difference:
    """Of the mean of one row less that of another over `clips` clips, and its interval; how many clips are better."""

    mean: float
    low: float
    high: float
    better: int
    clips: int


def difference(own: dict[str, Any], own_clips: list[str], other: dict[str, Any], clips: list[str]) -> Difference | None:
    """Of a metric's entries in two rows of a result, over the clips that both have.

    None where the metric is no mean over clips (a Frechet distance, a ratio of sums) or has no better way, or fewer
    than 2 clips are common.
    """
    values = dict(zip(own_clips, own["per_clip"], strict=False))  # of a Frechet distance, none
    rivals = dict(zip(clips, other["per_clip"], strict=False))
    common = [clip for clip in values if values[clip] is not None and rivals.get(clip) is not None]
    if len(common) < 2 or own["better"] not in ("higher", "lower"):
        return None
    apart = np.array([values[clip] - rivals[clip] for clip in common])
    means = resampled(apart)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    better = int(((apart < 0) if own["better"] == "lower" else (apart > 0)).sum())
    return Difference(float(apart.mean()), float(low), float(high), better, len(common))


def resampled(values: np.ndarray) -> np.ndarray:
    """(RESAMPLES,) means of n of `values` (n,), drawn with replacement; the same draws for every row."""
    random = np.random.default_rng(SEED)
    pieces = [random.integers(len(values), size=(PIECE, len(values))) for _ in range(RESAMPLES // PIECE)]
    return np.concatenate([values[piece].mean(1) for piece in pieces])
