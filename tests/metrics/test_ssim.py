"""SSIM against scikit-image's Gaussian setting, in pieces as well as whole."""

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity

from videopred.metrics import frames
from videopred.metrics.ssim import ssim


@pytest.mark.parametrize("shape", [(2, 3, 11, 11, 1), (1, 2, 16, 31, 3), (1, 4, 40, 12, 1)])
def test_equals_scikit_image(shape, monkeypatch):
    monkeypatch.setattr(frames, "CHUNK", 3 * 16 * 31 * 2)  # so that a batch goes through in several pieces
    rng = np.random.default_rng(0)
    real = rng.integers(0, 256, shape, dtype=np.uint8)
    fake = np.clip(real + rng.normal(0, 40, shape), 0, 255).astype(np.uint8)
    got = ssim(torch.from_numpy(fake), torch.from_numpy(real))
    for b in range(shape[0]):
        for t in range(shape[1]):
            want = structural_similarity(
                real[b, t] / 255,
                fake[b, t] / 255,
                channel_axis=-1,
                data_range=1,
                gaussian_weights=True,
                sigma=1.5,
                use_sample_covariance=False,
            )
            assert float(got[b, t]) == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("size", [(10, 64), (64, 10), (1, 1)])
def test_frames_smaller_than_the_window_are_refused(size):
    black = torch.zeros(1, 1, *size, 1)
    with pytest.raises(ValueError, match=f"at least 11 x 11 pixels, its window; these are {size[0]} x {size[1]}"):
        ssim(black, black)
