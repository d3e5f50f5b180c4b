"""When the machine or the training gives out, what was saved stays, and one line says where it is."""

import errno
import fcntl
import os
import resource
import shutil
import subprocess

import pytest
import torch

from videopred.cli import status
from videopred.data.hold import hold
from videopred.training import checkpoint, loop
from videopred.training.feeding import TeacherForcingConfig
from videopred.training.log import Log
from videopred.training.optimizer import OptimizerConfig


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def nth(function, n, instead):
    """`function`, but its n-th call (from 0) does `instead`."""
    calls = iter(range(10**9))
    return lambda *args, **kwargs: (instead if next(calls) == n else function)(*args, **kwargs)


@pytest.fixture(scope="module")
def straight(tiny, go, tmp_path_factory):
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("straight")
    go(tiny(), folder)
    return folder


def visible(path):
    return {entry.name for entry in path.iterdir() if entry.name != ".lock"}


# What fails, at the second save of a run: one of its files, forcing the folder or a file to disk, or the log before it.
SPOTS = {
    **{f"file {n}": (checkpoint, "write_file", 5 + n) for n in range(4)},
    "folder": (checkpoint, "sync", 3),
    "fsync": (os, "fsync", 12),
    "log": (Log, "_write", 3),
}


@pytest.mark.parametrize("spot", SPOTS)
def test_a_full_disk_leaves_what_was_saved(spot, tiny, go, straight, tmp_path, outcome, monkeypatch):
    run = tmp_path / "run"
    owner, name, n = SPOTS[spot]
    monkeypatch.setattr(owner, name, nth(getattr(owner, name), n, full))
    with pytest.raises(loop.Halted) as error:
        go(tiny(), run)
    monkeypatch.undo()
    assert status(error.value) == 3
    says = f"device: training stopped after step 4; the last good checkpoint is {run}/step_00000002. Once"
    assert says in str(error.value)
    assert visible(run) == {"config.toml", "metrics.jsonl", "step_00000002"}
    go(tiny(), run)
    assert outcome(run) == outcome(straight)


def test_before_the_first_save_nothing_is_said_to_be_saved(tiny, go, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "write_file", nth(checkpoint.write_file, 1, full))
    with pytest.raises(loop.Halted, match=r"after step 2; nothing had been saved yet"):
        go(tiny(), tmp_path)


def test_a_write_that_really_fails(tiny, go, straight, tmp_path, outcome):
    size = (straight / "step_00000008/training.safetensors").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1000, limits[1]))
    try:
        with pytest.raises(loop.Halted, match=r"training.safetensors: File too large: training stopped after step 2"):
            go(tiny(), tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert visible(tmp_path / "run") == {"config.toml", "metrics.jsonl"}
    go(tiny(), tmp_path / "run")
    assert outcome(tmp_path / "run") == outcome(straight)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 160 KiB, where this machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not shutil.which("mount"):
        pytest.skip("no mount")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)], capture_output=True)
    if done.returncode:
        pytest.skip("cannot mount a small disk here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_really_full(tiny, go, small_disk):
    run = small_disk / "run"
    with pytest.raises(loop.Halted, match=r"No space left on device.*the last good checkpoint is .*step_0000000"):
        go(tiny("training.keep=99", "training.save_every=1"), run)
    steps = checkpoint.steps(run)
    assert steps and not list(run.glob(".step*"))
    module = tiny().predictor.build(tiny().recipe.format)
    found = checkpoint.restore(run, module, tiny().training.optimizer.build(module), None)
    assert found is not None and (found.folder, found.damage) == (steps[-1], ())


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"),
                                   RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes")],
                         ids=["python", "cuda", "cpu"])  # fmt: skip
def test_out_of_memory(error, tiny, go, tmp_path, monkeypatch):
    def fail(*args):
        raise error

    monkeypatch.setattr(TeacherForcingConfig, "loss", nth(TeacherForcingConfig.loss, 5, fail))
    with pytest.raises(
        loop.Halted, match=r"memory.*stopped after step 5; the last good checkpoint is .*step_00000004"
    ) as halt:
        go(tiny(), tmp_path)
    assert status(halt.value) == 3


def test_a_fault_of_ours_stays_what_it_is(tiny, go, tmp_path, monkeypatch):
    def fail(*args):
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(TeacherForcingConfig, "loss", fail)
    with pytest.raises(RuntimeError, match="shapes do not fit") as error:
        go(tiny(), tmp_path)
    assert status(error.value) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_and_changes_nothing(value, tiny, go, straight, tmp_path, outcome, monkeypatch):
    run, honest = tmp_path / "run", TeacherForcingConfig.loss

    def broken(*args):
        loss, metrics = honest(*args)
        return loss * value, metrics

    monkeypatch.setattr(TeacherForcingConfig, "loss", nth(honest, 5, broken))
    with pytest.raises(loop.Diverged) as error:
        go(tiny(), run)
    assert status(error.value) == 3
    assert f"diverged at step 6: loss {value}" in str(error.value)
    assert f"the last good checkpoint is {run}/step_00000004. Try" in str(error.value)
    assert "learning_rate" in str(error.value) and "clip_gradient" in str(error.value)
    monkeypatch.undo()
    go(tiny(), run)
    assert outcome(run) == outcome(straight)


def test_weights_that_are_no_numbers_are_never_saved(tiny, go, tmp_path):
    run = tiny("training.optimizer.learning_rate=1e30", "training.optimizer.warmup_steps=0", "training.save_every=1")
    with pytest.raises(loop.Diverged, match=r"step 2: .*; nothing had been saved yet \(.*/diverged_step_00000001 was"):
        go(run, tmp_path)
    assert visible(tmp_path) == {"config.toml", "metrics.jsonl", "diverged_step_00000001"}
    for step in checkpoint.steps(tmp_path):
        assert all(
            tensor.isfinite().all() for tensor in checkpoint.read_tensors(step / "training.safetensors").values()
        )


def test_the_last_good_checkpoint_is_not_pruned_before_its_successor_is_known_good(tiny, go, tmp_path, monkeypatch):
    run, honest = tiny("training.save_every=1", "training.keep=1"), TeacherForcingConfig.loss

    def broken(*args):
        loss, metrics = honest(*args)
        return loss * float("nan"), metrics

    monkeypatch.setattr(TeacherForcingConfig, "loss", nth(honest, 5, broken))
    with pytest.raises(
        loop.Diverged, match=r"the last good .*/step_00000004 \(.*/diverged_step_00000005 was set aside"
    ):
        go(run, tmp_path)
    assert [step.name for step in checkpoint.steps(tmp_path)] == ["step_00000004"]
    monkeypatch.setattr(TeacherForcingConfig, "loss", broken)
    with pytest.raises(loop.Diverged, match=r"step_00000004 \(and cannot be gone on from\)"):
        go(run, tmp_path)  # no second one is lost: perhaps what is wrong is new
    assert [step.name for step in checkpoint.steps(tmp_path)] == ["step_00000004"]


def test_a_gradient_that_is_no_number_changes_no_weight(tiny, monkeypatch):
    run = tiny()
    module = run.predictor.build(run.recipe.format)
    optimizer = run.training.optimizer.build(module)
    clips = loop._clips(run.recipe.build("train", 6), run.training, 0, torch.device("cpu"))
    honest = TeacherForcingConfig.loss

    def steep(*args):
        loss, metrics = honest(*args)
        return loss + torch.sqrt(loss - loss.detach()), metrics  # finite, but its slope is not

    monkeypatch.setattr(TeacherForcingConfig, "loss", steep)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    numbers = loop.update(loop.Learner(module, run.training), optimizer, clips, run.training, 3)
    assert abs(numbers["loss"]) < 10 and not abs(numbers["gradient"]) < 10
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_a_file_in_the_place_of_the_folder(tiny, go, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match="is a file; give a folder"):
        go(tiny(), tmp_path / "run")
    with pytest.raises(OSError) as error:
        go(tiny(), tmp_path / "run" / "below")
    assert status(error.value) == 2
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tiny, go, tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError) as error:
        go(tiny(), tmp_path / "run")
    assert status(error.value) == 2


def test_a_disk_without_locks_does_not_stop_training(tmp_path, monkeypatch):
    def unknown(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", unknown)
    with hold(tmp_path / "run", "is training"):
        assert (tmp_path / "run").is_dir()


def test_a_whole_file_stays_when_writing_its_successor_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    checkpoint.replace_file(path, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        checkpoint.replace_file(path, b"new")
    assert error.value.filename is not None
    assert (path.read_bytes(), visible(tmp_path)) == (b"old", {"a.txt"})


@pytest.mark.parametrize("setting", ["steps=0", "batch_size=0", "clip_frames=1", "seed=-1", "workers=-1", "threads=-1",
                                     "clip_gradient=-0.5", "clip_gradient=nan", "keep_every=-1", "validate_every=-1",
                                     f"seed={2**63}", "threads=5000", "workers=513", "batch_size=100000000",
                                     "clip_frames=100000000",
                                     "ema=1.0", "action_dropout=1.5", "optimizer.learning_rate=-1.0",
                                     "optimizer.learning_rate=inf", "optimizer.betas=[0.9, 1.0]",
                                     "optimizer.warmup_steps=-1", "optimizer.weight_decay=-0.1"])  # fmt: skip
def test_a_setting_out_of_range_is_named(setting, tiny):
    with pytest.raises(ValueError, match=setting.partition("=")[0].rpartition(".")[2]):
        tiny(f"training.{setting}")


def test_the_optimizer_is_checked_where_it_is_made():
    with pytest.raises(ValueError, match="learning_rate = nan"):
        OptimizerConfig(learning_rate=float("nan"))
