"""A run so small that twenty updates take a second."""

import json

import pytest
import torch

from videopred import config
from videopred.training import RunConfig
from videopred.training.loop import train

WORDS = """
    recipe.image_size=16 recipe.digit_size=8 recipe.num_digits=1
    predictor.stack.width=4 predictor.stack.depth=1 predictor.stack.dynamics.num_states=2
    predictor.stack.spatial.num_groups=2 predictor.codec.num_groups=2
    predictor.codec.encoder_widths=[4] predictor.codec.decoder_widths=[4]
    training.clip_frames=6 training.steps=8 training.save_every=2 training.log_every=1 training.validate_every=0
    training.optimizer.warmup_steps=2
"""
TINY = WORDS.split()
TIMES = {"ms_per_step", "frames_per_second", "memory_gib"}


@pytest.fixture(scope="session")
def tiny():
    """Makes a tiny run's configuration, with overrides such as "training.steps=4"."""
    return lambda *overrides: config.load(RunConfig, "presets", "debug", [*TINY, *overrides])


@pytest.fixture(scope="session")
def go():
    """Trains on the CPU; returns the last step folder."""
    return lambda run, folder, validate=None: train(run, folder, torch.device("cpu"), validate)


@pytest.fixture(scope="session")
def outcome():
    """All that a run leaves and that must not depend on interruptions: the last step's files, and the log's numbers."""

    def read(folder):
        last = max(folder.glob("step_*"))
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        numbers = [{key: value for key, value in line.items() if key not in TIMES} for line in lines]
        return {path.name: path.read_bytes() for path in last.iterdir()} | {"log": numbers, "step": last.name}

    return read
