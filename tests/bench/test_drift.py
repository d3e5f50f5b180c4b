"""Drift is the difference of two rollouts in [-1, 1], and error that to the frame which was to come."""

import pytest
import torch

from videopred.bench import drift as bench
from videopred.data import MovingMNISTConfig


class Still(torch.nn.Module):
    """Repeats the newest frame; under bfloat16 autocast it adds 1/4 to what it is given."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def observe(self, clip):
        return clip.pixels()[:, -1]

    def predict(self, state, action=None, noise=None):
        frame = state + 0.25 * torch.is_autocast_enabled("cpu")
        return frame, frame

    def noise_shape(self):
        return None


def test_rows_are_drift_and_error():
    data = MovingMNISTConfig(image_size=16, digit_size=8, num_digits=1)
    rows = {row.name: row for row in bench.measure("still", Still(), data, (1, 4))}
    frames = data.build("test", bench.CONTEXT + 4)[0].frames.float() / 255 * 2 - 1
    for number in (1, 4):
        error = (frames[bench.CONTEXT - 1] - frames[bench.CONTEXT + number - 1]).square().mean().sqrt().item()
        drift = rows[f"bfloat16 against float32, frame {number}"]
        assert drift.figures["rms"] == pytest.approx(0.25 * number)
        assert rows[drift.ratio_to].figures["rms"] == pytest.approx(error)
        assert drift.ratio == pytest.approx(0.25 * number / error)
    assert len(rows) == 4 and not torch.is_autocast_enabled("cpu")
