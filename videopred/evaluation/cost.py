"""What a predictor costs: parameters, FLOPs of one predicted frame, time of one step.

Where one pass predicts a block of frames (a predictor's `block`), cost and time are shared equally among its frames.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from videopred.nn.flops import counting
from videopred.predictors.parts import spending


def parameters(predictor: nn.Module) -> int:
    return sum(parameter.numel() for parameter in predictor.parameters())


def flops_per_frame(predictor, state, action: Tensor | None, noise: Tensor | None, num_clips: int) -> int:
    """FLOPs of one `predict` for one clip: convolutions, matrix products, Fourier transforms, 2 per multiply-add.

    The state is left as it is. What follows from the weights alone is made once for a whole rollout (`nn/recall.py`)
    and is not counted, nor is element-wise work, the scan among it.
    """
    predictor.predict(state, action, noise)  # after which what is made once is there
    with counting() as counter:
        predictor.predict(state, action, noise)
    return counter.get_total_flops() // (num_clips * getattr(predictor, "block", 1))


def flops_by_part(predictor, state, action: Tensor | None, noise: Tensor | None) -> Counter[str]:
    """The same by part of the predictor, for one clip; `(other)` is what no part does."""
    predictor.predict(state, action, noise)
    with (
        counting() as counter,
        spending(predictor, counter.get_total_flops) as spent,
    ):
        predictor.predict(state, action, noise)
    spent["(other)"] = counter.get_total_flops() - spent.total()
    block = getattr(predictor, "block", 1)
    return +Counter({part: flops // block for part, flops in spent.items()})


class Clock:
    """Times the steps of rollouts, by the size of the batch.

    For `speed` only those of the largest batch count, and the median hides the first, slow ones.
    """

    def __init__(self, device: torch.device, block: int = 1):
        self.device, self.block = device, block
        self.times: dict[int, list[float]] = {}  # batch size -> seconds per step

    def steps(self, frames: Iterator[Tensor], num: int) -> Iterator[Tensor]:
        """The next `num` frames (b, c, h, w), each timed until the device has finished it; a block's share its time."""
        elapsed: list[float] = []
        for i in range(num):
            started = time.perf_counter()
            frame = next(frames)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            elapsed.append(time.perf_counter() - started)
            if len(elapsed) == self.block or i == num - 1:
                self.times.setdefault(len(frame), []).append(statistics.mean(elapsed))
                elapsed.clear()
            yield frame

    def cut(self) -> dict[int, list[float]]:
        """`times` since the last cut."""
        times, self.times = self.times, {}
        return times


def speed(times: dict[int, list[float]]) -> dict[str, float]:
    """`step_ms` for a whole batch, the `batch_size` it was measured at, and `frames_per_second` = batch / step."""
    size = max(times)
    step = statistics.median(times[size])
    return {"step_ms": 1e3 * step, "batch_size": size, "frames_per_second": size / step}
