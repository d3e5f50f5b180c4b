"""`videopred train`: what a user sees, and the exit status."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from videopred import checkpoint, cli
from videopred.training import checkpoint as saving
from videopred.training.feeding import TeacherForcingConfig

WORDS = """
    train debug recipe.image_size=16 recipe.digit_size=8 recipe.num_digits=1
    predictor.stack.width=4 predictor.stack.depth=1 predictor.stack.dynamics.num_states=2
    predictor.stack.spatial.num_groups=2 predictor.codec.num_groups=2
    predictor.codec.encoder_widths=[4] predictor.codec.decoder_widths=[4]
    training.clip_frames=6 training.log_every=1 training.validate_every=0
"""
TINY = WORDS.split()


def line(capsys):
    """The one line on stderr that is the error; nothing is on stdout."""
    out, err = capsys.readouterr()
    assert out == ""
    last = err.strip().splitlines()[-1]
    assert last.startswith("videopred: error: ")
    assert "Traceback" not in err
    return last


def test_trains_to_the_end_and_prints_where(empty_folder, capsys):
    words = [*TINY, "training.steps=4", "training.validate_every=4", "training.context=2", "training.horizon=3"]
    assert cli.main(words) == 0
    out, _ = capsys.readouterr()
    assert out == "checkpoints/runs/debug/step_00000004\n"
    run = empty_folder / "checkpoints/runs/debug"
    found = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    assert [each["step"] for each in found] == [1, 2, 3, 4, 4]
    assert any(name.startswith("validation/psnr") for name in found[-1])
    assert (run / "strip_00000004.png").stat().st_size > 0
    assert checkpoint.load(out.strip()).step == 4
    assert cli.main(words) == 0  # the same again has nothing to do
    assert capsys.readouterr().out == out


def test_another_configuration_is_2(tmp_path, capsys):
    assert cli.main([*TINY, "--out", str(tmp_path), "training.steps=1"]) == 0
    capsys.readouterr()
    assert cli.main([*TINY, "--out", str(tmp_path), "training.steps=2"]) == 2
    assert "belongs to another configuration: training.steps: 1 -> 2. Give another --out" in line(capsys)


MISTAKES = {
    "training.stepps=2": "did you mean 'steps'",
    "training.steps=0": "at least 1",
    "training.steps=x": "must be int",
    "training.validation_clips=99999": "training.validation_clips = 99999: the test split has",
}


@pytest.mark.parametrize(("word", "says"), MISTAKES.items(), ids=MISTAKES)
def test_a_wrong_setting_is_2_and_makes_nothing(word, says, tmp_path, capsys):
    assert cli.main([*TINY, "training.validate_every=1", word, "--out", str(tmp_path / "run")]) == 2
    assert says in line(capsys)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_2(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main([*TINY, "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in line(capsys)
    assert cli.main([*TINY, "--out", str(tmp_path / "file/run")]) == 2
    assert "Not a directory" in line(capsys)


def test_a_full_disk_is_3_and_says_what_was_saved(tmp_path, capsys, monkeypatch):
    words = [*TINY, "--out", str(tmp_path), "training.steps=4", "training.save_every=2"]
    write, left = saving.write_file, iter(range(99))

    def write_file(path, data):
        if next(left) > 6:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, data)

    monkeypatch.setattr(saving, "write_file", write_file)
    assert cli.main(words) == 3
    assert line(capsys).endswith(
        f"No space left on device: training stopped after step 4; the last good checkpoint is {tmp_path}/step_00000002"
        ". Once that is mended, the same command goes on from there"
    )
    assert checkpoint.load(str(tmp_path)).step == 2
    monkeypatch.undo()
    assert cli.main(words) == 0


def test_a_training_that_diverged_is_3_and_says_what_was_saved(tmp_path, capsys, monkeypatch):
    words = [*TINY, "--out", str(tmp_path), "training.steps=4", "training.save_every=1"]
    honest = TeacherForcingConfig.loss

    def broken(self, predictor, clip, progress, generator):
        loss, metrics = honest(self, predictor, clip, progress, generator)
        return loss * (float("nan") if progress >= 0.5 else 1.0), metrics

    monkeypatch.setattr(TeacherForcingConfig, "loss", broken)
    assert cli.main(words) == 3
    said = line(capsys)
    assert "training diverged at step 3: loss nan" in said
    aside = f"({tmp_path}/diverged_step_00000002 was set aside: its weights give this)"
    assert f"the last good checkpoint is {tmp_path}/step_00000001 {aside}. Try, with another --out" in said
    assert checkpoint.load(str(tmp_path)).step == 1


def test_interrupts_finish_the_step_save_and_are_130(tmp_path):
    words = [*TINY, "--out", str(tmp_path), "training.steps=100000", "training.save_every=100000"]
    reached = 0
    for number in (signal.SIGINT, signal.SIGTERM):
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen([sys.executable, "-m", "videopred", *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)  # fmt: skip
        with process:
            assert process.stderr is not None
            for text in process.stderr:
                if text.startswith("step ") and int(text.split()[1].partition("/")[0]) >= reached + 3:
                    process.send_signal(number)
                    break
            out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (130, ""), err
        assert "the same command goes on from there" in err
        assert err.strip().splitlines()[-1].startswith("videopred: interrupted")
        step = checkpoint.load(str(tmp_path)).step
        assert step >= reached + 3
        assert f"stopped after step {step}; the last good checkpoint is {tmp_path}/step_{step:08d}" in err
        reached = step
    steps = [json.loads(text)["step"] for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, reached + 1))


def test_processes_of_torchrun_stop_together_and_save_once(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [*TINY, "--out", str(tmp_path), "training.steps=100000", "training.save_every=100000"]
    process = subprocess.Popen([*torchrun, "-m", "videopred", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})  # fmt: skip
    seen = []
    with process:
        assert process.stderr is not None
        for text in process.stderr:
            seen.append(text)
            if text.startswith("step 3/"):
                process.send_signal(signal.SIGTERM)
                break
        out, err = process.communicate(timeout=120)
    assert process.returncode and out == "", "".join(seen) + err
    assert err.count("the same command goes on from there") == 1
    (saved,) = checkpoint.steps(tmp_path)
    assert checkpoint.load(str(tmp_path)).step == int(saved.name.removeprefix("step_")) >= 3
