"""The bench of spatial blocks on tiny frames: what it compares, and that each pass reaches every parameter."""

import typing

import pytest
import torch

from videopred.bench import spatial as bench
from videopred.spatial import Spatial

SMALL = ("resnet", "ssm2d", "dense 3x3")


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(bench, "SIDE", 3)
    monkeypatch.setattr(bench, "FRAMES", (1, 2))


def test_every_member_but_the_identity_is_there():
    kinds = {typing.get_type_hints(member)["kind"].__args__[0] for member in typing.get_args(Spatial)}
    assert kinds - {"identity"} <= bench.BLOCKS.keys()


def test_rows(tiny, monkeypatch):
    monkeypatch.setattr(bench, "BLOCKS", {name: bench.BLOCKS[name] for name in SMALL})
    rows = list(bench.rows(True, None))
    for frames in "1 frames", "2 frames":
        found = {row.name: row for row in rows if row.shape.startswith(frames)}
        assert found.keys() == set(SMALL)
        for name, row in found.items():
            assert row.median_ms > 0 and row.ratio_to == (None if name == "resnet" else "resnet")
            assert row.figures["channels_last"] in (0, 1)
        assert found["dense 3x3"].figures["parameters"] == 64 * 64 * 9 + 64
    for start in "kernel of ssm2d", "ssm2d without D, 1 frames":
        recurrence = {row.name: row for row in rows if row.shape.startswith(start)}["recurrence"]
        assert recurrence.ratio_to == "closed form" and recurrence.ratio > 0


@pytest.mark.parametrize("order", bench.ORDERS, ids=str)
@pytest.mark.parametrize("name", bench.BLOCKS)
def test_a_pass_gives_the_gradient_of_everything(tiny, order, name):
    block = bench.BLOCKS[name](64)
    gradients = bench._both(block, 2, order)()
    assert len(gradients) == 1 + len(list(block.parameters())) and all(g.abs().max() > 0 for g in gradients)
    assert gradients[0].shape == (2, 64, 3, 3)


@pytest.mark.parametrize("rows", [lambda: bench.kernels(1), lambda: bench.layers(2, 1)], ids=["kernels", "layers"])
def test_closed_form_and_recurrence_compute_the_same(monkeypatch, tiny, rows):
    """But for the tail in float32."""
    seen = {}
    monkeypatch.setattr(
        bench, "compare", lambda functions, rounds, title: seen.update(functions) or {n: [1.0] for n in functions}
    )
    assert [row.ratio for row in rows()] == [None, 1.0]
    for closed, slow in zip(seen["closed form"](), seen["recurrence"](), strict=True):
        torch.testing.assert_close(closed, slow, rtol=0, atol=2e-2 * slow.abs().max().item())
