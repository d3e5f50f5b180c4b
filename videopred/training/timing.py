"""How long an update takes, before a training whose length is to fill a given time."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import torch

from videopred.training import RunConfig, TrainingConfig
from videopred.training.learner import Learner
from videopred.training.loop import clips_of, update
from videopred.training.start import begin

UPDATES = 8


def seconds_per_step(run: RunConfig, device: torch.device) -> float:
    """The mean over a whole training, from eight updates spread over it: what is fed may change on the way.

    Each stands in the middle of its eighth. They are made on a model of their own, which is thrown away.
    """
    run, predictor, optimizer = begin(run, device)
    settings = replace(run.training, steps=2 * UPDATES)
    learner, clock = Learner(predictor, settings), clock_of(settings, device)
    with closing(clips_of(run.recipe.build("train", settings.clip_frames), settings, 0, device)) as clips:
        update(learner, optimizer, clips, settings, 2 * UPDATES - 1)  # the first is slower, and the last the longest
        started = clock()
        for step in range(1, 2 * UPDATES, 2):
            update(learner, optimizer, clips, settings, step)  # ends by reading the loss, so the device is done
        return (clock() - started) / UPDATES


def clock_of(settings: TrainingConfig, device: torch.device) -> Callable[[], float]:
    """Seconds of the wall clock; where all work is done by one thread, those that it was running.

    On a machine that nobody else uses these are the same. Where somebody does, the wall clock would give a model that
    is timed in a busy minute fewer updates than one that is timed in a quiet one.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1 and not settings.workers
    return time.process_time if alone else time.perf_counter
