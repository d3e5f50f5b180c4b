"""The Frechet distance: closed forms, and sets that break other ways of computing it."""

import numpy as np
import pytest

from videopred.metrics.frechet import frechet_distance


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def by_eigenvalues(x, y):
    """tr (S S')^(1/2) = sum of the roots of the eigenvalues of S S'; good enough where n > d."""
    s, t = np.cov(x.T), np.cov(y.T)
    shared = np.sqrt(np.linalg.eigvals(s @ t).real.clip(0)).sum()
    return ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(s) + np.trace(t) - 2 * shared


@pytest.mark.parametrize("n", [2, 8, 16, 64, 256])
def test_finite_and_not_negative_whatever_the_number_of_rows(n):
    x, y = rows(n, 32), rows(n, 32, seed=1) + 0.1
    assert np.isfinite(frechet_distance(x, y)) and frechet_distance(x, y) > 0
    assert 0 <= frechet_distance(x, x) < 1e-12 * n * 32
    assert frechet_distance(x, y) == pytest.approx(frechet_distance(y, x), rel=1e-12)
    if n > 32:
        assert frechet_distance(x, y) == pytest.approx(by_eigenvalues(x, y), rel=1e-9)


def test_closed_forms():
    x = rows(20, 8)
    assert frechet_distance(x, x + 0.5) == pytest.approx(8 * 0.25, rel=1e-12)
    spread = np.cov(x.T).trace()
    assert frechet_distance(x, 3 * x) == pytest.approx((4 * x.mean(0) ** 2).sum() + 4 * spread, rel=1e-12)


def test_constant_features():
    constant = np.full((5, 4), 2.0)
    assert frechet_distance(constant, constant) == 0
    assert frechet_distance(constant, constant + 1) == 4
    x = rows(30, 4)
    assert frechet_distance(x, constant) == pytest.approx(((x.mean(0) - 2) ** 2).sum() + np.cov(x.T).trace())


def test_the_two_covariances():
    x, y = rows(11, 3), rows(11, 3, seed=1)
    mean = ((x.mean(0) - y.mean(0)) ** 2).sum()
    biased, unbiased = frechet_distance(x, y, "n") - mean, frechet_distance(x, y, "n-1") - mean
    assert unbiased == pytest.approx(11 / 10 * biased, rel=1e-10)


@pytest.mark.parametrize(("n", "even", "falling"), [(64, 1.38, 0.72), (256, 0.75, 0.32)])
def test_few_clips_make_a_distance_of_nothing(n, even, falling):
    """Two draws of one Gaussian of 400 dimensions, over its trace; variances equal, or 1/k: hence the floor."""
    x, y = rows(n, 400), rows(n, 400, seed=1)
    scale = np.arange(1, 401) ** -0.5
    assert frechet_distance(x, y) / 400 == pytest.approx(even, rel=0.05)
    assert frechet_distance(x * scale, y * scale) / (scale**2).sum() == pytest.approx(falling, rel=0.1)


def test_refusals():
    with pytest.raises(ValueError, match="at least 2 clips"):
        frechet_distance(rows(1, 3), rows(5, 3))
    with pytest.raises(ValueError, match="features of 3 and 4 dimensions"):
        frechet_distance(rows(5, 3), rows(5, 4))
    with pytest.raises(ValueError, match="not finite"):
        frechet_distance(np.array([[1.0, np.nan]]), rows(5, 2))
    with pytest.raises(ValueError, match=r"got \(0, 3\)"):
        frechet_distance(rows(5, 3), np.zeros((0, 3)))


def test_what_is_given_stays_unchanged():
    x = rows(9, 4)
    copy = x.copy()
    frechet_distance(x, x + 1)
    np.testing.assert_array_equal(x, copy)
