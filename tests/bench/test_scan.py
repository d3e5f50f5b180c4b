"""What the scan is compared with computes what the scan computes; the bench itself, on tiny shapes."""

import pytest
import torch

from videopred.bench import scan as bench

TINY = {"length": 5, "batch": 2, "states": 3, "side": 2}


def with_gradients(function, arguments):
    x = function(*arguments)
    return x, *torch.autograd.grad(x.square().sum(), arguments)


@pytest.mark.parametrize("name", [name for name in bench.BASELINES if not name.startswith("associative")])
def test_baselines_compute_the_scan(name):
    arguments = [x.double().requires_grad_() for x in bench._arguments(TINY)]
    for got, want in zip(
        with_gradients(bench.BASELINES[name], arguments), with_gradients(bench.scan, arguments), strict=True
    ):
        torch.testing.assert_close(got, want)


def test_the_bench_runs_at_any_shape(monkeypatch):
    monkeypatch.setattr(bench, "TRAINING", TINY)
    monkeypatch.setattr(bench, "FORWARD", TINY)
    rows = {(row.shape, row.name): row for row in bench.rows(True, None)}
    assert {name for shape, name in rows if "backward" in shape} == {"scan", "traffic alone", *bench.BASELINES}
    for (shape, name), row in rows.items():
        assert shape.startswith("L 5, B 2, P 3, 2x2, forward")
        assert row.median_ms is None or row.median_ms > 0
        base = "scan" if "backward" in shape else "copy"
        assert row.ratio_to == (None if name == base else base) or row.note


def wrong(a, b, initial):
    return bench.scan(a, b, initial) * 1.01


def no_gradient(a, b, initial):
    return bench.scan(a, b, initial).detach()


def absent(a, b, initial):
    raise ImportError("no module")


def test_a_baseline_that_differs_is_not_measured(monkeypatch):
    monkeypatch.setattr(bench, "BASELINES", {"wrong": wrong, "absent": absent})
    rows = {row.name: row for row in bench.training(TINY, 1)}
    assert rows["wrong"].median_ms is None and "computes something else (relative error 1.0e-02)" in rows["wrong"].note
    assert rows["absent"].median_ms is None and "ImportError: no module" in rows["absent"].note


def test_a_baseline_without_gradient_is_measured_forward_and_says_so(monkeypatch):
    monkeypatch.setattr(bench, "BASELINES", {"forward": no_gradient})
    rows = {row.name: row for row in bench.training(TINY, 1)}
    assert rows["forward"].ratio is not None and rows["forward"].note.startswith("forward only")
    assert rows["scan"].note == ""
