"""What a run says: lines in a file that survive kills, and a line on the screen."""

import io
import json
import sys

import pytest
import torch

from videopred.training import log
from videopred.training.log import Log

CPU = torch.device("cpu")
NUMBERS = {"loss": 0.5, "l1": 0.25, "gradient": 1.5, "learning_rate": 1e-3}


@pytest.fixture
def settings(tiny):
    return tiny("training.steps=20", "training.log_every=5", "training.batch_size=2", "training.accumulate=3",
                "training.clip_frames=10").training  # fmt: skip


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_line_every_so_often_and_at_the_end(settings, tmp_path):
    with Log(tmp_path, 0, settings, CPU) as open_log:
        for step in range(1, 21):
            open_log.step(step, NUMBERS, 0.1 if step <= 5 else 0.2)
    found = lines(tmp_path)
    assert [line["step"] for line in found] == [5, 10, 15, 20]
    assert [line["ms_per_step"] for line in found] == pytest.approx([100, 200, 200, 200])
    assert found[0]["frames_per_second"] == pytest.approx(2 * 3 * 10 / 0.1)
    assert found[0].items() >= NUMBERS.items()
    assert 0.01 < found[0]["memory_gib"] < 100


CUT = '{"step": 5, "loss": 1.0}\n{"step": 5, "psnr": 9.0}\n{"step": 10, "loss": 0.9}\n{"step": 15, "loss": 0.8}\n'


@pytest.mark.parametrize(
    "tail", ["", '{"step": 20, "lo', '{"step": 20, "loss": 0.5}', "\x00\x00\n", "7\n", '{"step": "x"}\n']
)
def test_lines_past_the_step_and_what_a_kill_has_cut_off_go(tail, settings, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(CUT + tail)
    with Log(tmp_path, 10, settings, CPU) as open_log:
        assert open_log.validated == {5}
        open_log.step(15, NUMBERS, 1.0)
    assert [(line["step"], line.get("loss")) for line in lines(tmp_path)] == [(5, 1.0), (5, None), (10, 0.9), (15, 0.5)]


def test_a_last_line_without_its_end_is_kept_whole(settings, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(CUT.strip())
    with Log(tmp_path, 15, settings, CPU) as open_log:
        open_log.step(20, NUMBERS, 1.0)
    assert [line["step"] for line in lines(tmp_path)] == [5, 5, 10, 15, 20]


def test_a_file_with_nothing_to_cut_is_not_written_anew(settings, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(CUT)
    before = path.stat().st_ino
    with Log(tmp_path, 15, settings, CPU):
        pass
    assert (path.stat().st_ino, path.read_text()) == (before, CUT)


def test_when_a_validation_is_due(settings, tiny, tmp_path):
    with Log(tmp_path, 0, tiny("training.validate_every=5").training, CPU) as open_log:
        assert [step for step in range(12) if open_log.lacks_validation(step)] == [5, 10]
        open_log.validation(5, {"psnr": float("inf")})
        assert not open_log.lacks_validation(5)
    assert lines(tmp_path) == [{"step": 5, "psnr": None}]
    with Log(tmp_path, 5, settings, CPU) as open_log:  # validate_every is 0
        assert not any(open_log.lacks_validation(step) for step in range(12))


def test_the_bar_shows_how_things_stand(settings, tmp_path, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    with Log(tmp_path, 5, settings, CPU) as open_log:
        for step in range(6, 11):
            open_log.step(step, NUMBERS, 0.25)
    last = terminal.getvalue().replace("\r", "\n").strip().splitlines()[-1]
    for part in ("10/20", "loss 0.5", "lr 0.001", "grad 1.5", "250 ms/step", "240 frames/s", "GiB", "<"):
        assert part in last  # tqdm writes the time left after "<"


def test_without_a_terminal_there_are_plain_lines(settings, tmp_path, capsys):
    with Log(tmp_path, 9, settings, CPU) as open_log:
        open_log.step(10, NUMBERS, 6.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("step 10/20 loss 0.5 lr 0.001 grad 1.5 6000 ms/step 10 frames/s ")
    assert err.endswith("GiB 01:00 left\n") and "\r" not in err


def test_the_loss_of_tokens_is_also_told_in_nats_a_token(settings, tmp_path, capsys):
    with Log(tmp_path, 9, settings, CPU) as open_log:
        open_log.step(10, NUMBERS | {"loss": 2085.0, "nats": 8.14}, 6.0)
    assert capsys.readouterr().err.startswith("step 10/20 loss 2085 (8.14 nats a token) lr 0.001 ")


def test_tensorboard_that_is_not_installed_is_named(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        Log(tmp_path, 0, tiny("training.tensorboard=true").training, CPU)


def test_tensorboard_gets_the_same_numbers(tiny, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = tiny("training.tensorboard=true").training
    for start in (0, 2):
        with Log(tmp_path, start, settings, CPU) as open_log:
            for step in range(start + 1, start + 4):
                open_log.step(step, NUMBERS | {"loss": start + step, "l1": float("nan")}, 1.0)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 1), (2, 2), (3, 5), (4, 6), (5, 7)]
    assert "l1" not in events.Tags()["scalars"]


@pytest.mark.parametrize(("platform", "unit"), [("linux", 2**20), ("darwin", 2**30)])
def test_memory_is_in_gib_whatever_the_system_counts_in(platform, unit, monkeypatch):
    class Usage:
        ru_maxrss = 3 * unit

    monkeypatch.setattr(log.resource, "getrusage", lambda who: Usage)
    monkeypatch.setattr(sys, "platform", platform)
    assert log.memory_gib(CPU) == 3
