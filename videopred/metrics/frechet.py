"""The Frechet distance of two sets of feature rows, in float64 and without the square root of a matrix.

    FD = |m - m'|^2 + tr(S) + tr(S') - 2 tr((S S')^(1/2))            m, S: mean and covariance of a set

With A, B the centred rows over sqrt(n), so that S = A'A, the last trace is the nuclear norm |A B'|_*, the sum of the
singular values. It never sees S: sets with fewer rows than dimensions, constant features and a large common offset
cost no accuracy, where the root of a product of covariances gives anything from 1e-4 to 1e50.

Of more rows than dimensions only a triangular R with R'R = A'A is used, by a QR decomposition: |A B'|_* = |R_A R_B'|_*,
because the Q's are orthonormal.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

# "n-1" is TF-GAN's and the papers', "n" that of StyleGAN-V and cd-fvd; at 256 rows they differ by 0.4 %.
Covariance = Literal["n-1", "n"]


@dataclass(frozen=True)
class _Moments:
    """Mean (d,) and spread of `count` rows; `factor` (k, d), k <= d, has factor' factor = sum of centred squares."""

    count: int
    mean: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> "_Moments":
        """Of rows (n, d). Raises ValueError if there is none or one is not finite."""
        rows = np.asarray(rows, np.float64)
        if rows.ndim != 2 or not len(rows):
            raise ValueError(f"feature rows must be (n, d) with n >= 1, got {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("a feature is not finite")
        mean = rows.mean(0)
        return cls(len(rows), mean, _reduced(rows - mean))

    def scaled(self, covariance: Covariance) -> np.ndarray:
        """A with A'A = the covariance. Raises ValueError where it is undefined."""
        degrees = self.count - 1 if covariance == "n-1" else self.count
        if not degrees:
            raise ValueError("a Frechet distance needs at least 2 clips: the covariance of one is undefined")
        return self.factor / np.sqrt(degrees)


def frechet_distance(first: np.ndarray, second: np.ndarray, covariance: Covariance = "n-1") -> float:
    """The distance, never negative, of two sets of rows (n, d), which may differ in n.

    Raises ValueError if they differ in d, if one has no row, one that is not finite, or only one under `n-1`.
    """
    a, b = _Moments.of(first), _Moments.of(second)
    if a.mean.shape != b.mean.shape:
        raise ValueError(f"features of {len(a.mean)} and {len(b.mean)} dimensions cannot be compared")
    x, y = a.scaled(covariance), b.scaled(covariance)
    shared = np.linalg.svd(x @ y.T, compute_uv=False).sum()
    distance = np.square(a.mean - b.mean).sum() + np.square(x).sum() + np.square(y).sum() - 2 * shared
    return max(0.0, float(distance))


def _reduced(rows: np.ndarray) -> np.ndarray:
    """(min(n, d), d) with the same product rows' rows."""
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))
