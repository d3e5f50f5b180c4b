"""What is to be made, and what is refused before anything is."""

from pathlib import Path

import numpy as np
import pytest
import torch

from videopred import config
from videopred.config import ConfigError
from videopred.data import Recipe
from videopred.data.split import SPLITS
from videopred.making import Copy, make, plan_for


def test_counts_and_folder_are_the_files_unless_said_otherwise(recorder):
    plan = plan_for("maze.toml")
    assert (plan.counts, plan.folder) == ({"train": 20, "test": 2}, Path("clips"))
    plan = plan_for("maze.toml", ["test_share=0.5", "recorder.frames=7"], clips=3, folder=Path("else"))
    assert (plan.counts, plan.folder, plan.source.frames) == ({"train": 3, "test": 2}, Path("else"), 7)
    assert plan_for("maze.toml", ["test_share=0"]).counts["test"] == 0


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        (["recorder.seed=13"], {}, "run pip install luck"),
        (["recorder.frame=7"], {}, "recorder.frame: no such key, did you mean 'frames'"),
        (["clips=0"], {}, "clips = 0: must be at least 1"),
        (["test_share=2"], {}, "test_share = 2.0: must be in 0..1"),
        ([], {"frames": 3}, "--frames 3: is for copies"),
    ],
)
def test_a_recorder_that_cannot_is_refused(overrides, options, message, recorder):
    with pytest.raises(ValueError, match=message):
        plan_for("maze.toml", overrides, **options)


def test_a_recipe_without_a_root_needs_a_folder(recorder):
    Path("maze.toml").write_text('kind = "moving_mnist"')
    with pytest.raises(ValueError, match=r"maze.toml: has no `root` to put clips in; give --out DIR"):
        plan_for("maze.toml")


def test_clips_of_a_generator_are_copied(empty_folder):
    with pytest.raises(ValueError, match=r"no recorder makes these clips, but they can be copied.*--out"):
        plan_for("moving-mnist-small")
    with pytest.raises(ValueError, match="any length; say which with --frames"):
        plan_for("moving-mnist-small", folder=Path("copy"))
    with pytest.raises(ValueError, match="any number of clips; say how many with --clips"):
        plan_for("moving-mnist-small", frames=5, folder=Path("copy"))
    made = make(plan_for("moving-mnist-small", clips=9, frames=5, folder=Path("copy")), 2)
    assert (made.clips, made.frames) == (18, 90)
    recipe = config.load(Recipe, "recipes", "moving-mnist-small")
    for split in SPLITS:
        for i, clip in zip(range(9), recipe.build(split, 5)):
            with np.load(f"copy/{split}/0/{i:06}.npz") as file:
                assert file.files == ["video"] and np.array_equal(file["video"], clip.frames)
    with pytest.raises(
        ConfigError, match=r"copy holds clips made in another way: frames: 5 -> 6; recipe.step: 0.15 -> 0.5"
    ):
        make(plan_for("moving-mnist-small", ["step=0.5"], 9, 6, Path("copy")), 1)


def test_clips_of_a_folder_are_copied_whole(empty_folder):
    for name in ("train/0/a", "train/0/b"):
        path = Path("theirs", name).with_suffix(".npz")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, data=np.random.default_rng(0).integers(256, size=(7, 8, 8, 1)).astype(np.float32))
    Path("theirs.toml").write_text('kind = "moving_mnist_files"\nroot = "theirs"\nimage_size = 8\n')
    for inside in ("theirs", "theirs/train/copy"):
        with pytest.raises(ValueError, match=f"--out {inside}: is where the recipe's own clips are"):
            plan_for("theirs.toml", folder=Path(inside))
    with pytest.raises(ValueError, match="has clips of 7 frames; 8 are asked for"):
        plan_for("theirs.toml", frames=8, folder=Path("copy"))
    plan = plan_for("theirs.toml", folder=Path("copy"))
    assert isinstance(plan.source, Copy) and plan.counts == {"train": 2}
    assert make(plan, 2).frames == 14


def test_recordings_of_any_length_are_copied_whole_with_their_actions(empty_folder):
    random = np.random.default_rng(0)
    for split, name, length in ("train", "a", 5), ("train", "b", 9), ("train", "c", 6), ("test", "a", 4):
        path = Path(f"theirs/{split}/0/{name}.npz")
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = random.integers(256, size=(length, 8, 12, 3)).astype(np.uint8)
        np.savez_compressed(path, video=frames, actions=np.arange(length) % 3, pose=random.random((length, 2)))
    Path("theirs.toml").write_text('kind = "clips"\nroot = "theirs"\nimage_size = 4\nactions = ["a", "b", "c"]\n')
    made = make(plan_for("theirs.toml", folder=Path("copy")), 2)
    assert (made.clips, made.frames) == (4, 24)
    theirs, ours = (config.load(Recipe, "recipes", "theirs.toml", overrides) for overrides in ((), ("root=copy",)))
    for split, lengths in ("train", (5, 9, 6)), ("test", (4,)):
        for i, length in enumerate(lengths):
            was, now = (recipe.build(split, 1).cut(i, 0, length) for recipe in (theirs, ours))
            assert was.frames.shape == (length, 4, 4, 3)
            for name in ("frames", "actions", "pose"):
                assert torch.equal(getattr(was, name), getattr(now, name)), name
    assert make(plan_for("theirs.toml", frames=4, folder=Path("short")), 1).frames == 16


def test_where_there_is_nothing_to_copy_it_is_said(empty_folder):
    Path("empty").mkdir()
    Path("empty.toml").write_text('kind = "moving_mnist_files"\nroot = "empty"\n')
    with pytest.raises(ValueError, match=r"train: empty: no clips at train.*; test: empty: no clips at test"):
        plan_for("empty.toml", folder=Path("copy"))
