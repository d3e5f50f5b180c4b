"""PSNR and SSIM against every golden array found: the papers' own code (convs5/metrics*.npz) and scikit-image."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from videopred.metrics import PSNROfMeanConfig
from videopred.metrics.psnr import psnr
from videopred.metrics.ssim import ssim

GOLDEN = Path(os.environ.get("VIDEOPRED_GOLDEN", Path(__file__).parent / "golden"))


def found(pattern: str) -> list:
    return [pytest.param(path, id=path.stem) for path in sorted(GOLDEN.rglob(pattern))]


@pytest.mark.parametrize("path", found("metrics*.npz"))
@pytest.mark.parametrize("kind", ["rgb", "gray"])
def test_papers_own_code(path, kind):
    """Its numbers were computed in float32: 1e-5 for SSIM, 1e-6 (relative) for PSNR."""
    gold = np.load(path)
    channels = slice(0, 3 if kind == "rgb" else 1)
    fake, real = (torch.from_numpy(gold[key][..., channels]) for key in ("fake_u8", "real_u8"))
    for name, function, tolerance in (("ssim", ssim, 1e-5), ("psnr", psnr, 1e-6)):
        got = function(fake, real).numpy()
        for level, value in (("frame", got), ("video", got.mean(1))):
            want = gold[f"{kind}/{name}_{level}"]
            assert np.abs(value - want).max() <= tolerance * np.abs(want).max(), (name, level)


@pytest.mark.parametrize("path", found("ssim_psnr*.npz"))
def test_single_frames(path):
    """float64 against float64: 1e-10."""
    gold = np.load(path)
    cases = sorted(key.removesuffix("/real") for key in gold.files if key.endswith("/real") and key != "video/real")
    assert cases
    for case in cases:
        fake, real = (torch.from_numpy(gold[f"{case}/{side}"])[None, None] for side in ("fake", "real"))
        assert ssim(fake, real).item() == pytest.approx(float(gold[f"{case}/ssim"]), abs=1e-10), case
        for channel, want in enumerate(gold[f"{case}/ssim_per_channel"]):
            one = slice(channel, channel + 1)
            assert ssim(fake[..., one], real[..., one]).item() == pytest.approx(float(want), abs=1e-10), case
        want = min(float(gold[f"{case}/psnr"]), 100.0)  # identical frames: infinite there, 100 here
        assert psnr(fake, real).item() == pytest.approx(want, abs=1e-10), case


@pytest.mark.parametrize("path", found("ssim_psnr*.npz"))
def test_videos_are_means_over_frames(path):
    gold = np.load(path)
    fake, real = (torch.from_numpy(gold[f"video/{side}"]) for side in ("fake", "real"))
    np.testing.assert_allclose(psnr(fake, real), gold["video/psnr_frame"], atol=1e-10)
    np.testing.assert_allclose(ssim(fake, real), gold["video/ssim_frame"], atol=1e-10)
    np.testing.assert_allclose(psnr(fake, real).mean(1), gold["video/psnr_mean_of_frames"], atol=1e-10)
    metric = PSNROfMeanConfig().build()
    metric.update(fake, real, [str(i) for i in range(len(fake))])
    np.testing.assert_allclose(metric.compute().per_clip, gold["video/psnr_of_mean_mse"], atol=1e-10)
    np.testing.assert_allclose(ssim(fake, real).mean(1), gold["video/ssim_video"], atol=1e-10)
