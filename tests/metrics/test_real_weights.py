"""Numbers that others printed for the real weight files, where these are here; skipped where they are not.

Of eight black clips against eight white ones (64 x 64, RGB), a known example of a public collection of metrics.
"""

import pytest
import torch

from videopred import weights
from videopred.metrics import FVDConfig, LPIPSConfig


def of_black_and_white(metric, frames: int) -> float:
    """The value for true clips of zeros and predicted ones of ones; two, as eight equal ones say no more."""
    black = torch.zeros(2, frames, 64, 64, 3, dtype=torch.uint8)
    metric.update(torch.full_like(black, 255), black, ["a", "b"])
    return metric.compute().mean


def needs(name: str) -> None:
    try:
        weights.load(name)
    except weights.WeightsMissing as error:
        pytest.skip(str(error))


def test_lpips():
    pytest.importorskip("lpips")
    needs("alexnet")
    assert of_black_and_white(LPIPSConfig().build(), 1) == pytest.approx(0.8140146732330322, abs=1e-5)


@pytest.mark.parametrize(("frames", "distance"), [(16, 153.11), (24, 66.08), (30, 151.168)])
def test_fvd(frames, distance):
    needs("i3d_torchscript")
    metric = FVDConfig(weights="i3d_torchscript").build()
    assert of_black_and_white(metric, frames) == pytest.approx(distance, rel=1e-3)


def test_both_files_hold_one_network():
    needs("i3d_torchscript")
    needs("i3d_pretrained_400")
    found = [
        of_black_and_white(FVDConfig(weights=name).build(), 16) for name in ("i3d_torchscript", "i3d_pretrained_400")
    ]
    assert found[1] == pytest.approx(found[0], rel=5e-3)
