"""An evaluation that is interrupted goes on, N processes give the numbers of one, and nothing else is taken for it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from videopred import cli
from videopred.evaluation import evaluate, evaluate_files
from videopred.evaluation.parts import Kept, Part, Tally
from videopred.metrics import FrechetEfficientNetConfig, FVDConfig, Numbers, PSNRConfig
from videopred.metrics.features import Network

PROTOCOL = """
num_clips = 9
context = 4
horizon = 6
metrics = [{ kind = "psnr" }, { kind = "ssim" }, { kind = "ink" }]
[recipe]
kind = "moving_mnist"
image_size = 32
digit_size = 14
train_clips = 8
"""
COMMAND = ["eval", "moving-mnist-small", "mine.toml", "--batch-size", "2", "--device", "cpu", "--format", "csv"]
TIMES = ("step_ms", "frames_per_second")


def numbers(data):
    """Of a result, all but times and how many processes there were."""
    rows = [{key: value for key, value in row.items() if key not in TIMES} for row in data["rows"]]
    environment = {key: value for key, value in data["environment"].items() if key != "processes"}
    return data | {"rows": rows, "seconds": None, "environment": environment}


class Stop(Exception):
    pass


def stopping(model, after):
    """Raises Stop after so many steps."""
    exact, steps = model.predict, iter(range(after))

    def predict(*args):
        if next(steps, None) is None:
            raise Stop
        return exact(*args)

    model.predict = predict
    return model


@pytest.fixture
def means(monkeypatch):
    """A network that tells what Frechet metrics it is asked for."""
    network = Network(lambda frames: frames[:, ::3, ::4, 0].double().mean(0).flatten(), {"name": "stand-in"})
    monkeypatch.setattr(FVDConfig, "network", lambda self: network)
    monkeypatch.setattr(FrechetEfficientNetConfig, "network", lambda self: network)


@pytest.mark.parametrize("after", [0, 3, 10, 20, 41])
def test_going_on_gives_the_same_result(protocol, predictor, tmp_path, means, after):
    """Features of Frechet distances and samples included; what was finished is not computed again."""
    p = protocol(samples=2, metrics=(PSNRConfig(), FVDConfig(), FrechetEfficientNetConfig(frames=2)), group_size=2)
    whole = evaluate(predictor(p, noise=0.1), p, batch_size=1)
    keep = tmp_path / "kept"
    with pytest.raises(Stop):
        evaluate(stopping(predictor(p, noise=0.1), after), p, batch_size=1, keep=keep)
    finished = len(list(keep.glob("part_*")))
    assert finished == (after - 2) // 8 if after else finished == 0  # 2 samples of 4 frames, and two for the FLOPs
    again = predictor(p, noise=0.1)
    result = evaluate(again, p, batch_size=1, keep=keep)
    assert len(again.observed) == 2 * (5 - finished)
    assert json.dumps(numbers(result.data)) == json.dumps(numbers(whole.data))
    for key in whole.arrays:
        np.testing.assert_array_equal(result.arrays[key], whole.arrays[key])
    Kept(keep).drop()
    assert not keep.exists()


def test_what_is_of_another_evaluation_is_not_used(protocol, predictor, tmp_path, capsys, monkeypatch):
    p, keep = protocol(metrics=(PSNRConfig(),)), tmp_path / "kept"

    def observed(model, protocol=p, **options):
        evaluate(model, protocol, batch_size=2, keep=keep, **options)
        return len(model.observed), capsys.readouterr().err

    assert observed(predictor(p)) == (3, "")
    assert observed(predictor(p)) == (0, "")
    (keep / "part_000001.npz").write_bytes(b"half")
    assert observed(predictor(p)) == (1, "")
    count, said = observed(predictor(p), protocol(metrics=(PSNRConfig(),), seed=1))
    assert count == 3 and "is of another evaluation (protocol: " in said and "starting over" in said
    bright = predictor(p)  # it has seen nothing yet
    bright.mix.weight.data.mul_(0.5)
    count, said = observed(bright, protocol(metrics=(PSNRConfig(),), seed=1))
    assert count == 3 and "weights: " in said
    bright.observed.clear()
    read = type(p.dataset()).__getitem__
    monkeypatch.setattr(type(p.dataset()), "__getitem__", lambda self, i: read(self, 8 - i))
    count, said = observed(bright, protocol(metrics=(PSNRConfig(),), seed=1))
    assert count == 3 and "the clips have changed" in said


def test_clips_that_are_saved_go_on_too(protocol, predictor, tmp_path):
    p, keep, folder = protocol(metrics=(PSNRConfig(),)), tmp_path / "kept", tmp_path / "clips"
    with pytest.raises(Stop):
        evaluate(stopping(predictor(p), 6), p, batch_size=2, keep=keep, save_clips=folder)
    with pytest.raises(ValueError, match="already holds"):
        evaluate(predictor(p), p, batch_size=2, save_clips=folder)
    evaluate(predictor(p), p, batch_size=2, keep=keep, save_clips=folder)
    assert len(list(folder.iterdir())) == 3
    assert sum(len(np.load(path)["fake"]) for path in folder.iterdir()) == 5


def test_files_go_on_too(protocol, tmp_path, capsys):
    p = protocol(metrics=(PSNRConfig(),), context=2, horizon=3)
    rng = np.random.default_rng(0)
    real, fake = (rng.integers(0, 256, (40, 5, 12, 12, 1), np.uint8) for _ in range(2))
    np.savez(tmp_path / "pair.npz", real=real, fake=fake)
    pair, keep = tmp_path / "pair.npz", tmp_path / "kept"
    whole = evaluate_files(pair, pair, p, keep=keep)
    (keep / "part_000001.npz").unlink()
    assert numbers(evaluate_files(pair, pair, p, keep=keep).data) == numbers(whole.data)
    fake[3] = real[3]
    np.savez(tmp_path / "pair.npz", real=real, fake=fake)
    changed = evaluate_files(pair, pair, p, keep=keep)
    assert changed.data["rows"][0]["metrics"]["psnr"]["per_clip"][3] == 100
    assert "the clips have changed" in capsys.readouterr().err


def test_a_part_comes_back_as_it_was(tmp_path):
    values = Numbers()
    values.rows = {("test/ü 1", 0): np.array([[1.0, np.nan]]), ("test/2", 0): np.array([[3.0, np.inf]])}
    values.frames = 2
    row = Tally(["test/ü 1"], {"test/2": 3}, 2, {"fvd": "why"}, {"psnr": values, "ssim": Numbers()}, 7, {16: [0.1]})
    part = Part({"a/b <c>": row}, ["12"], "34", {"data": 0.5}, {"test/2": np.array([True, False])})
    part.save(tmp_path / "part.npz")
    found = Part.load(tmp_path / "part.npz")
    mine, other = found.rows["a/b <c>"], row
    assert vars(mine) | {"numbers": 0} == vars(other) | {"numbers": 0}
    assert mine.numbers["psnr"].frames == 2 and mine.numbers["ssim"].rows == {}
    np.testing.assert_array_equal(mine.numbers["psnr"].rows["test/2", 0], [[3.0, np.inf]])
    assert (found.digests, found.read, found.seconds) == (["12"], "34", {"data": 0.5})
    np.testing.assert_array_equal(found.seen["test/2"], [True, False])


def test_a_metric_that_breaks_does_not_lose_the_others(protocol, predictor, monkeypatch):
    def broken(frames):
        raise RuntimeError("the device\nis gone")

    monkeypatch.setattr(FVDConfig, "network", lambda self: Network(broken, {"name": "broken"}))
    p = protocol(metrics=(FVDConfig(), PSNRConfig()))
    metrics = evaluate(predictor(p), p).data["rows"][0]["metrics"]
    assert metrics["fvd"] == {"mean": None, "stderr": None, "reason": "RuntimeError: the device is gone"}
    assert metrics["psnr"]["mean"] == 100


@pytest.fixture
def folder(empty_folder):
    (empty_folder / "mine.toml").write_text(PROTOCOL)
    return empty_folder


def test_a_killed_one_that_two_processes_end_gives_the_numbers_of_one(folder, capsys):
    process = subprocess.Popen([sys.executable, "-m", "videopred", *COMMAND, "--out", "killed.json"])
    assert cli.main([*COMMAND, "--out", "one.json"]) == 0
    until = time.monotonic() + 200
    while not (some := len(list(Path("killed.parts").glob("part_*")))) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(random.random() * 0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert some and (Path("killed.parts").is_dir() or Path("killed.json").is_file())
    assert cli.main([*COMMAND, "--out", "killed.json", "--workers", "2"]) == 0
    capsys.readouterr()
    one, two = (json.loads(Path(f"{name}.json").read_text()) for name in ("one", "killed"))
    assert two["environment"]["processes"] == 2 and numbers(one) == numbers(two)
    with np.load("one.npz") as a, np.load("killed.npz") as b:
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])
    assert sorted(path.name for path in folder.iterdir()) == [
        *("killed.json", "killed.npz", "mine.toml", "one.json", "one.npz")
    ]
    assert set(one["seconds"]) >= {"data", "context", "rollout", "trivial", "metrics"}
    assert all(seconds > 0 for seconds in one["seconds"]["metrics"].values())


def test_no_workers_are_a_mistake(folder, capsys):
    assert cli.main([*COMMAND, "--workers", "0"]) == 2
    assert "workers = 0: must be at least 1" in capsys.readouterr().err


def test_whatever_the_bytes_of_a_part_are_it_is_read_right_or_not_at_all(tmp_path):
    values = Numbers()
    values.rows, values.frames = {("a", 0): np.arange(3.0), ("b", 0): np.arange(3.0)}, 3
    kept, draw = Kept(tmp_path), random.Random(0)
    kept.save(0, Part({"m": Tally(["a", "b"], {}, 1, {}, {"psnr": values})}, ["12"], "34", {"data": 0.5}))
    path = tmp_path / "part_000000.npz"
    content, read = path.read_bytes(), 0
    fields = content.index(b"PK\x01\x02") + np.arange(12)  # versions, flags and compression of a member
    for place in [*fields.tolist(), *(draw.randrange(len(content)) for _ in range(300))]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        if part := kept.load(0):
            read += 1
            assert (part.read, part.digests, part.rows["m"].clip_ids) == ("34", ["12"], ["a", "b"])
            np.testing.assert_array_equal(part.rows["m"].numbers["psnr"].rows["b", 0], np.arange(3.0))
    assert read < 100
    path.write_bytes(content)
    assert kept.load(0)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000])
def test_a_key_that_is_no_key_is_of_another_evaluation(tmp_path, text):
    (tmp_path / "key.json").write_text(text)
    assert not Kept(tmp_path).of({"protocol": "a"})
    assert Kept(tmp_path).open({"protocol": "a"})
    assert Kept(tmp_path).of({"protocol": "a"})
