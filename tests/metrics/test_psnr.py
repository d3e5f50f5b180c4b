"""PSNR: closed form, and identical frames that do not hide the others."""

import numpy as np
import pytest
import torch

from videopred.metrics import PSNRConfig
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
