"""The running mean is the mean, however a clip is cut."""

import pytest
import torch

from videopred.nn.running_mean import running_mean


@pytest.mark.parametrize("size", [1, 2, 5])
def test_it_is_the_mean_of_all_frames_so_far(size):
    frames, state, parts = torch.randn(2, 5, 3, 4, dtype=torch.float64), (), []
    for chunk in frames.split(size, 1):
        means, state = running_mean(chunk, state)
        parts.append(means)
    want = torch.stack([frames[:, : t + 1].mean(1) for t in range(5)], 1)
    torch.testing.assert_close(torch.cat(parts, 1), want, rtol=0, atol=1e-14)
    assert state[1].tolist() == [5, 5]


def test_half_precision_is_summed_in_float32():
    frames = torch.full((1, 600, 1), 0.7, dtype=torch.bfloat16)
    means, _ = running_mean(frames)
    assert means.dtype == torch.float32
    torch.testing.assert_close(means[0, -1], frames[0, 0].float(), rtol=1e-5, atol=0)
