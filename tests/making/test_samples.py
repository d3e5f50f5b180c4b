"""The clips in datasets/samples/, which are read without an engine; and the engine, where there is one, makes them."""

import shutil
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from videopred import config
from videopred.data import ClipsConfig, Recipe
from videopred.data.split import SPLITS
from videopred.making import MakerConfig, make, plan_for
from videopred.recorders import DoomMazeConfig

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "datasets/samples/doom-maze"
MAKERS = sorted((ROOT / "datasets/makers").glob("*.toml"))
ENGINES = {"vizdoom": "1.3.2", "labmaze": "1.0.6"}
COMMAND = ("doom-maze", ["recorder.frames=24", "recorder.seed=2"], 1)  # in datasets/README.md


def test_there_are_few_and_they_are_small():
    paths = sorted(SAMPLES.glob("*/*/*.npz"))
    assert [str(path.relative_to(SAMPLES)) for path in paths] == ["test/0/000000.npz", "train/0/000000.npz"]
    assert all(path.stat().st_size < 300_000 for path in paths)


@pytest.mark.parametrize("split", SPLITS)
def test_the_action_stored_with_a_frame_leads_to_it(split, tmp_path):
    """Turning left by `turn` degrees, or walking on by at most `stride`, between the pose before and that one.

    The engine gives places in whole map units.
    """
    settings = DoomMazeConfig()
    root = shutil.copytree(SAMPLES, tmp_path / "copy")  # its index is to be kept there
    recipe = ClipsConfig(root=str(root), image_size=64, actions=settings.action_names)
    [clip] = recipe.build(split, 24)
    assert clip.frames.shape == (24, 64, 64, 3) and 40 < clip.frames.float().mean() < 215
    x, y, angle = clip.pose.double().numpy().T
    turned = (np.diff(angle) + 180) % 360 - 180
    walked = np.hypot(np.diff(x), np.diff(y))
    heading = np.degrees(np.arctan2(np.diff(y), np.diff(x)))
    for t, action in enumerate(clip.actions[1:].tolist()):
        name = settings.action_names[action]
        assert abs(turned[t] - {"forward": 0, "left": settings.turn, "right": -settings.turn}[name]) < 0.1
        assert walked[t] < (settings.stride + 1 if name == "forward" else 0.1)
        if walked[t] > settings.stride - 1:  # not along a wall
            assert abs((heading[t] - angle[t] + 180) % 360 - 180) < 6
    assert set(clip.actions.tolist()) == {0, 1, 2}
    changes = np.abs(np.diff(clip.frames.float().numpy(), axis=0)).mean((1, 2, 3))
    assert (changes > 0.5).mean() > 0.8


@pytest.mark.parametrize("path", MAKERS, ids=lambda path: path.stem)
def test_a_maker_makes_what_its_recipe_reads(path):
    maker = config.load(MakerConfig, "recipes", str(path))
    recipe = config.load(Recipe, "recipes", path.stem)
    assert recipe.format == maker.recorder.format
    assert recipe.action_names == maker.recorder.action_names


def test_the_engine_makes_the_same_samples(tmp_path, files):
    for engine, version in ENGINES.items():
        pytest.importorskip(engine, reason="the engine is not installed: pip install 'videopred[doom-maze]'")
        if metadata.version(engine) != version:
            pytest.skip(f"the samples were made with {engine} {version}; here is {metadata.version(engine)}")
    make(plan_for(*COMMAND, folder=tmp_path), 1)
    made = files(tmp_path)
    assert made == {name: (SAMPLES / name).read_bytes() for name in made} and len(made) == 2
