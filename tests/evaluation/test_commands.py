"""`videopred eval` and `videopred table`, from arguments to files and exit status."""

import dataclasses
import errno
import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from videopred import checkpoint, cli
from videopred.checkpoint import Loaded
from videopred.commands.eval import default_out
from videopred.data import MovingMNISTConfig

PROTOCOL = """
num_clips = 3
context = 2
horizon = 3
metrics = [{ kind = "psnr" }, { kind = "ink" }]
[recipe]
kind = "moving_mnist"
image_size = 16
digit_size = 8
"""


GPU = torch.cuda.is_available()


class Repeat(nn.Module):
    """Predicts the newest frame again."""

    format = MovingMNISTConfig(image_size=16, digit_size=8).format
    interrupt = False

    def observe(self, clip, state=None):
        return (clip.pixels()[:, -1],)

    def predict(self, state, action=None, noise=None):
        if self.interrupt:
            raise KeyboardInterrupt
        return state[0], state

    def noise_shape(self):
        return None


@pytest.fixture
def model(monkeypatch, tmp_path):
    """Stands in for a checkpoint on disk; commands run in an empty folder that holds mine.toml."""
    repeat = Repeat()

    def load(name, device="cpu"):
        return Loaded(repeat, MovingMNISTConfig(), name, 5, "0123", {"recipe": {}})

    monkeypatch.setattr(checkpoint, "load", load)
    monkeypatch.setattr(checkpoint, "load_either", load)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(PROTOCOL)
    return repeat


def test_one_result_is_made_by_one_process(model, tmp_path, capsys):
    code = "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.lockf(file, fcntl.LOCK_EX)\n"
    code += "print('held', flush=True); sys.stdin.read()"
    parts = tmp_path / "out.parts"
    parts.mkdir()
    words = [sys.executable, "-c", code, str(parts / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert cli.main(["eval", "repeat", "mine.toml", "--device", "cpu", "--out", "out.json"]) == 2
        assert "out.parts: another process is evaluating in this folder" in capsys.readouterr().err
        other.stdin.close()
    assert cli.main(["eval", "repeat", "mine.toml", "--device", "cpu", "--out", "out.json"]) == 0
    assert not parts.exists()


def test_eval_prints_a_table_and_writes_the_result(model, tmp_path, capsys):
    assert cli.main(["eval", "repeat", "mine.toml", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    data = json.loads((tmp_path / "eval/results/repeat-mine.json").read_text())
    copy, repeat = data["rows"][1], data["rows"][0]
    assert repeat["metrics"]["psnr"]["per_frame"] == copy["metrics"]["psnr"]["per_frame"]
    assert data["checkpoint"] == {"name": "repeat", "hash": "0123", "step": 5, "config": {"recipe": {}}}
    assert f"{repeat['metrics']['psnr']['mean']:.2f}" in out and "repeat-mine.json" not in out
    assert "eval/results/repeat-mine.json" in err
    assert (tmp_path / "eval/results/repeat-mine.npz").is_file()


def test_a_short_run_does_not_replace_a_whole_one(model, tmp_path, capsys):
    assert cli.main(["eval", "repeat", "mine.toml", "--clips", "2", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["clips"] == 2
    assert [path.name for path in (tmp_path / "eval/results").glob("*.json")] == ["repeat-mine-clips2.json"]


def test_the_result_of_another_checkpoint_is_not_replaced(model, tmp_path, monkeypatch, capsys):
    """One of the same name, as after more training or in another folder; the same one may be evaluated again."""
    path, words = tmp_path / "eval/results/repeat-mine.json", ["eval", "repeat", "mine.toml"]
    assert cli.main(words) == 0 and cli.main(words) == 0
    before = path.read_bytes()
    loaded = dataclasses.replace(checkpoint.load_either("repeat"), step=6, hash="4567")
    monkeypatch.setattr(checkpoint, "load_either", lambda *_: loaded)
    capsys.readouterr()
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert "holds the result of checkpoint repeat at step 5 (weights 0123)" in err and "Give --out FILE.json" in err
    assert path.read_bytes() == before and not [*tmp_path.rglob("*.parts")]
    assert cli.main([*words, "--out", str(path)]) == 0 and path.read_bytes() != before  # on purpose


def test_the_end_names_what_was_written(model, capsys):
    words = ["eval", "repeat", "mine.toml", "--report", "page.html", "--save-clips", "clips"]
    assert cli.main(words) == 0
    *_, result, report = capsys.readouterr().err.splitlines()
    assert result.endswith(", clips in clips") and report == "videopred: report in page.html"


def test_interrupted(model, tmp_path, capsys):
    model.interrupt = True
    assert cli.main(["eval", "repeat", "mine.toml", "--out", "here.json"]) == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.parts", "mine.toml"]
    model.interrupt = False
    assert cli.main(["eval", "repeat", "mine.toml", "--out", "here.json"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.json", "here.npz", "mine.toml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine.toml", "--clips", "0"], "num_clips = 0: must be at least 1"),
        (["mine.toml", "--clips", "99999"], "ask for fewer with --clips"),
        (["mine.toml", "--samples", "2"], "deterministic"),
        (["mine.toml", "--out", "x.txt"], "must end in .json"),
        (["mine.toml", "--out", "x.json", "--report", "x.json"], "x.json: a report's name must end in .html"),
        pytest.param(
            ["mine.toml", "--device", "cuda"],
            "torch finds no GPU here",
            marks=pytest.mark.skipif(GPU, reason="has a GPU"),
        ),
        (["no-such"], "no-such: no such name in protocols"),
        (["moving-mnist-small"], "the model takes frames of 16 x 16 x 1"),
    ],
)
def test_mistakes_are_one_line_and_status_two(model, tmp_path, capsys, arguments, message):
    assert cli.main(["eval", "repeat", *arguments]) == 2
    out, err = capsys.readouterr()
    assert not [*tmp_path.rglob("*.parts")]
    assert out == "" and err.count("\n") == 1 and err.startswith("videopred: error: ") and message in err


def test_table(model, tmp_path, capsys):
    for name in ("one", "two"):
        assert cli.main(["eval", name, "mine.toml", "--out", f"{name}.json"]) == 0
    assert cli.main(["eval", "one", "mine.toml", "--clips", "2", "--out", "fewer.json"]) == 0
    capsys.readouterr()
    assert cli.main(["table", "one.json", "two.json", "--format", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        sum(line.startswith("| one |") for line in lines) == 3
        and sum(line.startswith("| blank |") for line in lines) == 2
    )
    assert cli.main(["table", "one.json", "fewer.json"]) == 2
    assert "num_clips: 3 -> 2" in capsys.readouterr().err
    assert cli.main(["table", "one.json", "fewer.json", "--across-protocols"]) == 0
    assert capsys.readouterr().out.count("recipe moving_mnist") == 2
    assert cli.main(["table", "mine.toml"]) == 2
    before = (tmp_path / "one.json").read_bytes()
    assert cli.main(["table", "one.json", "--report", "one.json"]) == 2
    assert "one.json: a report's name must end in .html" in capsys.readouterr().err
    assert (tmp_path / "one.json").read_bytes() == before


def test_a_report_that_fails_does_not_take_the_result(model, tmp_path, monkeypatch):
    def broken(*_):
        raise MemoryError

    monkeypatch.setattr("videopred.evaluation.shown.shown", broken)
    assert cli.main(["eval", "repeat", "mine.toml", "--out", "here.json", "--report", "page.html"]) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.json", "here.npz", "mine.toml"]


def test_a_full_disk_does_not_take_the_numbers(model, monkeypatch, capsys):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(["eval", "repeat", "mine.toml", "--out", "r.json"]) == 3
    out, err = capsys.readouterr()
    assert out.startswith("mine (") and "psnr" in out
    assert "r.json was not written" in err and "error: r.json: No space left on device" in err


def test_table_of_files_of_one_name(model, capsys):
    for out in ("a/result.json", "b/result.json"):
        assert cli.main(["eval", "one", "mine.toml", "--out", out]) == 0
    capsys.readouterr()
    assert cli.main(["table", "a/result.json", "b/result.json", "b/result.json"]) == 0
    out = capsys.readouterr().out
    for name in ("one [a/result.json]  ", "one [b/result.json]  ", "one [b/result.json] [2]  "):
        assert out.count(f"\n{name}") == 4  # two metrics, costs and time


def test_the_same_arithmetic_whatever_the_caller_set(model, tmp_path):
    """Not even the default dtype of the caller changes the numbers."""
    torch.set_default_dtype(torch.float64)
    try:
        assert cli.main(["eval", "repeat", "mine.toml", "--out", "double.json", "--format", "csv"]) == 0
    finally:
        torch.set_default_dtype(torch.float32)
    assert cli.main(["eval", "repeat", "mine.toml", "--out", "single.json", "--format", "csv"]) == 0
    double, single = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("double", "single"))
    assert [row["metrics"] for row in double["rows"]] == [row["metrics"] for row in single["rows"]]


def test_another_way_of_drawing_is_another_result(model, capsys):
    told = ["predictor.prior.revisions=0", "predictor.prior.temperature=0.5"]
    assert default_out("m", "p", None, 2, told) == default_out("m", "p", None, None).with_name(
        "m-p-samples2-revisions0-temperature0.5.json"
    )
    assert cli.main(["eval", "repeat", "mine.toml", "--sampling", told[0]]) == 2
    assert "it is deterministic" in capsys.readouterr().err
