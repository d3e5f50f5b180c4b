"""Where the time of an update goes: by part of the model, and as a trace that chrome://tracing and Perfetto show.

A few updates, as they are at the end of training (a closed loop is longest then), of a model that is thrown away.
Forward time is told by part; backward is one number, as autograd does not know parts.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from videopred.predictors.timeline import Timeline, by_part
from videopred.training import RunConfig
from videopred.training.learner import Learner
from videopred.training.loop import clips_of, update
from videopred.training.start import begin

WARMUP, STEPS = 2, 5
OPERATORS = 12  # in the table
TRACE = "profile.json"


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
    table = timeline.table("update, by part", STEPS)
    return "\n".join([*table, "", *_operators(recording), "", f"trace of one update: {folder / TRACE}"])


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
    compare = getattr(predictor, "compare", None)
    if compare is not None:
        predictor.compare = timeline.within("loss", compare)
    try:
        with by_part(predictor, timeline):
            yield timeline
    finally:
        for hook in hooks:
            hook.remove()
        if compare is not None:
            del predictor.compare


def _timed(clips: Iterator, timeline: Timeline) -> Iterator:
    """The same clips; a batch after the first of an update is waited for in place of the backward pass before it."""
    take = timeline.within("data", lambda: next(clips))
    while True:
        yield take()


def _operators(recording: profile) -> Iterator[str]:
    """What torch's operators took by themselves, the longest ones."""
    found = sorted(recording.key_averages(), key=lambda event: -event.self_cpu_time_total)
    found = [event for event in found if "::" in event.key and not event.key.startswith("autograd")]
    total = sum(event.self_cpu_time_total for event in found)
    yield f"{'operators, on the CPU':<48}  {'ms':>9}  {'share':>6}  {'calls':>6}"
    for event in found[:OPERATORS]:
        time = event.self_cpu_time_total
        yield f"{event.key[:48]:<48}  {time / 1e3:>9.1f}  {time / total:>6.1%}  {event.count:>6}"
