"""Protocols: the shipped files, the hash, and mistakes."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from videopred import config
from videopred.config import ConfigError
from videopred.data import ClipsConfig
from videopred.evaluation import Protocol
from videopred.evaluation.revisit import Revisit
from videopred.evaluation.trivial import TRIVIAL
from videopred.metrics.psnr import psnr

SMALL = """
recipe = "moving-mnist-small"
num_clips = 2
context = 3
horizon = 4
metrics = [{ kind = "psnr" }]
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str, name: str = "mine") -> Protocol:
        (tmp_path / f"{name}.toml").write_text(text)
        return Protocol.load(str(tmp_path / f"{name}.toml"))

    return write


def test_too_many_clips_are_refused_at_once():
    """A range of 10 ** 12 places is not walked through to find its largest."""
    with pytest.raises(ValueError, match=r"takes clip 999999999999 of recipe .*ask for fewer with --clips"):
        Protocol.load("moving-mnist-small").shortened(10**12, None).dataset()


@pytest.mark.parametrize("name", config.shipped("protocols"))
def test_shipped_protocols_load_and_have_their_clips(name):
    protocol = Protocol.load(name)
    if not isinstance(protocol.recipe, ClipsConfig):  # whoever has a folder may have fewer clips in it
        clip = protocol.dataset()[protocol.indices[-1]]
        assert clip.frames.shape[0] == protocol.context + protocol.horizon
    assert protocol.name == name and protocol.recipe.name
    assert config.from_dict(Protocol, config.to_dict(protocol)) == protocol


def test_the_papers_protocols():
    hashes = set()
    for horizon in (400, 800, 1200):
        protocol = Protocol.load(f"moving-mnist-100-{horizon}")
        assert (protocol.context, protocol.horizon, protocol.num_clips) == (100, horizon, 1024)
        assert (protocol.quantise, protocol.group_size) == ("truncate", 256)
        hashes.add(protocol.hash)
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("name", "num_clips", "masked"), [("dmlab", 512, True), ("minecraft", 1024, False), ("habitat", 1024, True)]
)
def test_the_papers_protocols_for_worlds_with_actions(name, num_clips, masked):
    seen, short = Protocol.load(name), Protocol.load(f"{name}-36")
    assert (seen.context, seen.horizon, short.context, short.horizon) == (144, 156, 36, 264)
    for protocol in (seen, short):
        assert (protocol.num_clips, protocol.group_size, protocol.quantise) == (num_clips, 256, "truncate")
        assert (protocol.samples, protocol.split, protocol.recipe.name) == (1, "test", name)
    assert seen.actions == "given" and (short.actions == "masked") == masked
    assert (5, 20) in seen.windows and ((5, 20) in short.windows) != masked


def test_the_doom_maze_protocol():
    protocol = Protocol.load("doom-maze-small")
    assert (protocol.num_clips, protocol.context, protocol.horizon) == (64, 36, 64)
    assert protocol.windows == [(1, 1), (1, 20), (5, 20), (1, 50), (1, 64)]
    assert protocol.revisit == Revisit(distance=64.0, angle=20.0, first=21)
    assert protocol.recipe.action_names == ("forward", "left", "right")


def test_the_hash_is_of_what_changes_numbers(written):
    first = written(SMALL)
    assert written(SMALL, name="other").hash == first.hash
    assert written(SMALL + 'split = "test"\nsamples = 1').hash == first.hash  # the defaults, spelled out
    for line in (
        "seed = 1",
        "samples = 2",
        'quantise = "truncate"',
        'split = "train"',
        "first_clip = 1",
        "clips = [1, 0]",
    ):
        assert written(SMALL + line).hash != first.hash
    assert written(SMALL.replace("moving-mnist-small", "moving-mnist")).hash != first.hash


def test_which_clips(written):
    assert list(written(SMALL).indices) == [0, 1]
    assert list(written(SMALL + "first_clip = 7").indices) == [7, 8]
    assert list(written(SMALL + "clips = [9, 4, 6]").indices) == [9, 4]


def test_windows(written):
    def windows(horizon):
        return written(SMALL.replace("horizon = 4", f"horizon = {horizon}")).windows

    assert windows(1) == [(1, 1)] and windows(20) == [(1, 1), (1, 20)]
    assert windows(200) == [(1, 1), (1, 20), (1, 50), (1, 100), (1, 200)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("horizon = -1", "horizon = -1: must be at least 1"),
        ("context = 0", "context = 0: must be at least 1"),
        ('split = "validation"', "split = 'validation': must be one of train, test"),
        ('quantise = "floor"', "must be one of round, truncate"),
        ('metrics = [{ kind = "psnrr" }]', "did you mean 'psnr'"),
        ('metrics = [{ kind = "psnr" }, { kind = "psnr" }]', "none twice"),
        ("metrics = []", "at least one metric"),
        ('recipe = "moving-mnist-smal"', "did you mean 'moving-mnist-small'"),
        ("clips = [1]", "`clips` lists only 1"),
        ("clips = [1, 1, 2]", "different indices"),
        ("horizn = 4", "did you mean 'horizon'"),
    ],
)
def test_mistakes_are_named(written, change, message):
    key = change.split(" = ")[0]
    lines = [line for line in SMALL.splitlines() if not line.startswith(key)]
    with pytest.raises(ConfigError, match=message):
        written("\n".join([*lines, change]))


def test_the_mean_image_is_the_bar_on_moving_mnist():
    """About 15.2 dB at the small size, at every horizon."""
    protocol = dataclasses.replace(Protocol.load("moving-mnist-small"), num_clips=400, context=5, horizon=20)
    predict = TRIVIAL["mean-image"](protocol)
    dataset = protocol.dataset()
    scores = torch.cat([psnr(predict(clip), clip[:, 5:]) for clip in (dataset[i].frames[None] for i in range(400))])
    assert scores.mean() == pytest.approx(15.2, abs=0.2)
    assert scores.mean(0).std() < 0.1


def test_the_protocol_that_the_page_shows_is_whole(tmp_path):
    page = (Path(__file__).parents[2] / "eval" / "README.md").read_text()
    shown = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 1
    (tmp_path / "mine.toml").write_text(shown[0])
    found = Protocol.load(str(tmp_path / "mine.toml"))
    assert (found.num_clips, found.context, found.horizon) == (32, 10, 40)
