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
    """Known from pytorch/examples#522: frames of 20 and 5 dB average to 12.5 dB, their mean error is 7.87 dB."""
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
