"""The times of an update, measured over what a whole training feeds, and of a frame of a rollout."""

import time

import pytest
import torch

from videopred.training import timing


def test_updates_stand_in_the_middle_of_eighths_of_the_training_and_runs_take_turns(tiny, monkeypatch):
    seen, real = [], timing.update
    monkeypatch.setattr(timing, "update", lambda *args: [seen.append((args[3].clip_frames, args[4])), real(*args)][1])
    runs = [tiny("training.steps=1000"), tiny("training.steps=1000", "training.clip_frames=5")]
    first, second = (run.training.clip_frames for run in runs)
    costs = timing.costs(runs, torch.device("cpu"))
    assert len(costs) == 2 and all(0 < ms < 5e3 for cost in costs for ms in cost.values()) and first != second
    assert seen == [(frames, step) for step in (15, *range(1, 16, 2)) for frames in (first, second)]


def test_it_begins_as_a_training_does(tiny, monkeypatch):
    """With its number of threads, which decides how fast an update is."""
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    timing.costs([tiny("training.threads=3")], torch.device("cpu"))
    assert asked == [3]


@pytest.mark.parametrize("threads, waits", [(1, False), (2, True)])
def test_one_thread_is_timed_while_it_runs(tiny, monkeypatch, threads, waits):
    """Sleep stands for what another program takes."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(timing, "update", lambda *args: time.sleep(0.02))
    (cost,) = timing.costs([tiny()], torch.device("cpu"))
    assert (cost["update_ms"] > 15) == waits


def test_a_frame_is_one_clips_share_of_a_step_and_of_a_block(tiny, monkeypatch):
    """A clock that counts predicted frames stands for time."""
    drawn = []
    real = timing.rollout
    monkeypatch.setattr(timing, "clock_of", lambda *args: lambda: len(drawn))
    monkeypatch.setattr(timing, "rollout", lambda *a, **k: (drawn.append(1) or frame for frame in real(*a, **k)))
    run = tiny("training.batch_size=2")
    monkeypatch.setattr(type(run.predictor.build(run.recipe.format)), "block", 7, raising=False)
    (cost,) = timing.costs([run], torch.device("cpu"))
    assert cost["frame_ms"] == 1e3 / 2 and len(drawn) == 5 * 28
