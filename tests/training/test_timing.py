"""The time of an update, measured over what a whole training feeds."""

import time

import pytest
import torch

from videopred.training import timing


def test_updates_stand_in_the_middle_of_eighths_of_the_training(tiny, monkeypatch):
    seen, real = [], timing.update
    monkeypatch.setattr(timing, "update", lambda *args: [seen.append((args[4], args[3].steps)), real(*args)][1])
    run = tiny("training.steps=1000")
    seconds = timing.seconds_per_step(run, torch.device("cpu"))
    assert 0 < seconds < 5
    assert seen == [(15, 16), *((step, 16) for step in range(1, 16, 2))]


def test_it_begins_as_a_training_does(tiny, monkeypatch):
    """With its number of threads, which decides how fast an update is."""
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    timing.seconds_per_step(tiny("training.threads=3"), torch.device("cpu"))
    assert asked == [3]


@pytest.mark.parametrize("threads, waits", [(1, False), (2, True)])
def test_one_thread_is_timed_while_it_runs(tiny, monkeypatch, threads, waits):
    """Sleep stands for what another program takes."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(timing, "update", lambda *args: time.sleep(0.02))
    assert (timing.seconds_per_step(tiny(), torch.device("cpu")) > 0.015) == waits
