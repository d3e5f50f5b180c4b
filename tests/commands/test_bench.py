"""`videopred bench`: what it prints, and what it writes."""

import importlib
import json

import pytest

from videopred import bench, cli
from videopred.bench import machine
from videopred.bench.rounds import Row

PEAKS = {"matmul_gflops": 1.0, "conv3x3_gflops": 1.0, "copy_gbytes": 1.0}


@pytest.fixture
def asked(monkeypatch):
    """How each bench was asked; none of them runs."""
    asked = {}
    monkeypatch.setattr(machine, "peaks", lambda rounds: PEAKS)
    for name in bench.NAMES:

        def rows(quick, checkpoint, name=name):
            asked[name] = (quick, checkpoint)
            yield Row("this", "small", 2.0, "that", 0.5, rounds=3)

        monkeypatch.setattr(importlib.import_module(f"videopred.bench.{name}"), "rows", rows)
    return asked


@pytest.mark.parametrize("name", bench.NAMES)
def test_every_bench_is_found_and_prints_a_table(name, asked, capsys):
    assert cli.main(["bench", name]) == 0
    out = capsys.readouterr().out
    assert asked == {name: (False, None)}
    assert out.splitlines()[-1].split() == ["this", "2", "0.50", "that", "3"]


def test_bench_alone_and_its_help_tell_what_each_measures(asked, capsys):
    assert cli.main(["bench"]) == 0
    told = capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["bench", "layer", "--help"])
    text = capsys.readouterr().out
    assert all(f"  {name} " in told and what in told and what in text for name, what in bench.NAMES.items())
    assert "of rollout and drift only" in text and not asked


def test_a_checkpoint_for_a_bench_without_one_is_refused(asked, capsys):
    assert cli.main(["bench", "scan", "--checkpoint", "some"]) == 2
    assert "--checkpoint some: only rollout and drift take one" in capsys.readouterr().err and not asked


def test_options_reach_the_bench_and_the_file(asked, capsys, tmp_path):
    path = tmp_path / "out" / "bench.json"
    assert cli.main(["bench", "rollout", "--quick", "--checkpoint", "some", "--json", str(path)]) == 0
    assert asked == {"rollout": (True, "some")}
    data = json.loads(path.read_text())
    assert (data["bench"], data["quick"], data["environment"]["peaks"]) == ("rollout", True, PEAKS)
    assert isinstance(data["environment"]["keeps_freed_memory"], bool)
    assert data["rows"][0]["ratio"] == 0.5
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_said_before_the_work(asked, capsys, tmp_path):
    assert cli.main(["bench", "scan", "--json", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"videopred: error: {tmp_path}: is a folder; give the name of a file\n"
    assert not asked


def test_an_unknown_bench_is_one_line_and_2(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "colours"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("videopred: error: argument BENCH: invalid choice: 'colours'")


def test_the_curve_goes_to_its_file(monkeypatch, asked, capsys, tmp_path):
    def rows(quick, checkpoint):
        yield from (Row("this", f"frame {n}, B 1, 8x8", 2.0) for n in (10, 100))

    monkeypatch.setattr(importlib.import_module("videopred.bench.rollout"), "rows", rows)
    assert cli.main(["bench", "rollout", "--curve", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    for words in ["scan", "--curve", "a.svg"], ["rollout", "--curve", "a.png"]:
        assert cli.main(["bench", *words]) == 2
        assert "must end in .svg" in capsys.readouterr().err
