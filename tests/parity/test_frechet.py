"""The Frechet distance against values of 50 digits (frechet*.npz), under both covariances."""

import pytest
import torch

from videopred.metrics.frechet import frechet_distance


def sets(gold) -> list[str]:
    """Names of the pairs of feature sets that the file itself holds."""
    return [key.removesuffix("/real") for key in gold.arrays if key.endswith("/real") and f"{key[:-4]}fd/n" in gold]


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.golden(takes=sets)
def test_frechet_distance(gold):
    """Relative, or absolute below 1, where what is left of the terms is their rounding."""
    for name in sets(gold):
        real, fake = (gold[f"{name}/{side}"].numpy() for side in ("real", "fake"))
        mean = ((real.mean(0) - fake.mean(0)) ** 2).sum()
        gold.check(f"{name}/mean_term", number(mean), least=1)
        for covariance in ("n", "n-1"):
            got = frechet_distance(real, fake, covariance)
            for key, value in (("fd", got), ("closed", got), ("trace_term", got - mean)):
                if f"{name}/{key}/{covariance}" in gold:
                    gold.check(f"{name}/{key}/{covariance}", number(value), least=1)
