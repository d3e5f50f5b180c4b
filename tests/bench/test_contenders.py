"""What is compared is comparable, is in the state it should be, and is drawn where it should be."""

import re

import pytest
import torch

from videopred.bench import contenders, curve, horizon, train
from videopred.bench.rounds import Row

NAMES = list(contenders.stacks())


@pytest.fixture
def small(monkeypatch):
    for name, value in {"WIDTH": 8, "WINDOW": 4}.items():
        monkeypatch.setattr(contenders, name, value)


def once(functions, rounds, **settings):
    for function in functions.values():
        function()
    return {name: [0.5] * rounds for name in functions}


def test_width_depth_tokens_and_parameters_are_equal_where_it_is_said():
    predictors = {name: contenders.build(stack) for name, stack in contenders.stacks().items()}
    sizes = {name: contenders.size(predictor.stack) for name, predictor in predictors.items()}
    assert sizes["convlstm, equal parameters"] == pytest.approx(sizes["convs5"], rel=0.03)
    assert sizes["convlstm"] > 1.9 * sizes["convs5"]
    for name, stack in contenders.stacks().items():
        assert stack.width == 64 or name == "convlstm, equal parameters"
        assert stack.depth * getattr(stack.dynamics, "depth", 1) == 2
    state = predictors["transformer, re-encoding"].observe(train.Clip(frames=torch.zeros(1, 3, 32, 32, 1).byte()))
    assert state[1][0][0].shape == (1, 2, 16, 64)  # frames, tokens, width


def test_every_memory_takes_a_step_of_training(small, monkeypatch):
    monkeypatch.setattr(train, "LENGTHS", (2, 3))
    monkeypatch.setattr(train, "compare", once)
    rows = list(train.rows(True, None))
    assert [row.name for row in rows] == [name for name in NAMES if name != contenders.RE_ENCODING]
    for row in rows:
        assert row.shape.startswith("T 2, B 1") and row.figures["frames_per_second"] == pytest.approx(2 / 0.5)
        assert row.work["conv3x3_gflops"] > 0
    assert "matmul_gflops" in {row.name: row for row in rows}["transformer"].work


def test_a_step_of_training_learns(small):
    predictor = contenders.build(contenders.stacks()["convs5"])
    before = [p.detach().clone() for p in predictor.parameters()]
    step = train.step(predictor, train.Clip(frames=torch.randint(0, 256, (1, 4, 32, 32, 1), dtype=torch.uint8)))
    step()
    changed = [not torch.equal(p, old) for p, old in zip(predictor.parameters(), before, strict=True)]
    assert sum(changed) > 0.9 * len(before)  # the table of actions has a row that nobody uses


def test_states_are_those_of_the_frame(small, monkeypatch):
    monkeypatch.setattr(horizon, "CHUNK", 2)
    lengths = {}
    for name, stack in contenders.stacks().items():
        predictor, seen = contenders.build(stack), []
        observe = predictor.observe
        monkeypatch.setattr(
            predictor, "observe", lambda clip, state, o=observe, s=seen: s.append(clip.num_frames) or o(clip, state)
        )
        with torch.no_grad():
            assert horizon.observed(predictor, 7, 1)[1] is not None
        lengths[name] = seen
    assert lengths["convs5"] == lengths["s5"] == [2, 2, 2, 1]
    assert lengths["transformer"] == lengths[contenders.RE_ENCODING] == [2, 2]


def test_frame_times_and_throughput(small, monkeypatch):
    monkeypatch.setattr(horizon, "compare", once)
    for name, value in {"FRAMES": (2, 5), "ROUNDS": {2: 1, 5: 1}, "BATCH": 3, "AT": 2}.items():
        monkeypatch.setattr(horizon, name, value)
    rows = {(row.shape.partition(", 8x8")[0], row.name): row for row in horizon.rows(False)}
    assert rows.keys() == {
        (shape, name) for shape in ("frame 2, B 1", "frame 5, B 1", "frame 2, B 3") for name in NAMES
    }
    assert rows["frame 2, B 3", "convs5"].figures["frames_per_second"] == pytest.approx(3 / 0.5)
    one, many = (rows[shape, "convs5"].figures["state_kib"] for shape in ("frame 2, B 1", "frame 2, B 3"))
    assert many == 3 * one == 3 * (4 * 32 * 32 + 2 * 4 * 8 * 64) / 1024
    assert all(row.work for row in rows.values())


def test_the_curve_is_logarithmic_and_of_single_clips():
    times = [
        ("a", 10, 1, 1.0),
        ("a", 1000, 1, 10.0),
        ("a", 10_000, 1, 100.0),
        ("b <", 10, 1, 5.0),
        ("b <", 10, 32, 999.0),
    ]
    rows = [vars(Row(name, f"frame {frame:,}, B {batch}, 8x8", ms)) for name, frame, batch, ms in times]
    drawn = curve.curve(rows)
    (points,) = re.findall(r"points='([^']*)' fill='none' stroke='#0072b2'", drawn)
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points.split())
    assert (x1 - x0) == pytest.approx(2 * (x2 - x1), abs=0.2) and (y0 - y1) == pytest.approx(y1 - y2, abs=0.2)
    assert drawn.count("<circle") == 4 and "b &lt;" in drawn and "10,000" in drawn
    with pytest.raises(ValueError, match="only `rollout` has a curve"):
        curve.curve([vars(Row("a", "L 4", 1.0))])
