"""Where the time of an update goes: by part of the model, and as a trace that chrome://tracing and Perfetto show.

A few updates, as they are at the end of training (a closed loop is longest then), of a model that is thrown away.
Forward time is told by part; backward is one number, as autograd does not know parts.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from videopred.predictors.parts import parts
from videopred.training import RunConfig
from videopred.training.learner import Learner
from videopred.training.loop import clips_of, update
from videopred.training.start import begin

WARMUP, STEPS = 2, 5
OPERATORS = 12  # in the table
TRACE = "profile.json"


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


def profiled(run: RunConfig, folder: Path, device: torch.device) -> str:
    """Writes the trace of one update to `folder`, and returns a table of a screen."""
    settings = run.training
    run, predictor, optimizer = begin(run, device)
    learner = Learner(predictor, settings)
    dataset = run.recipe.build("train", settings.clip_frames)
    with closing(clips_of(dataset, settings, 0, device)) as clips:

        def updates(count: int, source: Iterator) -> None:
            for _ in range(count):
                update(learner, optimizer, source, settings, settings.steps - 1)

        updates(WARMUP, clips)
        with watched(predictor, learner, optimizer, device) as timeline:
            updates(STEPS, _timed(clips, timeline))
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
        with watched(predictor, learner, optimizer, device) as traced, profile(activities=activities) as recording:
            updates(1, _timed(clips, traced))
    folder.mkdir(parents=True, exist_ok=True)
    recording.export_chrome_trace(str(folder / TRACE))
    return "\n".join([*_parts(timeline), "", *_operators(recording), "", f"trace of one update: {folder / TRACE}"])


@contextmanager
def watched(
    predictor: Any, learner: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> Iterator[Timeline]:
    """A timeline of the updates that are made within the block. What follows a forward pass is backward."""
    timeline = Timeline(device)

    def forward() -> None:
        if timeline.doing:  # backward of the batch before
            timeline.end()
        timeline.begin("(other forward)")

    def backward() -> None:
        timeline.end()
        timeline.begin("backward, clipping")

    def step() -> None:
        timeline.end()
        timeline.begin("optimiser")

    hooks = [
        learner.register_forward_pre_hook(lambda *_: forward()),
        learner.register_forward_hook(lambda *_: backward()),
        optimizer.register_step_pre_hook(lambda *_: step()),
        optimizer.register_step_post_hook(lambda *_: timeline.end()),
    ]
    for name, part in parts(predictor):
        hooks.append(part.register_forward_pre_hook(lambda *_, name=name: timeline.begin(name)))
        hooks.append(part.register_forward_hook(lambda *_: timeline.end()))
    compare = getattr(predictor, "compare", None)
    if compare is not None:
        predictor.compare = _within(timeline, "loss", compare)
    try:
        yield timeline
    finally:
        for hook in hooks:
            hook.remove()
        if compare is not None:
            del predictor.compare


def _within(timeline: Timeline, name: str, function: Callable) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        timeline.begin(name)
        try:
            return function(*args, **kwargs)
        finally:
            timeline.end()

    return call


def _timed(clips: Iterator, timeline: Timeline) -> Iterator:
    """The same clips; a batch after the first of an update is waited for in place of the backward pass before it."""
    take = _within(timeline, "data", lambda: next(clips))
    while True:
        yield take()


def _parts(timeline: Timeline) -> Iterator[str]:
    total = sum(timeline.spent.values())
    width = max(map(len, timeline.spent))
    yield f"{'update, by part':<{width}}  {'ms':>9}  {'share':>6}  {'calls':>6}"
    for name, seconds in timeline.spent.most_common():
        calls = timeline.calls[name] / STEPS
        yield f"{name:<{width}}  {1e3 * seconds / STEPS:>9.1f}  {seconds / total:>6.1%}  {calls:>6.0f}"
    yield f"{'total':<{width}}  {1e3 * total / STEPS:>9.1f}"


def _operators(recording: profile) -> Iterator[str]:
    """What torch's operators took by themselves, the longest ones."""
    found = sorted(recording.key_averages(), key=lambda event: -event.self_cpu_time_total)
    found = [event for event in found if "::" in event.key and not event.key.startswith("autograd")]
    total = sum(event.self_cpu_time_total for event in found)
    yield f"{'operators, on the CPU':<48}  {'ms':>9}  {'share':>6}  {'calls':>6}"
    for event in found[:OPERATORS]:
        time = event.self_cpu_time_total
        yield f"{event.key[:48]:<48}  {time / 1e3:>9.1f}  {time / total:>6.1%}  {event.count:>6}"
