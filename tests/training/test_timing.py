"""The time of an update, measured over what a whole training feeds."""

import torch

from videopred.training import timing


def test_updates_are_spread_over_the_training_and_change_nothing_outside(tiny, monkeypatch):
    seen, real = [], timing.update
    monkeypatch.setattr(timing, "update", lambda *args: [seen.append((args[4], args[3].steps)), real(*args)][1])
    run = tiny("training.steps=1000")
    seconds = timing.seconds_per_step(run, torch.device("cpu"))
    assert 0 < seconds < 5
    assert seen == [(7, 8), *((step, 8) for step in range(8))]
