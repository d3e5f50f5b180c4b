"""Ink and energy: ratios of sums over clips, their error bars, and black truth."""

import numpy as np
import pytest
import torch

from videopred.metrics import EnergyConfig, InkConfig


def score(config, predicted, true, ids=None):
    """Metric of (clip, frame) lists of grey levels, one 1x1 frame each."""
    predicted, true = (torch.tensor(x, dtype=torch.float64)[:, :, None, None, None] for x in (predicted, true))
    metric = config.build()
    metric.update(predicted, true, ids or [str(i) for i in range(len(true))])
    return metric.compute()


def test_ratio_of_sums_not_mean_of_ratios():
    predicted, true = [[0.1, 0.4], [0.9, 0.2]], [[0.2, 0.4], [0.2, 0.8]]
    np.testing.assert_allclose(score(InkConfig(), predicted, true).per_frame, [1.0 / 0.4, 0.6 / 1.2])
    np.testing.assert_allclose(score(EnergyConfig(), predicted, true).per_frame, [0.82 / 0.08, 0.2 / 0.8])
    np.testing.assert_allclose(score(InkConfig(), predicted, true).per_clip, [0.5 / 0.6, 1.1 / 1.0])


def test_mean_image_has_ink_one_and_little_energy():
    true = torch.eye(8).view(8, 1, 8, 1, 1).expand(8, 3, 8, 1, 1)  # clip i has all its light at place i, in 3 frames
    mean = true.mean((0, 1), keepdim=True).expand_as(true)
    for config, want in ((InkConfig(), 1.0), (EnergyConfig(), 1 / 8)):
        metric = config.build()
        metric.update(mean, true, [str(i) for i in range(8)])
        np.testing.assert_allclose(metric.compute().per_frame, want)


def test_standard_error_agrees_with_the_jackknife():
    rng = np.random.default_rng(0)
    true = rng.uniform(0.2, 1, (200, 1))
    predicted = (true * rng.uniform(0.3, 1, (200, 1))).tolist()
    got = score(InkConfig(), predicted, true.tolist())
    p, q = np.array(predicted)[:, 0], true[:, 0]
    left_out = (p.sum() - p) / (q.sum() - q)
    jackknife = np.sqrt(199 / 200 * ((left_out - left_out.mean()) ** 2).sum())
    assert got.stderr == pytest.approx(jackknife, rel=0.02)
    assert got.per_frame_stderr[0] == pytest.approx(got.stderr)


def test_black_truth_is_undefined_and_left_out_of_means():
    got = score(InkConfig(), [[0.1, 0.2], [0.3, 0.2]], [[0.0, 0.4], [0.0, 0.0]])
    assert np.isnan(got.per_frame[0]) and got.per_frame[1] == pytest.approx(1.0)
    assert got.mean == pytest.approx(1.0) and np.isnan(got.window(1, 1)[0])
    assert np.isnan(got.per_clip[1])
    assert np.isnan(score(InkConfig(), [[0.5]], [[0.0]]).mean)
