"""Two processes are one: what they learn and what they leave; and when one of them fails, all end and say why."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from videopred import config
from videopred.checkpoint import read_tensors
from videopred.clip import Clip
from videopred.training import distributed, loop

CLOSE = 1e-5  # relative to the largest value of a tensor, after 8 updates in float32: sums are added in another order


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder where `ranks.py` trained, and the exit statuses of all its processes."""
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("ranks.py")
    done = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def said(ran, name: str) -> str:
    return (ran[0] / f"{name}.log").read_text()


def saved(folder: Path, step: int) -> dict[str, torch.Tensor]:
    """Everything a step folder holds: weights, average, moments."""
    step_folder = folder / f"step_{step:08d}"
    parts = [read_tensors(step_folder / f"{name}.safetensors") for name in ("model", "training")]
    return {f"{i}.{name}": tensor for i, part in enumerate(parts) for name, tensor in part.items()}


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_same_training(got: Path, want: Path, step: int) -> None:
    mine, its = saved(got, step), saved(want, step)
    assert mine.keys() == its.keys()
    for name, tensor in its.items():
        error = (mine[name] - tensor).abs().max().item()
        assert error <= CLOSE * max(tensor.abs().max().item(), 1e-3), name
    numbers = ("step", "loss", "l1", "l2", "gradient", "learning_rate", "score")
    for mine, its in zip(log(got), log(want), strict=True):
        assert {key: mine[key] for key in numbers if key in mine} == pytest.approx(
            {key: its[key] for key in numbers if key in its}, rel=CLOSE
        )


def test_two_processes_are_one(ran):
    """Loss, metrics, gradient norm, validation, weights, moments and average, with scheduled sampling."""
    folder, codes = ran
    assert codes["one"] == [[0]] and codes["two"] == [[0, 0]]
    assert_same_training(folder / "two", folder / "one", 8)
    assert len(log(folder / "two")) == 8 + 2


def test_closed_loop_feeding_is_averaged_too(ran):
    """It calls a predictor's other methods, not its `forward`, which alone DDP would see."""
    folder, codes = ran
    assert codes["closed loop, two"] == [[0, 0]]
    assert_same_training(folder / "closed loop, two", folder / "closed loop, one", 6)


def test_the_processes_share_the_clips_without_doubles(ran):
    folder, _ = ran
    one, *two = ([json.loads(line) for line in (folder / f"{name}.ids").read_text().splitlines()]
                 for name in ("one.0", "two.0", "two.1"))  # fmt: skip
    assert [a + b for a, b in zip(*two, strict=True)] == one
    assert len({clip for batch in one for clip in batch}) == 8 * 2 * 4


@pytest.mark.parametrize("name", ["two, then one", "one, then two"])
def test_a_run_goes_on_in_another_number_of_processes(name, ran):
    folder, codes = ran
    assert [set(each) for each in codes[name]] == [{130}, {0}]
    assert "stopped after step 5" in said(ran, name)
    assert_same_training(folder / name, folder / "one", 8)


def test_a_signal_to_one_process_stops_all_and_saves_once(ran):
    folder, codes = ran
    assert codes["two, then one"][0] == [130, 130]
    assert said(ran, "two, then one").count("videopred: stopped after step 5") == 1
    assert said(ran, "two, then one").count("going on from") == 1
    assert not list((folder / "two, then one").glob(".step_*"))


def test_one_that_fails_ends_all_and_its_message_is_seen(ran):
    _, codes = ran
    (codes,) = codes["raises"]
    assert codes[0] == 3 and codes[1] in (1, 2)
    text = said(ran, "raises")
    assert "rank 1 says: rank one has had enough" in text
    assert "rank 0 says: another process of this training has ended (its own message says why)" in text
    assert "after step 5; the last good checkpoint is" in text and "step_00000004" in text


def test_one_that_is_killed_ends_all(ran):
    _, codes = ran
    assert codes["killed"] == [[3, -9]]
    assert "rank 0 says: another process of this training has ended" in said(ran, "killed")


def test_a_batch_that_cannot_be_shared_is_refused(ran):
    folder, codes = ran
    assert codes["odd"] == [[2, 2]] and not (folder / "odd").exists()
    assert "batch_size = 3 is shared by 2 processes: it must be a multiple of their number" in said(ran, "odd")


def test_all_see_that_training_diverged(ran):
    folder, codes = ran
    assert codes["diverges"] == [[3, 3]]
    assert "rank 1 says: training diverged at step 2" in said(ran, "diverges")
    assert [step.name for step in (folder / "diverges").glob("*step_*")] == ["diverged_step_00000001"]


def test_random_numbers_of_clips_are_dealt_as_the_clips_are(monkeypatch):
    clip = Clip(frames=torch.zeros(6, 5, 1, 1, 1), actions=torch.ones(6, 5, dtype=torch.int64))
    whole = loop.drop_actions(clip, 0.5, torch.Generator().manual_seed(1)).actions
    monkeypatch.setattr(distributed, "world", lambda: 2)
    parts = []
    for rank in range(2):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        half = Clip(frames=clip.frames[:3], actions=clip.actions[:3])
        parts.append(loop.drop_actions(half, 0.5, torch.Generator().manual_seed(1)).actions)
    assert torch.equal(torch.cat(parts), whole) and 0 < whole.eq(-1).sum() < whole.numel()
    with pytest.raises(config.ConfigError, match="batch_size = 5 is shared by 2 processes"):
        distributed.share_of(5)


def test_alone_there_is_nothing_to_join(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with distributed.joined(torch.device("cpu")) as device:
        assert (device.type, distributed.rank(), distributed.world()) == ("cpu", 0, 1)
        assert not torch.distributed.is_initialized()
