"""Ink and energy: does a rollout keep the brightness, and does it stay sharp, however far it has drifted?

    ink    at frame t = sum over clips and pixels of predicted   / sum of true         1: as much light as in the truth
    energy at frame t = sum over clips and pixels of predicted^2 / sum of true^2       1: as sharp; a blur has less

Frames in [0, 1] with black at 0, as on Moving-MNIST. Fading to black shows as ink 0; the mean image, the best guess of
one who lost track, has ink 1 and energy far below 1. Neither says that anything is in the right place.
The sums are kept per clip, so that ratios of any set of clips can be formed exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from videopred.metrics.frames import per_frame
from videopred.metrics.numbers import Numbers, Score


@dataclass(frozen=True)
class InkConfig:
    """Ink: predicted over true intensity, summed over clips, at each frame; 1 is right, 0 has faded to black."""

    kind: Literal["ink"] = "ink"
    better: ClassVar[str] = "one"
    unit: ClassVar[str] = ""

    def build(self) -> "Intensity":
        return Intensity(power=1)


@dataclass(frozen=True)
class EnergyConfig:
    """Energy: the same of squared intensity; a blurred or averaged picture keeps its ink and loses its energy."""

    kind: Literal["energy"] = "energy"
    better: ClassVar[str] = "one"
    unit: ClassVar[str] = ""

    def build(self) -> "Intensity":
        return Intensity(power=2)


class Intensity:
    """Keeps the sums of predicted and of true intensity to a power, per (clip, sample, frame)."""

    def __init__(self, *, power: int):
        self.power = power
        self.numbers = Numbers()

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None:
        self.numbers.add(per_frame(self._sums, predicted, target), clip_ids, sample)

    def merge(self, other: "Intensity") -> None:
        self.numbers.merge(other.numbers)

    def _sums(self, *frames: Tensor) -> Tensor:
        """Predicted and true frames (n, h, w, c) -> (2, n)."""
        return torch.stack([x.pow(self.power).sum((1, 2, 3)) for x in frames])

    def compute(self, order: Sequence[str] | None = None) -> Score:
        clips, (predicted, true) = self.numbers.arrays(order)
        top, bottom = predicted.mean(1), true.mean(1)  # (clip, frame)
        ratio = _divide(top.mean(0), bottom.mean(0))
        # the ratio of means, linearised: these terms average to it, and their spread gives its error (delta method)
        terms = ratio + _divide(top - ratio * bottom, np.broadcast_to(bottom.mean(0), top.shape))
        per_clip = _divide(top.sum(1), bottom.sum(1))
        return Score(clips, terms, per_clip, {"predicted": predicted, "true": true})


def _divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """NaN where the truth is all black."""
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
