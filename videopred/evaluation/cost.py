"""What a predictor costs: parameters, FLOPs of one predicted frame, time of one step.

Where one pass predicts a block of frames (a predictor's `block`), cost and time are shared equally among its frames.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def _transform(share: float) -> Callable[..., int]:
    """FLOPs of Fourier transforms: `share` of 5 n log2 n for each of n points."""

    def count(shape: tuple[int, ...], dims: list[int], *args: Any, out_shape: tuple[int, ...], **kwargs: Any) -> int:
        points = math.prod(max(shape[dim], out_shape[dim]) for dim in dims)
        others = math.prod(side for dim, side in enumerate(shape) if dim not in {d % len(shape) for d in dims})
        return round(share * 5 * others * points * math.log2(points))

    return count


def _attention(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(query, key, value)


# What torch's own counter leaves out.
MORE = {
    torch.ops.aten._fft_r2c: _transform(0.5),
    torch.ops.aten._fft_c2r: _transform(0.5),
    torch.ops.aten._fft_c2c: _transform(1.0),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
}


def parameters(predictor: nn.Module) -> int:
    return sum(parameter.numel() for parameter in predictor.parameters())


def flops_per_frame(predictor, state, action: Tensor | None, noise: Tensor | None, num_clips: int) -> int:
    """FLOPs of one `predict` for one clip: convolutions, matrix products, Fourier transforms, 2 per multiply-add.

    The state is left as it is. Element-wise work and the scan are not counted (below 0.1 % of the paper's models).
    """
    with FlopCounterMode(display=False, custom_mapping=MORE) as counter:
        predictor.predict(state, action, noise)
    return counter.get_total_flops() // (num_clips * getattr(predictor, "block", 1))


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
