"""The bench for GPUs, run on the CPU: every part gives its rows, and what is compared does the same work."""

import pytest
import torch

from videopred.bench import gpu as bench

TINY = bench.Size("debug", batch=1, frames=4, chunk=2, horizon=2)
CPU = torch.device("cpu")


def test_every_part_gives_rows(monkeypatch):
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, **options: compile(model, backend="eager", **options))
    rows = list(bench.measure(TINY, CPU, rounds=1))
    names = [row.name for row in rows]
    assert names == [*["copy", "add", "scan, forward", "scan, backward"] * 3, "convs5", "convlstm",
                     "eager", "compiled", "predict", "rollout"]  # fmt: skip
    assert all(row.median_ms > 0 and not row.note for row in rows)
    figures = {row.name: row.figures for row in rows}
    assert figures["compiled"]["compile_seconds"] > 0 and figures["rollout"]["frames_per_second"] > 0
    assert figures["convs5"]["parameters"] != figures["convlstm"]["parameters"]
    assert figures["copy"]["share_of_copy"] == 1


def test_the_scan_is_said_to_move_what_it_must():
    b, a = torch.zeros(2, 5, 3, 2, requires_grad=True), torch.zeros(3, 2, requires_grad=True)
    _, moved = bench._scan(a, b, CPU)
    assert moved["scan, forward"] == moved["copy"] == 2 * 60 * 4
    assert moved["scan, backward"] == moved["add"] == 3 * 60 * 4  # reads the gradient and the states, writes b's
    _, moved = bench._scan(torch.zeros_like(b, requires_grad=True), b.detach().bfloat16().requires_grad_(), CPU)
    assert (moved["scan, forward"], moved["scan, backward"]) == (60 * (2 + 4 + 4), 60 * (2 + 8 + 8))


def test_a_compiler_that_fails_is_said(monkeypatch):
    def broken(model, **options):
        def call(clip):
            raise RuntimeError("no compiler")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    (row,) = bench.compiled(TINY, CPU, 1)
    assert row.median_ms is None and row.note == "not measured: RuntimeError: no compiler"


@pytest.mark.parametrize("preset", ["moving-mnist-600", "debug"])
def test_the_scan_is_the_presets(preset):
    shape, states = bench._scan_shape(bench.Size(preset, 8, 600, 50, 1))
    assert shape == {"moving-mnist-600": (8, 600, 16, 16, 64, 2), "debug": (8, 600, 8, 8, 4, 2)}[preset]
    assert states == shape[-2]
