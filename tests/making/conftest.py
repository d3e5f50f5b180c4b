"""A recorder that needs no engine, and what tests do with it."""

import os
import sys
import traceback

import pytest

from videopred import cli

# What goes wrong at clip 11 of train is not in its config, so that the same call can then go right.
RECORDER = """
import os, signal, time
from dataclasses import dataclass
import torch
from videopred.clip import Clip

@dataclass(frozen=True)
class Config:
    kind: str = ""
    frames: int = 3
    growth: int = 0
    seed: int = 0
    engines = ("numpy",)

    def require(self):
        if self.seed == 13:
            raise ValueError("recorder fake needs luck; run pip install luck")

    def record(self, split, indices):
        for index in indices:
            with open(os.environ["FAKE_LOG"], "a") as file:
                file.write(f"{os.getpid()} {split} {index}\\n")
            time.sleep(float(os.environ.get("FAKE_SECONDS", 0)))
            fault = os.environ.get("FAKE_FAULT") if (split, index) == ("train", 11) else None
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "bug":
                torch.zeros(2) + torch.zeros(3)
            rng = torch.Generator().manual_seed(self.seed * 10**6 + index * 2 + (split == "test"))
            length = self.frames + self.growth * index
            frames = torch.randint(256, (length, 4, 6, 3), dtype=torch.uint8, generator=rng)
            actions = torch.randint(3, (length,), generator=rng)
            yield Clip(frames=frames, actions=actions, pose=torch.rand(length, 2, generator=rng), id=f"{split}/{index}")
"""


@pytest.fixture
def recorder(empty_folder, monkeypatch):
    """The module `fake_recorder`, and a recipe `maze.toml` with a maker beside it in the current folder."""
    (empty_folder / "fake_recorder.py").write_text(RECORDER)
    (empty_folder / "makers").mkdir()
    (empty_folder / "makers/maze.toml").write_text('clips = 20\n[recorder]\nkind = "fake_recorder:Config"\n')
    (empty_folder / "maze.toml").write_text('kind = "moving_mnist_files"\nroot = "clips"\n')
    monkeypatch.syspath_prepend(empty_folder)
    monkeypatch.setenv("FAKE_LOG", str(empty_folder / "log"))
    yield empty_folder
    sys.modules.pop("fake_recorder", None)


@pytest.fixture
def start():
    """Runs a command line in a process of its own, without waiting; gives its id."""

    def run(*words):
        process = os.fork()
        if process:
            return process
        code = 1
        try:
            code = cli.main([str(word) for word in words])
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    return run


@pytest.fixture
def files():
    """Names and bytes of all clips in a folder."""
    return lambda folder: {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*/*.npz"))}
