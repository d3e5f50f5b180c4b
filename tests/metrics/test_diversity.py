"""Diversity beside the plain mean over pairs of samples."""

from itertools import combinations

import pytest
import torch

from videopred.metrics import DiversityConfig


def scored(samples: torch.Tensor, true: torch.Tensor):
    """Samples (s, b, t, h, w, c) of clips."""
    metric = DiversityConfig().build()
    for number, sample in enumerate(samples):
        metric.update(sample, true, [f"test/{i}" for i in range(len(sample))], number)
    return metric.compute()


def plain(samples: torch.Tensor) -> torch.Tensor:
    """(b, t)."""
    return torch.stack([(x - y).square().mean((2, 3, 4)) for x, y in combinations(samples.double(), 2)]).mean(0)


def test_small_frames_are_compared_exactly():
    samples = torch.rand(3, 2, 4, 5, 7, 3)
    score = scored(samples, torch.rand(2, 4, 5, 7, 3))
    torch.testing.assert_close(torch.from_numpy(score.terms), plain(samples))
    assert score.arrays["pairs"].shape == (2, 3, 4)


def test_large_frames_are_compared_without_bias():
    """128 sums of 12,288 values: each pair has a deviation of 12 %, the mean over 60 of them much less."""
    generator = torch.Generator().manual_seed(3)
    smooth = torch.nn.functional.interpolate(torch.rand(4 * 10, 3, 8, 8, generator=generator), size=64, mode="bilinear")
    samples = smooth.movedim(1, -1).reshape(4, 2, 5, 64, 64, 3)
    score = scored(samples, samples[0])
    assert score.mean == pytest.approx(plain(samples).mean().item(), rel=0.06)


def test_a_model_that_repeats_itself_has_none_and_the_right_one_as_much_as_its_error():
    draws = torch.rand(5, 2, 3, 16, 16, 1, generator=torch.Generator().manual_seed(0))
    true, samples = draws[0], draws[1:]
    score = scored(samples, true)
    assert score.extras["ratio_to_error"] == pytest.approx(1, abs=0.1)
    same = scored(samples[:1].expand(3, -1, -1, -1, -1, -1), true)
    assert same.mean == 0 and same.extras["ratio_to_error"] == 0


def test_one_sample_says_what_to_do():
    with pytest.raises(ValueError, match="two or more: ask for --samples 2"):
        scored(torch.rand(1, 2, 3, 4, 4, 1), torch.rand(2, 3, 4, 4, 1))
