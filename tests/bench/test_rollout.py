"""States are kept where they should be, and memory is read when it should be."""

import pytest
import torch

from videopred import config, saved
from videopred.bench import rollout as bench
from videopred.clip import Clip, Format
from videopred.data.moving_mnist import MovingMNISTConfig


class Counting(torch.nn.Module):
    """Predicts black; its state is how many frames it has predicted."""

    format = Format(1, 32, 32)

    def observe(self, clip: Clip):
        assert clip.num_frames == bench.CONTEXT
        return 0

    def predict(self, state, action=None, noise=None):
        assert noise is not None and noise.shape == (1, 2)
        return -torch.ones(1, 1, 32, 32), state + 1

    def noise_shape(self):
        return (2,)


@pytest.fixture
def recipe():
    return MovingMNISTConfig(digit_size=14, image_size=32)


def test_steps_from_two_frames_and_memory_at_two(recipe, monkeypatch):
    timed = {}

    def compare(functions, rounds, title):
        timed.update({name: function()[1] for name, function in functions.items()})
        return {name: [0.001 * (i + 1)] * rounds for i, name in enumerate(functions)}

    sizes = iter([100.0, 150.0])
    monkeypatch.setattr(bench, "compare", compare)
    monkeypatch.setattr(bench, "resident_mib", lambda: next(sizes))
    rows = {row.name: row for row in bench.measure("counting", Counting(), recipe, 3, 20, rounds=5)}
    assert timed == {"step at frame 3": 3, "step at frame 20": 20}
    assert rows["step at frame 20"].ratio == pytest.approx(2.0)
    assert rows["step at frame 20"].ratio_to == "step at frame 3"
    assert rows["memory at frame 20"].ratio_to == "memory at frame 2"
    assert (rows["memory at frame 20"].ratio, rows["memory at frame 20"].figures) == (1.5, {"resident_mib": 150.0})
    assert {row.shape for row in rows.values()} == {"counting, 32x32x1, B 1"}


def test_a_model_that_needs_actions_is_told_that_they_are_unknown(recipe, monkeypatch):
    from videopred.bench import savings

    class Acting(Counting):
        format, asked = Format(1, 32, 32, num_actions=3), []

        def predict(self, state, action=None, noise=None):
            self.asked.append(action.tolist())
            return super().predict(state, action, noise)

    def compare(functions, rounds, title):
        return {name: [0.001 for _ in [function()]] for name, function in functions.items()}

    predictor = Acting()
    monkeypatch.setattr(bench, "compare", compare)
    monkeypatch.setattr(savings, "compare", compare)
    list(bench.measure("acting", predictor, recipe, 1, 10, rounds=1))
    clip = Clip(frames=torch.zeros(1, bench.CONTEXT, 32, 32, 1, dtype=torch.uint8), id=("a",))
    list(savings.savings("acting", predictor, clip, frames=3, rounds=1))
    assert len(predictor.asked) > 13 and all(action == [-1] for action in predictor.asked)


def test_where_memory_is_unknown_the_row_says_so(recipe, monkeypatch):
    monkeypatch.setattr(bench, "resident_mib", lambda: None)
    *_, last = bench.measure("counting", Counting(), recipe, 1, 10, rounds=1)
    assert (last.name, last.ratio, last.median_ms) == ("memory at frame 10", None, None)
    assert "does not tell" in last.note


def test_without_the_shipped_model_its_preset_is_measured_and_the_name_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(saved, "SHIPPED", tmp_path)
    monkeypatch.chdir(tmp_path)
    name, predictor, recipe = bench.model(None)
    assert name == "moving-mnist-small (untrained)"
    assert predictor.format == recipe.format == Format(1, 32, 32)
    assert not predictor.training


def test_a_model_that_is_asked_for_must_exist():
    with pytest.raises(FileNotFoundError, match="absent: no such checkpoint"):
        bench.model("absent")


def test_the_preset_of_the_shipped_model_is_there():
    assert bench.MODEL in config.shipped("presets")


def test_what_is_spared_is_compared_with_what_gives_the_same(recipe, monkeypatch):
    from videopred.bench import savings

    seen = {}

    def compare(functions, rounds, title):
        seen[title] = {name: function() for name, function in functions.items()}
        return {name: [0.001] * rounds for name in functions}

    written = []
    monkeypatch.setattr(savings, "compare", compare)
    for kind in (savings.Board,):
        monkeypatch.setattr(
            kind, "draw", lambda self, real, fake, draw=kind.draw: written.append(fake) or draw(self, real, fake)
        )
    clip = Clip(frames=torch.zeros(1, bench.CONTEXT, 32, 32, 1, dtype=torch.uint8), id=("a",))
    rows = list(savings.savings("counting", Counting(), clip, frames=3, rounds=2))
    assert [row.name for row in rows] == [
        "discretised once",
        "discretised anew",
        "encoded meanwhile",
        "encoded in turn",
    ]
    assert len(written) == 6 and seen.keys() == {"steps", "files"}
    assert rows[-1].figures["frames_per_second"] == pytest.approx(3 / 0.001)
