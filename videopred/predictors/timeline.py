"""What a predictor spends its time on, told by part: `train --profile` of an update, `rollout --profile` of a frame."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.profiler import record_function

from videopred.predictors.parts import parts


class Timeline:
    """Seconds by what was going on, one thing at a time: what began last, until it ends."""

    def __init__(self, device: torch.device):
        self.device, self.spent, self.calls = device, Counter[str](), Counter[str]()
        self.doing: list[tuple[str, Any]] = []
        self.since = self._now()

    def begin(self, name: str) -> None:
        self._credit()
        label = record_function(name)  # in the trace
        label.__enter__()
        self.doing.append((name, label))
        self.calls[name] += 1

    def end(self) -> None:
        self._credit()
        self.doing.pop()[1].__exit__(None, None, None)

    def _credit(self) -> None:
        now = self._now()
        self.spent[self.doing[-1][0] if self.doing else "(other)"] += now - self.since  # type: ignore[assignment]
        self.since = now

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def within(self, name: str, function: Callable) -> Callable:
        """`function`, whose calls are told under `name`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.begin(name)
            try:
                return function(*args, **kwargs)
            finally:
                self.end()

        return call

    def reset(self) -> None:
        """Forgets what was; between calls of anything."""
        self.spent.clear()
        self.calls.clear()
        self.since = self._now()

    def table(self, head: str, count: int) -> Iterator[str]:
        """Lines: ms, share and calls of each, the longest first, for one of `count` times that were watched."""
        total, width = sum(self.spent.values()), max(map(len, [head, *self.spent]))
        yield f"{head:<{width}}  {'ms':>9}  {'share':>6}  {'calls':>6}"
        for name, seconds in self.spent.most_common():
            calls = self.calls[name] / count
            yield f"{name:<{width}}  {1e3 * seconds / count:>9.1f}  {seconds / total:>6.1%}  {calls:>6.0f}"
        yield f"{'total':<{width}}  {1e3 * total / count:>9.1f}"


@contextmanager
def by_part(predictor: nn.Module, timeline: Timeline) -> Iterator[None]:
    """Within the block, calls of each part of `predictor` are told under its name (parts.py)."""
    hooks = []
    for name, part in parts(predictor):
        hooks.append(part.register_forward_pre_hook(lambda *_, name=name: timeline.begin(name)))
        hooks.append(part.register_forward_hook(lambda *_: timeline.end()))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
