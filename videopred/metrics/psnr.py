"""PSNR, as the ConvS5 and TECO papers compute it: per frame, then averaged over frames and clips.

    PSNR = -10 log10(mean over h, w, c of (predicted - target)^2)        frames in [0, 1], so the peak is 1

The mean of per-frame PSNRs is not the PSNR of the mean error, which is never higher; `psnr` is the first, and
`psnr_of_mean_mse` the second: of each clip's error averaged over frames, then averaged over clips. Identical frames
would be infinite and hide every other frame of a mean, so a PSNR counts at most 100 dB, and such frames are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from videopred.metrics.frames import per_frame
from videopred.metrics.numbers import PerFrame, Score, stderr

CAP = 100.0  # dB


@dataclass(frozen=True)
class PSNRConfig:
    """PSNR: of each frame, then averaged over frames and clips."""

    kind: Literal["psnr"] = "psnr"
    better: ClassVar[str] = "higher"
    unit: ClassVar[str] = "dB"

    def build(self) -> PerFrame:
        return PerFrame(psnr, cap=CAP)


@dataclass(frozen=True)
class PSNROfMeanConfig:
    """PSNR of each clip's mean error over frames, then averaged over clips; never higher than `psnr`."""

    kind: Literal["psnr_of_mean_mse"] = "psnr_of_mean_mse"
    better: ClassVar[str] = "higher"
    unit: ClassVar[str] = "dB"

    def build(self) -> "PSNROfMean":
        return PSNROfMean(_error_per_frame)


class PSNROfMean(PerFrame):
    def compute(self, order: Sequence[str] | None = None) -> "PSNROfMeanScore":
        return PSNROfMeanScore.of(*self.numbers.arrays(order))


class PSNROfMeanScore(Score):
    """At a frame the same as PSNR; over a window, of the error averaged over the window."""

    @classmethod
    def of(cls, clips: tuple[str, ...], errors: np.ndarray) -> "PSNROfMeanScore":
        """Of mean squared errors (clip, sample, frame)."""
        return cls(clips, _decibels(errors).mean(1), _decibels(errors.mean(2)).mean(1), {"mse": errors})

    def best(self, better: str) -> "PSNROfMeanScore | None":
        """Of each clip the sample of the least error over all its frames; None for one sample."""
        errors = self.arrays["mse"]
        chosen = errors[np.arange(len(errors)), errors.mean(2).argmin(1)]
        return self.of(self.clip_ids, chosen[:, None]) if errors.shape[1] > 1 else None

    def window(self, first: int, last: int) -> tuple[float, float]:
        clips = _decibels(self.arrays["mse"][:, :, first - 1 : last].mean(2)).mean(1)
        return float(clips.mean()), float(stderr(clips))


def psnr(predicted: Tensor, target: Tensor) -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1] -> dB (b, t), float64, at most 100."""
    return per_frame(_psnr, predicted, target)


def _error_per_frame(predicted: Tensor, target: Tensor) -> Tensor:
    return per_frame(_error, predicted, target)


def _psnr(x: Tensor, y: Tensor) -> Tensor:
    return _error(x, y).clamp_(min=10 ** (-CAP / 10)).log10_().mul_(-10)


def _error(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared error, (n, h, w, c) in [0, 1] -> (n,)."""
    return (x - y).square_().mean((1, 2, 3))


def _decibels(error: np.ndarray) -> np.ndarray:
    return -10 * np.log10(error.clip(10 ** (-CAP / 10)))
