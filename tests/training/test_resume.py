"""Stopping and going on changes nothing, bit for bit, however a run was stopped."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from videopred import config
from videopred.data.hold import hold
from videopred.training import checkpoint, loop
from videopred.training.feeding import TeacherForcingConfig
from videopred.training.folder import claim

# Everything that draws random numbers or keeps something from step to step.
WORDS = """
    training.steps=20 training.save_every=7 training.keep=9 training.accumulate=2 predictor.stack.dropout=0.2
    training.feeding.kind=scheduled_sampling training.feeding.min_context=2 training.feeding.max_context=3
"""
ALL = WORDS.split()


@pytest.fixture
def ids(monkeypatch):
    """The ids of the clips that training has seen, batch by batch."""
    seen, read = [], loop.batches

    def batches(*args, **kwargs):
        for clip in read(*args, **kwargs):
            seen.append(clip.id)
            yield clip

    monkeypatch.setattr(loop, "batches", batches)
    return seen


@pytest.fixture
def before_step(monkeypatch):
    """`before_step(n, function)` calls function in the middle of training, when n updates have been made."""
    hooks, update = {}, loop.update

    def hooked(predictor, optimizer, clips, settings, step):
        hooks.pop(step, lambda: None)()
        return update(predictor, optimizer, clips, settings, step)

    monkeypatch.setattr(loop, "update", hooked)
    return hooks.__setitem__


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_twenty_steps_are_ten_and_a_stop_and_ten(number, tiny, go, tmp_path, outcome, ids, before_step, capsys):
    go(tiny(*ALL), tmp_path / "straight")
    straight, ids[:] = [*ids], []
    before_step(9, lambda: os.kill(os.getpid(), number))
    with pytest.raises(loop.Interrupted, match=r"stopped after step 10; the last good checkpoint is .*step_00000010"):
        go(tiny(*ALL), tmp_path / "stopped")
    assert "same command goes on" in capsys.readouterr().err
    torch.manual_seed(99)
    torch.rand(7)
    go(tiny(*ALL), tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")
    assert ids == straight
    assert len(set(sum(ids, ()))) == 20 * 2 * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_later_signal_stops_at_once(number, tiny, go, tmp_path, before_step, monkeypatch):
    monkeypatch.setattr(loop, "TOGETHER", 0.02)

    def twice():
        os.kill(os.getpid(), number)
        time.sleep(0.1)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    before_step(3, twice)
    with pytest.raises(KeyboardInterrupt) as stop:
        go(tiny(), tmp_path)
    assert not isinstance(stop.value, loop.Interrupted)
    assert checkpoint.steps(tmp_path)[-1].name == "step_00000002"
    assert signal.getsignal(number) is before


def test_two_signals_together_are_one(tiny, go, tmp_path, before_step):
    """As `timeout` sends them: to the process and to its group."""
    before_step(3, lambda: [os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)])
    with pytest.raises(loop.Interrupted, match="stopped after step 4"):
        go(tiny(), tmp_path)


def test_the_same_command_after_the_end_trains_no_more(tiny, go, tmp_path, outcome, ids):
    last = go(tiny(), tmp_path)
    before, ids[:] = outcome(tmp_path), []
    assert go(tiny(), tmp_path) == last
    assert (outcome(tmp_path), ids) == (before, [])


@pytest.fixture(scope="module")
def two_steps(tiny, go, tmp_path_factory):
    """A finished run with step folders 6 and 8 (`keep` 2), made once."""
    folder = tmp_path_factory.mktemp("run")
    go(tiny(), folder)
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


HARM = {"cut off": cut, "empty": lambda path: path.write_bytes(b""), "missing": Path.unlink,
        "a folder": lambda path: (path.unlink(), path.mkdir())}  # fmt: skip
FILES = ["model.safetensors", "training.safetensors", "training.json", "config.toml"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_newest_step_is_passed_over(harm, file, tiny, go, two_steps, tmp_path, outcome, capsys):
    run = tmp_path / "run"
    shutil.copytree(two_steps, run)
    HARM[harm](run / "step_00000008" / file)
    if harm == "cut off" and file == "config.toml":
        (run / "step_00000008" / file).write_text("[predictor")
    go(tiny(), run)
    assert outcome(run) == outcome(two_steps)
    assert [step.name for step in checkpoint.steps(run)] == ["step_00000006", "step_00000008"]
    assert (run / "damaged_step_00000008").is_dir()
    err = capsys.readouterr().err
    assert f"step_00000008/{file}" in err
    assert "going on from" in err and "step_00000006" in err


def test_the_newest_stays_the_newest_though_only_one_is_kept(tiny, go, two_steps, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(two_steps, run)
    cut(run / "step_00000008" / "model.safetensors")
    checkpoint.prune(run, keep=1, keep_every=0)  # 6 goes, 8 is damaged
    assert [step.name for step in checkpoint.steps(run)] == ["step_00000008"]
    with pytest.raises(ValueError, match=r"no checkpoint can be read: .*cut off.*Move the folder away"):
        go(tiny(), run)
    assert (run / "step_00000008").is_dir()


def test_a_step_of_another_model_changes_nothing(tiny, tmp_path, two_steps):
    shutil.copytree(two_steps, tmp_path / "run")
    other = tiny("predictor.stack.width=8")
    module = other.predictor.build(other.recipe.format)
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.raises(ValueError, match="weights of another model"):
        checkpoint.restore(tmp_path / "run", module, other.training.optimizer.build(module), None)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_what_is_not_a_step_folder_is_left_alone(tiny, go, tmp_path):
    (tmp_path / "step_best").mkdir()
    (tmp_path / "step_00000001.txt").write_text("mine")
    go(tiny("training.keep=1"), tmp_path)
    assert {path.name for path in tmp_path.glob("step_*")} == {"step_best", "step_00000001.txt", "step_00000008"}


def test_keep_every_stays_besides_the_newest(tiny, go, tmp_path):
    go(tiny("training.save_every=1", "training.keep=2", "training.keep_every=3"), tmp_path)
    assert [int(step.name[5:]) for step in checkpoint.steps(tmp_path)] == [3, 6, 7, 8]


def test_an_older_config_lacks_keys_that_have_defaults(tiny, go, tmp_path):
    text = claim(tmp_path, tiny())
    (tmp_path / "config.toml").write_text(text.replace("validation_clips = 2\n", "").replace("threads = 0\n", ""))
    with pytest.raises(config.ConfigError, match="validation_clips: 8 -> 2"):
        claim(tmp_path, tiny())
    claim(tmp_path, tiny("training.validation_clips=8"))


def test_another_configuration_is_refused_with_the_keys(tiny, go, tmp_path, outcome):
    go(tiny(), tmp_path)
    before = outcome(tmp_path)
    with pytest.raises(config.ConfigError) as error:
        go(tiny("training.steps=9", "predictor.stack.dropout=0.1"), tmp_path)
    assert "predictor.stack.dropout: 0.0 -> 0.1; training.steps: 8 -> 9. Give another --out" in str(error.value)
    assert outcome(tmp_path) == before


@pytest.mark.parametrize(("text", "says"), [("", "empty; copy"), ("[training", "not valid TOML")])
def test_a_damaged_configuration_is_one_line(text, says, tiny, tmp_path):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(config.ConfigError, match=says):
        claim(tmp_path, tiny())


def test_a_mistake_in_the_settings_leaves_no_folder(tiny, go, tmp_path):
    with pytest.raises(ValueError, match="long_skips"):
        go(tiny("predictor.stack.long_skips=[[0, 9]]"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_process_at_a_time(tiny, go, tmp_path):
    code = "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.lockf(file, fcntl.LOCK_EX)\n"
    code += "print('held', flush=True); input()"
    with hold(tmp_path, "is training"):
        pass
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / ".lock")], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    with holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        with pytest.raises(config.ConfigError, match="another process is training in this folder"):
            go(tiny(), tmp_path)
        assert not (tmp_path / "config.toml").exists()
        holder.kill()
        holder.wait()
        assert go(tiny("training.steps=1"), tmp_path).name == "step_00000001"


def test_killed_many_times(tmp_path):
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(report["kills"])
    assert report["straight"] == report["killed"]
    assert not report["damaged"]  # no kill leaves half a step folder
    assert len(report["kills"]) >= 20
    assert {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "timer"} <= set(report["kills"])


def test_the_number_of_threads_is_recorded_and_used(tiny, go, tmp_path, before_step):
    seen = []
    try:
        torch.set_num_threads(2)
        before_step(1, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(loop.Interrupted):
            go(tiny("training.steps=4"), tmp_path)
        torch.set_num_threads(1)
        before_step(2, lambda: seen.append(torch.get_num_threads()))
        go(tiny("training.steps=4"), tmp_path)
    finally:
        torch.set_num_threads(1)
    assert seen == [2]
    assert json.loads((tmp_path / "step_00000004/training.json").read_text()) == {"step": 4, "threads": 2}


def test_in_another_thread_there_are_no_signals(tiny, go, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(go, tiny("training.steps=1"), tmp_path).result().name == "step_00000001"


def test_no_pickle(two_steps):
    for path in two_steps.rglob("*"):
        assert path.is_dir() or path.suffix in {".safetensors", ".toml", ".json", ".jsonl"} or path.name == ".lock"


def test_teacher_forcing_is_the_default(tiny):
    assert tiny().training.feeding == TeacherForcingConfig()


def test_a_new_run_begins_with_another_ones_weights_and_then_needs_its_file_no_more(tiny, go, tmp_path, outcome):
    first = go(tiny("training.steps=4", "training.ema=0.5"), tmp_path / "first")
    moved = shutil.copytree(first, tmp_path / "origin")
    words = [f"origin.checkpoint={moved}", "training.optimizer.learning_rate=0.0", "training.ema=0.9"]
    words += ["training.optimizer.warmup_steps=0", "training.optimizer.weight_decay=0.0", "training.seed=3"]
    last = go(tiny(*words, "training.steps=2"), tmp_path / "second")
    weights, taken = (load_file(folder / "model.safetensors") for folder in (last, moved))
    assert all(torch.equal(weights[name], taken[name]) for name in taken)  # nothing was learned since, at a rate of 0
    assert config.parse(tmp_path / "second" / "config.toml")["origin"] == {
        "checkpoint": str(moved),
        "hash": hashlib.sha256((moved / "model.safetensors").read_bytes()).hexdigest(),
    }
    shutil.rmtree(moved)
    before = outcome(tmp_path / "second")
    assert go(tiny(*words, "training.steps=2"), tmp_path / "second") == last
    assert outcome(tmp_path / "second") == before


def test_weights_of_another_shape_or_another_codec_are_refused_before_there_is_a_folder(tiny, go, tmp_path):
    last = go(tiny("training.steps=1"), tmp_path / "first")
    with pytest.raises(ValueError, match=r"weights of another model: .* the config makes it"):
        go(tiny(f"origin.checkpoint={last}", "predictor.stack.dynamics.num_states=4"), tmp_path / "second")
    with pytest.raises(ValueError, match=r"origin.hash = 'ab': .* now has"):
        go(tiny(f"origin.checkpoint={last}", "origin.hash=ab"), tmp_path / "second")
    text = (last / "config.toml").read_text()
    (last / "config.toml").write_text(text + f'\n[predictor.tokenizer]\nhash = "{"c" * 64}"\n')
    with pytest.raises(ValueError, match="stands on the codec cccccccccccc, and this run on none"):
        go(tiny(f"origin.checkpoint={last}"), tmp_path / "second")
    assert not (tmp_path / "second").exists()
    with pytest.raises(config.ConfigError, match=rf"training\.steps: 1 -> 2.*--from {tmp_path / 'first'} starts a new"):
        go(tiny("training.steps=2"), tmp_path / "first")
