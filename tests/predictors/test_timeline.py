"""Time by part: each moment is told once, under what began last, and forgotten moments are not told."""

import torch

from videopred.predictors import timeline


def test_a_timeline_gives_each_moment_to_what_began_last(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0])
    monkeypatch.setattr(timeline.time, "perf_counter", lambda: next(now))
    line = timeline.Timeline(torch.device("cpu"))
    line.begin("outer")
    line.begin("inner")
    line.end()
    line.end()
    assert line.spent == {"(other)": 1, "outer": 2 + 4, "inner": 3}
    assert line.calls == {"outer": 1, "inner": 1}


def test_what_is_forgotten_is_not_told(monkeypatch):
    now = iter([0.0, 1.0, 5.0, 7.0, 7.5, 9.5])
    monkeypatch.setattr(timeline.time, "perf_counter", lambda: next(now))
    line = timeline.Timeline(torch.device("cpu"))
    double = line.within("double", lambda x: 2 * x)
    assert double(3) == 6
    line.reset()
    assert double(4) == 8
    assert line.spent == {"(other)": 0.5, "double": 2} and line.calls == {"double": 1}
    head, first, second, total = line.table("frame", 2)
    assert head.split() == ["frame", "ms", "share", "calls"]
    assert first.split() == ["double", "1000.0", "80.0%", "0"] and second.split()[:3] == ["(other)", "250.0", "20.0%"]
    assert total.split() == ["total", "1250.0"]
