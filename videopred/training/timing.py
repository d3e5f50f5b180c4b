"""How long an update takes, before trainings whose length is to fill a given time."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from videopred.training import RunConfig, TrainingConfig
from videopred.training.learner import Learner
from videopred.training.loop import clips_of, update
from videopred.training.start import begin

UPDATES = 8


def seconds_per_step(runs: Sequence[RunConfig], device: torch.device) -> list[float]:
    """Of each run the mean over a whole training, from eight updates spread over it: what is fed may change on the way.

    Runs take turns, so that what else the machine does falls on all alike. Models are made for it and thrown away.
    """
    trials = [trial(run, device) for run in runs]
    for one in trials:
        one(2 * UPDATES - 1)  # the first is slower, and the last the longest
    rounds = [[one(step) for one in trials] for step in range(1, 2 * UPDATES, 2)]  # in the middle of each eighth
    return [statistics.mean(times) for times in zip(*rounds, strict=True)]


def trial(run: RunConfig, device: torch.device) -> Callable[[int], float]:
    """Makes update number `step` of a training of sixteen, begun as one; returns its seconds."""
    run, predictor, optimizer = begin(run, device)
    settings = replace(run.training, steps=2 * UPDATES)
    learner, clock = Learner(predictor, settings), clock_of(settings, device)
    clips = clips_of(run.recipe.build("train", settings.clip_frames), settings, 0, device)

    def timed(step: int) -> float:
        started = clock()
        update(learner, optimizer, clips, settings, step)  # ends by reading the loss, so the device is done
        return clock() - started

    return timed


def clock_of(settings: TrainingConfig, device: torch.device) -> Callable[[], float]:
    """Seconds of the wall clock; where all work is done by one thread, those that it was running.

    On a machine that nobody else uses these are the same. On a shared one they say what an update takes, not how often
    it had to wait, also for cells that are timed on another day.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1 and not settings.workers
    return time.process_time if alone else time.perf_counter
