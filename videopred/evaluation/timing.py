"""Where the time of an evaluation goes: reading, context, rollout, each metric."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Stopwatch:
    """Seconds spent in parts of the work, by name; what the device was asked to do there is waited for."""

    def __init__(self, device: torch.device):
        self.device = device
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started

    def cut(self) -> dict[str, float]:
        """What was spent since the last cut."""
        seconds, self.seconds = self.seconds, {}
        return seconds
