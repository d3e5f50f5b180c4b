"""How long an update takes, before trainings whose length is to fill a given time."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from videopred.data.loader import batches
from videopred.training import RunConfig
from videopred.training.learner import Learner
from videopred.training.loop import update

STEPS = 8


def seconds_per_step(runs: Sequence[RunConfig], device: torch.device) -> list[float]:
    """Of each run the mean over a whole training, from eight updates spread over it: what is fed may change on the way.

    Runs take turns, so that what else the machine does falls on all alike. Models are made for it and thrown away.
    """
    trials = [trial(run, device) for run in runs]
    for one in trials:
        one(STEPS - 1)  # the first is slower, and the last the longest
    rounds = [[timed(one, step) for one in trials] for step in range(STEPS)]
    return [statistics.mean(times) for times in zip(*rounds, strict=True)]


def trial(run: RunConfig, device: torch.device) -> Callable[[int], object]:
    """Makes update number `step` of a training of eight."""
    settings = replace(run.training, steps=STEPS)
    predictor = run.predictor.build(run.recipe.format).to(device)
    optimizer = settings.optimizer.build(predictor)
    learner = Learner(predictor, settings)
    dataset = run.recipe.build("train", settings.clip_frames)
    clips = (clip.to(device) for clip in batches(dataset, settings.batch_size, settings.seed))
    return lambda step: update(learner, optimizer, clips, settings, step)


def timed(one: Callable[[int], object], step: int) -> float:
    started = time.perf_counter()
    one(step)  # ends by reading the loss, so the device is done
    return time.perf_counter() - started
