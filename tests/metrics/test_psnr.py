"""PSNR: closed form, and identical frames that do not hide the others."""

import numpy as np
import pytest
import torch

from videopred.metrics import PSNRConfig, PSNROfMeanConfig
from videopred.metrics.psnr import psnr


@pytest.mark.parametrize("offset", [0.5, 0.1, 1 / 255])
def test_constant_offset(offset):
    true = torch.rand(1, 2, 5, 6, 3, dtype=torch.float64) * (1 - offset)
    np.testing.assert_allclose(psnr(true + offset, true), -20 * np.log10(offset), rtol=1e-9)


def test_identical_frames_are_capped_and_counted():
    true = torch.full((2, 3, 4, 4, 1), 128, dtype=torch.uint8)
    predicted = true.clone()
    predicted[:, 1:] += 51  # 0.2 of the range: 13.98 dB
    metric = PSNRConfig().build()
    metric.update(predicted, true, ["a", "b"])
    score = metric.compute()
    np.testing.assert_allclose(score.per_frame, [100, -20 * np.log10(0.2), -20 * np.log10(0.2)])
    assert score.counts == {"capped_frames": 2}


def test_of_the_mean_error():
    """The two are not the same (pytorch/examples#522): frames of 20 and 5 dB average to 12.5, their error to 7.87."""
    true = torch.zeros(2, 2, 4, 4, 1, dtype=torch.float64)
    predicted = true.clone()
    predicted[0, 0], predicted[0, 1] = 0.1, 10 ** (-5 / 20)
    predicted[1] = 0.5
    frames, mean = PSNRConfig().build(), PSNROfMeanConfig().build()
    for metric in (frames, mean):
        metric.update(predicted, true, ["a", "b"])
    clip = -10 * np.log10((0.01 + 10**-0.5) / 2)
    assert frames.compute().per_clip[0] == pytest.approx(12.5)
    np.testing.assert_allclose(mean.compute().per_clip, [clip, 20 * np.log10(2)])
    assert mean.compute().mean == pytest.approx((clip + 20 * np.log10(2)) / 2)
    np.testing.assert_allclose(mean.compute().per_frame, frames.compute().per_frame)
    assert mean.compute().window(1, 1)[0] == pytest.approx(frames.compute().window(1, 1)[0])
    assert mean.compute().stderr == pytest.approx(np.std([clip, 20 * np.log10(2)], ddof=1) / np.sqrt(2))


def test_the_best_sample_by_its_mean_error():
    """Which is not the one of the highest mean of frames: 40 and 5 dB beat 20 and 20 dB only there."""
    true = torch.zeros(1, 2, 4, 4, 1, dtype=torch.float64)
    frames, mean = PSNRConfig().build(), PSNROfMeanConfig().build()
    for sample, levels in enumerate(([40, 5], [20, 20])):
        predicted = true + 10 ** (torch.tensor(levels, dtype=torch.float64).view(1, 2, 1, 1, 1) / -20)
        for metric in (frames, mean):
            metric.update(predicted, true, ["a"], sample)
    chosen = mean.compute().best("higher")
    assert chosen.mean == pytest.approx(20) and chosen.window(1, 1)[0] == pytest.approx(20)
    assert mean.compute().mean == pytest.approx((20 - 10 * np.log10((1e-4 + 10**-0.5) / 2)) / 2)
    assert frames.compute().best("higher").mean == pytest.approx(22.5)
    assert mean.compute().best("higher").best("higher") is None


def test_frames_at_the_cap_are_counted_whatever_the_last_bit_of_a_logarithm():
    frames = torch.zeros(1, 1, 4, 4, 1)
    metric = PSNRConfig().build()
    metric.measure = lambda *_: torch.full((1, 1), 100.0, dtype=torch.float64).nextafter(torch.tensor(0.0).double())
    metric.update(frames, frames, ["a"])
    assert metric.compute().counts == {"capped_frames": 1}
