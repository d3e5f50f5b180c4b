"""MSE and MAE as OpenSTL and the papers on 10-frame Moving-MNIST report them: sums over a frame, not means.

    MSE = sum over h, w, c of (predicted - target)^2        frames in [0, 1]; the mean over frames and clips is reported
    MAE = sum over h, w, c of |predicted - target|

So they grow with the size of the frame: 64 x 64 x 1 has 4096 times the mean. Under a protocol frames are clipped and
rounded to uint8 first: sums of a model's own floating frames are a little different.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from videopred.metrics.frames import per_frame
from videopred.metrics.numbers import PerFrame


@dataclass(frozen=True)
class SumOfSquaresConfig:
    """OpenSTL's MSE: squared errors summed over a frame; the mean over frames and clips."""

    kind: Literal["openstl_mse"] = "openstl_mse"
    better: ClassVar[str] = "lower"
    unit: ClassVar[str] = ""

    def build(self) -> PerFrame:
        return PerFrame(squares)


@dataclass(frozen=True)
class SumOfAbsolutesConfig:
    """OpenSTL's MAE: absolute errors summed over a frame; the mean over frames and clips."""

    kind: Literal["openstl_mae"] = "openstl_mae"
    better: ClassVar[str] = "lower"
    unit: ClassVar[str] = ""

    def build(self) -> PerFrame:
        return PerFrame(absolutes)


def squares(predicted: Tensor, target: Tensor) -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1] -> sums (b, t), float64."""
    return per_frame(lambda x, y: (x - y).square_().sum((1, 2, 3)), predicted, target)


def absolutes(predicted: Tensor, target: Tensor) -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1] -> sums (b, t), float64."""
    return per_frame(lambda x, y: (x - y).abs_().sum((1, 2, 3)), predicted, target)
