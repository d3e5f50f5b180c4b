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


def _ssim(x: Tensor, y: Tensor) -> Tensor:
    """(n, h, w, c) in [0, 1] -> (n,)."""
    x, y = (frames.movedim(-1, 1).contiguous() for frames in (x, y))  # (n, c, h, w): rows for the matrix product
    mx, my = _blur(x), _blur(y)
    product, squares = mx * my, mx.square().add_(my.square())
    covariance = _blur(x * y).sub_(product)
    variances = _blur((x * x).add_(y * y)).sub_(squares)  # of x and y together
    top = product.mul_(2).add_(C1).mul_(covariance.mul_(2).add_(C2))
    return top.div_(squares.add_(C1).mul_(variances.add_(C2))).mean((1, 2, 3))


def _blur(x: Tensor) -> Tensor:
    rows, columns = (_band(size, x.device) for size in x.shape[-2:])
    return rows @ (x @ columns.T)


@lru_cache(maxsize=16)
def _band(size: int, device: torch.device) -> Tensor:
    """(size - 10, size): row i holds the Gaussian window at columns i..i+10."""
    window = torch.exp(-(torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2).square() / (2 * SIGMA**2))
    window = window / window.sum()
    places = torch.arange(size)[None] - torch.arange(size - WINDOW + 1)[:, None]  # position within the window
    inside = (places >= 0) & (places < WINDOW)
    return (window[places.clamp(0, WINDOW - 1)] * inside).to(device)
