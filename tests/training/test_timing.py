"""The time of an update, measured over what a whole training feeds."""

import time

import pytest
import torch

from videopred.training import timing


def test_updates_stand_in_the_middle_of_eighths_of_the_training_and_runs_take_turns(tiny, monkeypatch):
    seen, real = [], timing.update
    monkeypatch.setattr(timing, "update", lambda *args: [seen.append((args[3].clip_frames, args[4])), real(*args)][1])
    runs = [tiny("training.steps=1000"), tiny("training.steps=1000", "training.clip_frames=5")]
    first, second = (run.training.clip_frames for run in runs)
    seconds = timing.seconds_per_step(runs, torch.device("cpu"))
    assert len(seconds) == 2 and all(0 < each < 5 for each in seconds) and first != second
    assert seen == [(frames, step) for step in (15, *range(1, 16, 2)) for frames in (first, second)]


def test_it_begins_as_a_training_does(tiny, monkeypatch):
    """With its number of threads, which decides how fast an update is."""
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    timing.seconds_per_step([tiny("training.threads=3")], torch.device("cpu"))
    assert asked == [3]


@pytest.mark.parametrize("threads, waits", [(1, False), (2, True)])
def test_one_thread_is_timed_while_it_runs(tiny, monkeypatch, threads, waits):
    """Sleep stands for what another program takes."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(timing, "update", lambda *args: time.sleep(0.02))
    (seconds,) = timing.seconds_per_step([tiny()], torch.device("cpu"))
    assert (seconds > 0.015) == waits
