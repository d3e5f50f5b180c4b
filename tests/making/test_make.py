"""Making clips: the same files whatever the workers and however often it is interrupted, and a word for every fault."""

import json
import os
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from videopred import cli
from videopred.config import ConfigError
from videopred.crew import WorkerDied, work
from videopred.making import Stopped, files, make, plan_for

COMMAND = ("data", "make", "maze.toml")


def wait_for(what, seconds=20):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def clips(folder):
    return len(list(Path(folder).rglob("*.npz")))


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_clip_is_written_in_the_layout_of_dmlab(recorder):
    made = make(plan_for("maze.toml", clips=12), 1)
    assert (made.clips, made.there, made.frames) == (13, 0, 39)
    assert made.size == sum(path.stat().st_size for path in Path("clips").rglob("*.npz"))
    [clip] = plan_for("maze.toml").source.record("train", [9])
    with np.load("clips/train/0/000009.npz", allow_pickle=False) as file:
        assert file.files == ["video", "actions", "pose"]
        assert file["actions"].dtype == np.int32 and file["pose"].dtype == np.float32
        for name, expected in ("video", clip.frames), ("actions", clip.actions), ("pose", clip.pose):
            assert np.array_equal(file[name], expected.numpy()), name
    content = Path("clips/train/0/000009.npz").read_bytes()
    assert clip.frames.numpy().tobytes() in content, "not compressed"
    manifest = json.loads(Path("clips/maker.json").read_text())
    assert manifest["clips"] == {"train": 12, "test": 1}
    assert manifest["config"] == {"kind": "fake_recorder:Config", "frames": 3, "growth": 0, "seed": 0}


def test_a_shard_holds_a_thousand_clips():
    assert files.clip_path(Path("r"), "test", 12345) == Path("r/test/12/012345.npz")


def test_any_number_of_workers_makes_the_same_files(recorder, files):
    for workers in (1, 2, 5):
        make(plan_for("maze.toml", folder=Path(f"by{workers}")), workers)
    assert len(files(Path("by1"))) == 22
    assert files(Path("by1")) == files(Path("by2")) == files(Path("by5"))
    processes = {line.split()[0] for line in Path("log").read_text().splitlines()}
    assert len(processes) == 1 + 2 + 4  # 22 clips are 4 parts


def test_what_is_there_is_not_made_again_and_more_can_be_asked_for(recorder, files):
    make(plan_for("maze.toml", clips=5), 1)
    times = {path: path.stat().st_mtime_ns for path in Path("clips").rglob("*.npz")}
    Path("clips/train/0/000003.npz").unlink()
    made = make(plan_for("maze.toml", clips=20), 2)
    assert (made.clips, made.there) == (17, 5)
    same = [path for path, when in times.items() if path.stat().st_mtime_ns == when]
    assert len(same) == len(times) - 1
    make(plan_for("maze.toml", clips=20, folder=Path("straight")), 1)
    assert files(Path("clips")) == files(Path("straight"))
    assert make(plan_for("maze.toml", clips=4), 1).clips == 0 and clips("clips") == 22
    assert json.loads(Path("clips/maker.json").read_text())["clips"] == {"train": 20, "test": 2}


def test_a_killed_make_is_completed_by_the_next(recorder, files, start, monkeypatch):
    make(plan_for("maze.toml", folder=Path("straight")), 1)
    monkeypatch.setenv("FAKE_SECONDS", "0.03")
    Path("log").unlink()
    for wanted in (3, 9):
        process = start(*COMMAND, "--workers", 2)
        wait_for(lambda wanted=wanted: clips("clips") >= wanted)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        workers = {line.split()[0] for line in Path("log").read_text().splitlines()}
        wait_for(lambda workers=workers: not any(map(alive, workers)))  # they notice that nobody asks any more
    assert clips("clips") < 22
    monkeypatch.setenv("FAKE_SECONDS", "0")
    Path("clips/train/0/.000003.npz.1.tmp").write_bytes(b"half")
    make(plan_for("maze.toml"), 2)
    assert files(Path("clips")) == files(Path("straight"))
    assert not [path for path in Path("clips").rglob(".*") if path.name != ".lock"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_says_what_is_kept_and_leaves_nothing_half_done(
    number, recorder, files, start, monkeypatch, capfd
):
    monkeypatch.setenv("FAKE_SECONDS", "0.05")
    process = start(*COMMAND, "--workers", 2)
    wait_for(lambda: clips("clips") >= 3)
    os.kill(process, number)
    os.kill(process, number)  # as `timeout` does
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
    kept = clips("clips")
    assert 3 <= kept < 22
    assert not any(alive(line.split()[0]) for line in Path("log").read_text().splitlines())
    out, err = capfd.readouterr()
    assert out == ""
    assert "of 22 clips are in clips; the same command goes on from there\nvideopred: interrupted\n" in err
    assert "Traceback" not in err
    assert sum(json.loads(Path("clips/maker.json").read_text())["clips"].values()) == kept
    monkeypatch.setenv("FAKE_SECONDS", "0")
    assert make(plan_for("maze.toml"), 2).there == kept


def test_a_worker_that_dies_stops_all(recorder, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "killed")
    with pytest.raises(
        Stopped, match=r"a worker ended: killed by SIGKILL \(out of memory\?\); \d+ of 22 clips"
    ) as error:
        make(plan_for("maze.toml"), 2)
    assert cli.status(error.value) == 3
    processes = {line.split()[0] for line in Path("log").read_text().splitlines()}
    assert len(processes) == 2 and not any(map(alive, processes))
    assert not Path("clips/train/0/000011.npz").exists() and not list(Path("clips").rglob("*.tmp"))
    monkeypatch.delenv("FAKE_FAULT")
    assert make(plan_for("maze.toml"), 2).there >= 3


def test_a_fault_in_a_recorder_comes_with_its_trace(recorder, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "bug")
    with pytest.raises(RuntimeError, match=r'(?s)in a worker:.*fake_recorder.py", line.*The size of tensor a') as error:
        make(plan_for("maze.toml"), 2)
    assert cli.status(error.value) == 1


def test_a_full_disk_keeps_what_was_made(recorder, files):
    overrides = ["recorder.growth=100"]
    make(plan_for("maze.toml", overrides, folder=Path("straight")), 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 100 * 4 * 6 * 3, limits[1]))  # room for the first of train
    try:
        with pytest.raises(Stopped, match=r"\d.npz: File too large; \d of 22 clips are in clips; the same") as error:
            make(plan_for("maze.toml", overrides), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert cli.status(error.value) == 3
    kept = clips("clips")
    assert 3 < kept < 10 and f" {kept} of 22" in str(error.value) and not list(Path("clips").rglob("*.tmp"))
    assert make(plan_for("maze.toml", overrides), 1).there == kept
    assert files(Path("clips")) == files(Path("straight"))


def test_another_config_is_refused_with_the_keys(recorder):
    make(plan_for("maze.toml", clips=1), 1)
    with pytest.raises(
        ConfigError, match=r"clips holds clips made in another way: frames: 3 -> 9; seed: 0 -> 1\. Give"
    ):
        make(plan_for("maze.toml", ["recorder.frames=9", "recorder.seed=1"], clips=1), 1)
    assert clips("clips") == 2
    manifest = json.loads(Path("clips/maker.json").read_text())
    del manifest["config"]["growth"]  # written before there was this key: it counts as its default
    Path("clips/maker.json").write_text(json.dumps(manifest))
    assert make(plan_for("maze.toml", clips=2), 1).there == 2


def test_folders_of_others_are_left_alone(recorder):
    Path("clips/train").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"clips/train: exists, and no maker.json says what made it"):
        make(plan_for("maze.toml"), 1)
    Path("file").write_text("")
    with pytest.raises(ConfigError, match=r"file: is a file; give a folder"):
        make(plan_for("maze.toml", folder=Path("file")), 1)
    Path("damaged").mkdir()
    Path("damaged/maker.json").write_text("{")
    with pytest.raises(ConfigError, match=r"damaged/maker.json: damaged; remove damaged, or give another --out"):
        make(plan_for("maze.toml", folder=Path("damaged")), 1)


def test_two_at_once_are_refused(recorder, start, monkeypatch):
    monkeypatch.setenv("FAKE_SECONDS", "0.05")
    process = start(*COMMAND, "--workers", 1)
    wait_for(lambda: clips("clips") >= 1)
    with pytest.raises(ConfigError, match="another process makes clips in this folder"):
        make(plan_for("maze.toml"), 1)
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)


def test_workers_give_what_comes_and_pass_on_mistakes():
    assert sorted(work(range, [2, 3, 1], 2)) == [0, 0, 0, 1, 1, 2]
    assert list(work(range, [], 3)) == []
    with pytest.raises(WorkerDied, match="exit status 5"):
        list(work(os._exit, [5], 1))
    with pytest.raises(FileNotFoundError) as error:
        list(work(os.listdir, ["missing"], 1))
    assert error.value.filename == "missing"
