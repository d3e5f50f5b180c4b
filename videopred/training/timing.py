"""How long an update and a predicted frame take, in models that are compared: they take turns."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import torch

from videopred.rollout import noise_for, rollout
from videopred.training import RunConfig, TrainingConfig
from videopred.training.learner import Learner
from videopred.training.loop import clips_of, update
from videopred.training.start import begin

UPDATES, ROLLOUTS, FRAMES = 8, 4, 24


class Trial(NamedTuple):
    """Seconds of update number `step` of sixteen, and of a frame of a rollout, its share of a batch."""

    update: Callable[[int], float]
    frame: Callable[[], float]


def costs(runs: Sequence[RunConfig], device: torch.device) -> list[dict[str, float]]:
    """Of each run `update_ms`, the mean over a whole training, and `frame_ms`, of one clip of a training batch.

    Eight updates are spread over the training, for what is fed may change on the way. Runs take turns, so that what
    else the machine does falls on all alike. Models are made for it and thrown away.
    """
    trials = [trial(run, device) for run in runs]
    for one in trials:
        one.update(2 * UPDATES - 1)  # the first is slower, and the last the longest
    # in the middle of each eighth
    updates = [[one.update(step) for one in trials] for step in range(1, 2 * UPDATES, 2)]
    frames = [[one.frame() for one in trials] for _ in range(1 + ROLLOUTS)][1:]
    means = ([1e3 * statistics.mean(times) for times in zip(*rounds, strict=True)] for rounds in (updates, frames))
    return [{"update_ms": of_update, "frame_ms": of_frame} for of_update, of_frame in zip(*means, strict=True)]


def trial(run: RunConfig, device: torch.device) -> Trial:
    """A training of sixteen updates, begun as one is."""
    predictor: Any
    run, predictor, optimizer = begin(run, device)
    settings = replace(run.training, steps=2 * UPDATES)
    learner, clock = Learner(predictor, settings), clock_of(settings, device)
    clips = clips_of(run.recipe.build("train", settings.clip_frames), settings, 0, device)

    def one_update(step: int) -> float:
        started = clock()
        update(learner, optimizer, clips, settings, step)  # ends by reading the loss, so the device is done
        return clock() - started

    def one_frame() -> float:
        predictor.eval()
        clip, block = next(clips), getattr(predictor, "block", 1)
        number, ids = -(-FRAMES // block) * block, [str(i) for i in range(len(clip.content))]
        actions = None if clip.actions is None else clip.actions[:, -1:].expand(-1, number)
        with torch.no_grad():
            state = predictor.observe(clip)
        frames = rollout(predictor, state, actions=actions, noise=lambda i: noise_for(predictor, 0, ids, 0, i))
        started = clock()
        for frame in islice(frames, number):
            frame[0, 0, 0, 0].item()  # by then the device is done
        return (clock() - started) / (number * len(ids))

    return Trial(one_update, one_frame)


def clock_of(settings: TrainingConfig, device: torch.device) -> Callable[[], float]:
    """Seconds of the wall clock; where all work is done by one thread, those that it was running.

    On a machine that nobody else uses these are the same. On a shared one they say what an update takes, not how often
    it had to wait, also for cells that are timed on another day.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1 and not settings.workers
    return time.process_time if alone else time.perf_counter
