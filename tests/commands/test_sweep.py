"""`videopred sweep` on two tiny cells: trained, scored, resumed, in one table."""

import json
import shutil

import pytest

from videopred import cli
from videopred.training import timing

TOML = """
question = "Does the block matter?"
base = "debug"
protocol = "short.toml"
BUDGET
overrides = [
    "recipe.image_size=16", "recipe.digit_size=8", "recipe.num_digits=1",
    "predictor.stack.width=8", "predictor.stack.depth=1", "predictor.stack.dynamics.num_states=4",
    "predictor.codec.num_groups=2", "predictor.codec.encoder_widths=[4]", "predictor.codec.decoder_widths=[4]",
    "training.clip_frames=6", "training.steps=4", "training.save_every=2", "training.validate_every=0",
    "training.log_every=1",
]
[[cells]]
name = "GLU"
overrides = ["predictor.stack.spatial={ kind = 'glu' }"]
[[cells]]
name = "SSM"
overrides = ["predictor.stack.spatial={ kind = 'ssm2d', num_states = 2 }"]
"""
PROTOCOL = """
num_clips = 2
context = 3
horizon = 22
metrics = [{ kind = "psnr" }]
[recipe]
kind = "moving_mnist"
image_size = 16
digit_size = 8
num_digits = 1
"""


@pytest.fixture
def files(empty_folder):
    """Writes an ablation with a budget, and its protocol, into the current folder."""
    (empty_folder / "short.toml").write_text(PROTOCOL)

    def write(budget: str = "") -> str:
        (empty_folder / "blocks.toml").write_text(TOML.replace("BUDGET", budget))
        return "blocks.toml"

    return write


def test_two_cells(files, capsys, empty_folder):
    assert cli.main(["sweep", files(), "--format", "markdown"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("Does the block matter? blocks: preset debug, 4 updates each; protocol")
    names = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert names == ["", "GLU", "SSM", "copy-last-frame", "mean-of-context", "blank", "mean-image"]
    heading, glu, *_ = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| "))
    values = dict(zip(heading, glu, strict=True))
    assert values["updates"] == "4" and int(values["parameters"].replace(",", "")) > 100
    assert {"psnr 1-20", "psnr 1-22"} <= values.keys() and "±" in values["psnr 1-20"]
    data = json.loads((empty_folder / "eval/results/ablation-blocks.json").read_text())
    for row in data["rows"]:
        assert row["training"]["steps"] == 4 and row["training"]["seconds"] > 0
        assert row["flops_per_frame"] > 0 and row["step_ms"] > 0
        assert len(row["metrics"]["psnr"]["per_clip"]) == 2
    (cost, _) = data["costs"].values()
    assert values["ms/update"] == f"{cost['update_ms']:.0f}" and values["frames/s"] == f"{1e3 / cost['frame_ms']:.0f}"
    assert len(list(empty_folder.glob("checkpoints/runs/ablation-blocks/glu-*/step_00000004"))) == 1

    files = "eval/results/ablation-blocks.json", "checkpoints/runs/ablation-blocks"
    assert "the result is {}, the trained models are in {}".format(*files) in err
    before = (empty_folder / "eval/results/ablation-blocks.json").read_bytes()
    assert cli.main(["sweep", "blocks.toml"]) == 0
    assert (empty_folder / "eval/results/ablation-blocks.json").read_bytes() == before
    assert "GLU" in capsys.readouterr().out


def test_half_a_training_is_gone_on_with(files, capsys, empty_folder, monkeypatch):
    """The first cell's folder holds steps up to 2 of 4: what the sweep makes of it is what a whole run would."""
    assert cli.main(["sweep", files(), "--out", "whole.json", "--runs", "whole"]) == 0
    assert cli.main(["sweep", "blocks.toml", "--out", "half.json", "--runs", "half"]) == 0
    (folder,) = empty_folder.glob("half/glu-*")
    shutil.rmtree(folder / "step_00000004")
    (empty_folder / "half.json").unlink()
    capsys.readouterr()
    assert cli.main(["sweep", "blocks.toml", "--out", "half.json", "--runs", "half"]) == 0
    assert f"going on from half/{folder.name}/step_00000002" in capsys.readouterr().err
    whole, half = (json.loads((empty_folder / name).read_text())["rows"] for name in ("whole.json", "half.json"))
    for a, b in zip(whole, half, strict=True):
        assert a["metrics"] == b["metrics"] and a["training"]["loss"] == b["training"]["loss"]


def test_a_changed_cell_is_trained_anew(files, capsys, empty_folder):
    """Its earlier run stays where it is."""
    assert cli.main(["sweep", files(), "--out", "out.json"]) == 0
    text = (empty_folder / "blocks.toml").read_text().replace("num_states = 2", "num_states = 3")
    (empty_folder / "blocks.toml").write_text(text)
    assert cli.main(["sweep", "blocks.toml", "--out", "out.json"]) == 0
    err = capsys.readouterr().err
    assert (err.count(": GLU"), err.count(": SSM")) == (1, 2)
    assert len(list(empty_folder.glob("checkpoints/runs/ablation-blocks/ssm-*/step_00000004"))) == 2


def test_a_budget_of_time_times_the_updates(files, capsys, empty_folder, monkeypatch):
    asked = []
    costs = [{"update_ms": 2e3, "frame_ms": 1.0}, {"update_ms": 3e3, "frame_ms": 1.0}]
    monkeypatch.setattr(timing, "costs", lambda runs, place: asked.append(len(runs)) or costs)
    assert cli.main(["sweep", files("budget = { seconds = 6.0 }"), "--out", "out.json", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["training"]["steps"] for row in data["rows"]] == [3, 2] and asked == [2]
    assert data == json.loads((empty_folder / "out.json").read_text())


def test_unequal_parameters_are_one_line_and_2(files, capsys, empty_folder):
    assert cli.main(["sweep", files("budget = { parameters = 0.01 }")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("videopred: error: cell 'SSM' has ") and error.count("\n") == 1
    assert not (empty_folder / "checkpoints").exists()


def test_a_diverged_cell_is_a_note(files, capsys, empty_folder):
    text = (
        (empty_folder / files())
        .read_text()
        .replace("{ kind = 'glu' }", "{ kind = 'glu' }\", \"training.optimizer.learning_rate=1e30")
    )
    (empty_folder / "blocks.toml").write_text(text)
    assert cli.main(["sweep", "blocks.toml", "--out", "out.json"]) == 0
    out = capsys.readouterr().out
    assert "note: GLU: not trained to the end: training diverged at step" in out
    assert json.loads((empty_folder / "out.json").read_text())["rows"][1]["metrics"]["psnr"]["mean"] > 0
