"""What a predictor costs: parameters, FLOPs of one predicted frame, time of one step."""

import statistics
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def parameters(predictor: nn.Module) -> int:
    return sum(parameter.numel() for parameter in predictor.parameters())


def flops_per_frame(predictor, state, action: Tensor | None, noise: Tensor | None, num_clips: int) -> int:
    """FLOPs of one `predict` for one clip: convolutions and matrix products, 2 per multiply-add.

    The state is left as it is. Element-wise work and the scan are not counted (below 0.1 % of the paper's models).
    """
    with FlopCounterMode(display=False) as counter:
        predictor.predict(state, action, noise)
    return counter.get_total_flops() // num_clips


class Clock:
    """Times the steps of rollouts; only those of the largest batch count, and the median hides the first, slow ones."""

    def __init__(self, device: torch.device):
        self.device = device
        self.times: dict[int, list[float]] = {}  # batch size -> seconds per step

    def steps(self, frames: Iterator[Tensor], num: int) -> Iterator[Tensor]:
        """The next `num` frames (b, c, h, w), each timed until the device has finished it."""
        for _ in range(num):
            started = time.perf_counter()
            frame = next(frames)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self.times.setdefault(len(frame), []).append(time.perf_counter() - started)
            yield frame

    def report(self) -> dict[str, float]:
        """`step_ms` for a whole batch, the `batch_size` it was measured at, and `frames_per_second` = batch / step."""
        size = max(self.times)
        step = statistics.median(self.times[size])
        return {"step_ms": 1e3 * step, "batch_size": size, "frames_per_second": size / step}
