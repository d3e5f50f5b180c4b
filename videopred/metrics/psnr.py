"""PSNR, as the ConvS5 and TECO papers compute it: per frame, then averaged over frames and clips.

    PSNR = -10 log10(mean over h, w, c of (predicted - target)^2)        frames in [0, 1], so the peak is 1

The mean of per-frame PSNRs is not the PSNR of the mean error; the first is meant here. Identical frames would be
infinite and hide every other frame of a mean, so a frame counts at most 100 dB, and such frames are counted.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from videopred.metrics.frames import per_frame
from videopred.metrics.numbers import PerFrame

CAP = 100.0  # dB


@dataclass(frozen=True)
class PSNRConfig:
    kind: Literal["psnr"] = "psnr"
    better: ClassVar[str] = "higher"
    unit: ClassVar[str] = "dB"

    def build(self) -> PerFrame:
        return PerFrame(psnr, cap=CAP)


def psnr(predicted: Tensor, target: Tensor) -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1] -> dB (b, t), float64, at most 100."""
    return per_frame(_psnr, predicted, target)


def _psnr(x: Tensor, y: Tensor) -> Tensor:
    """(n, h, w, c) in [0, 1] -> (n,)."""
    error = (x - y).square_().mean((1, 2, 3))
    return error.clamp_(min=10 ** (-CAP / 10)).log10_().mul_(-10)
