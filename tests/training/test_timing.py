"""The time of an update, measured over what a whole training feeds."""

import torch

from videopred.training import timing


def test_updates_are_spread_over_the_training_and_runs_take_turns(tiny, monkeypatch):
    seen, real = [], timing.update
    monkeypatch.setattr(timing, "update", lambda *args: [seen.append((args[3].clip_frames, args[4])), real(*args)][1])
    runs = [tiny("training.steps=1000"), tiny("training.steps=1000", "training.clip_frames=5")]
    first, second = (run.training.clip_frames for run in runs)
    seconds = timing.seconds_per_step(runs, torch.device("cpu"))
    assert len(seconds) == 2 and all(0 < each < 5 for each in seconds) and first != second
    assert seen == [(frames, step) for step in (7, *range(8)) for frames in (first, second)]
