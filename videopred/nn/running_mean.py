"""The mean of all frames fed so far, in constant memory."""

import torch
from torch import Tensor

from videopred.nn.norm import at_least_float32


def running_mean(frames: Tensor, state: tuple = ()) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Frames (b, t, ...) -> at each the mean of it and all before it, float32 or wider; and the state.

    `state` is (mean (b, ...), count (b,)), or () at the start of a clip.
    """
    frames = at_least_float32(frames)
    if not state:
        state = frames.new_zeros(frames[:, 0].shape), torch.zeros(len(frames), dtype=torch.int64, device=frames.device)
    mean, count = state
    counts = count[:, None] + torch.arange(1, frames.shape[1] + 1, device=frames.device)  # b t
    axes = (...,) + (None,) * (frames.dim() - 2)
    means = ((mean * count[axes]).unsqueeze(1) + frames.cumsum(1)) / counts[axes]
    return means, (means[:, -1], counts[:, -1])
