"""SSIM as Wang et al. (2004) define it and TensorFlow computes it, which is what the ConvS5 and TECO papers report.

    SSIM = (2 mx my + C1)(2 sxy + C2) / ((mx^2 + my^2 + C1)(sx^2 + sy^2 + C2)),   C1 = 0.01^2, C2 = 0.03^2

Means and (biased) moments under an 11 x 11 Gaussian window of sigma 1.5, only where the window fits whole; per channel,
then averaged. scikit-image gives the same with `gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
data_range=1`; its defaults (7 x 7 uniform, sample covariance) give other numbers.

The window is separable, so a filter is a product with a band matrix from each side: at video sizes one matrix product
is 2 to 10 times faster in float64 than torch's convolution. float32 would lose digits in E[x^2] - m^2.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from videopred.metrics.frames import per_frame, require_pair
from videopred.metrics.numbers import PerFrame

WINDOW, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2


@dataclass(frozen=True)
class SSIMConfig:
    kind: Literal["ssim"] = "ssim"
    better: ClassVar[str] = "higher"
    unit: ClassVar[str] = ""

    def build(self) -> PerFrame:
        return PerFrame(ssim)


def ssim(predicted: Tensor, target: Tensor) -> Tensor:
    """Frames (b, t, h, w, c), uint8 or in [0, 1] -> SSIM (b, t), float64. Raises ValueError if h or w is below 11."""
    require_pair(predicted, target)
    h, w = predicted.shape[2:4]
    if min(h, w) < WINDOW:
        raise ValueError(f"SSIM needs frames of at least 11 x 11 pixels, its window; these are {h} x {w}")
    return per_frame(_ssim, predicted, target)


def similarity(x: Tensor, y: Tensor, stride: int = 1) -> Tensor:
    """SSIM (n,) of frames (n, c, h, w) in [0, 1], differentiable, in their dtype; at every `stride`-th place only."""
    mx, my = _blur(x, stride), _blur(y, stride)
    product, squares = mx * my, mx.square() + my.square()
    covariance = _blur(x * y, stride) - product
    variances = _blur(x * x + y * y, stride) - squares  # of x and y together
    top = (2 * product + C1) * (2 * covariance + C2)
    return (top / ((squares + C1) * (variances + C2))).mean((1, 2, 3))


def _ssim(x: Tensor, y: Tensor) -> Tensor:
    """(n, h, w, c) in [0, 1] -> (n,)."""
    x, y = (frames.movedim(-1, 1).contiguous() for frames in (x, y))  # (n, c, h, w): rows for the matrix product
    return similarity(x, y)


def _blur(x: Tensor, stride: int) -> Tensor:
    rows, columns = (_band(size, stride, x.dtype, x.device) for size in x.shape[-2:])
    return rows @ (x @ columns.T)


@lru_cache(maxsize=16)
def _band(size: int, stride: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(places, size): a row holds the Gaussian window at its place, at columns i..i+10 for i = 0, stride, ..."""
    window = torch.exp(-(torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2).square() / (2 * SIGMA**2))
    window = window / window.sum()
    starts = torch.arange(0, size - WINDOW + 1, stride)
    places = torch.arange(size)[None] - starts[:, None]  # position within the window
    inside = (places >= 0) & (places < WINDOW)
    return (window[places.clamp(0, WINDOW - 1)] * inside).to(device, dtype)
