"""How long an update takes, before a training whose length is to fill a given time."""

import time
from dataclasses import replace

import torch

from videopred.data.loader import batches
from videopred.training import RunConfig
from videopred.training.learner import Learner
from videopred.training.loop import update

STEPS = 8


def seconds_per_step(run: RunConfig, device: torch.device) -> float:
    """The mean over a whole training, from eight updates spread over it: what is fed may change on the way.

    They are made on a model of their own, which is thrown away.
    """
    settings = replace(run.training, steps=STEPS)
    predictor = run.predictor.build(run.recipe.format).to(device)
    optimizer = settings.optimizer.build(predictor)
    learner = Learner(predictor, settings)
    dataset = run.recipe.build("train", settings.clip_frames)
    clips = (clip.to(device) for clip in batches(dataset, settings.batch_size, settings.seed))
    update(learner, optimizer, clips, settings, STEPS - 1)  # the first is slower, and the last the longest
    started = time.perf_counter()
    for step in range(STEPS):
        update(learner, optimizer, clips, settings, step)  # ends by reading the loss, so the device is done
    return (time.perf_counter() - started) / STEPS
