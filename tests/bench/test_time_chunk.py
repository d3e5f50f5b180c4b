"""What is measured is memory above idle, of a process of its own, and a real difference of gradients."""

import sys

import pytest

from videopred.bench import time_chunk as bench

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read as Linux tells it")


def test_memory_is_that_of_a_chunk():
    """`debug`, in processes of their own: 20 times the frames, and the same whole."""
    short, long, whole = (
        bench.apart(bench.cost, "debug", *case)["peak_mib"] for case in ((20, 10), (400, 10), (400, 0))
    )
    assert 1 < short < long < 1.3 * short < whole


def test_rows_compare_each_kind_with_its_shortest_clip(monkeypatch):
    """The peak is said to be the frames of a whole clip, and those of a chunk."""
    monkeypatch.setattr(bench, "apart", lambda function, *args: function(*args))
    monkeypatch.setattr(bench, "cost", lambda preset, frames, chunk: {"peak_mib": float(chunk or frames)})
    rows = list(bench.measure("debug", 4, (8, 16, 80)))
    assert [(row.name, row.ratio_to, row.ratio) for row in rows] == [
        ("whole clip, 8 frames", None, None),
        ("whole clip, 16 frames", "whole clip, 8 frames", 2.0),
        ("chunks of 4, 8 frames", None, None),
        ("chunks of 4, 16 frames", "chunks of 4, 8 frames", 1.0),
        ("chunks of 4, 80 frames", "chunks of 4, 8 frames", 1.0),
    ]
    errors = [row.figures.get("gradient_error") for row in rows]
    assert errors[:2] == [None, None] and 0 < errors[2] < 1e-5 and 0 < errors[3] < 1e-5 and errors[4] is None


def test_a_wrong_gradient_would_be_seen(monkeypatch):
    honest = bench.backward
    monkeypatch.setattr(bench, "backward", lambda *args: [g * (1.01 if args[2] else 1) for g in honest(*args)])
    assert bench.gradient_error("debug", 8, 4) == pytest.approx(0.01, rel=1e-3)
