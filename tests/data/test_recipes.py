"""What every recipe owes its readers (videopred/data/__init__.py)."""

import pickle

import numpy as np
import pytest
import torch

from videopred import config
from videopred.data import ClipsConfig, MovingMNISTConfig, MovingMNISTFilesConfig, Recipe, loader

FRAMES = 6


def _generated(folder):
    return MovingMNISTConfig(digit_size=7, image_size=16, train_clips=7, test_clips=5)


def _npy(folder):
    np.save(folder / "seq.npy", np.random.default_rng(0).integers(0, 256, (9, 5, 16, 16)).astype(np.uint8))
    return MovingMNISTFilesConfig(root=str(folder / "seq.npy"), image_size=16)


def _tree(folder):
    for split in ("train", "test"):
        for worker in "01":
            (folder / split / worker).mkdir(parents=True)
            np.savez(
                folder / split / worker / "0.npz",
                data=np.random.default_rng(int(worker)).integers(0, 256, (3, 9, 16, 16, 1)).astype(np.float32),
            )
    return MovingMNISTFilesConfig(root=str(folder), image_size=16)


def _clips(folder):
    random = np.random.default_rng(0)
    for name in ("train/0/a", "train/1/a", "test/0/a", "test/0/b", "test/1/a"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        video = random.integers(0, 256, (9, 16, 12, 3)).astype(np.uint8)
        np.savez(folder / f"{name}.npz", video=video, actions=random.integers(0, 3, 9), pose=random.random((9, 3)))
    return ClipsConfig(root=str(folder), image_size=(16, 12), actions=("forward", "left", "right"))


@pytest.fixture(params=[_generated, _npy, _tree, _clips])
def recipe(request, tmp_path):
    return request.param(tmp_path)


def test_clips_are_uint8_in_the_recipes_format_with_unique_ids(recipe):
    dataset, form = recipe.build("test", FRAMES), recipe.format
    clips = [dataset[i] for i in range(len(dataset))]
    for clip in clips:
        assert clip.frames.dtype == torch.uint8
        assert clip.frames.shape == (FRAMES, form.height, form.width, form.channels)
        assert clip.frames.max() > 100  # 0..255, not 0..1
        assert (clip.actions is not None) == (form.num_actions > 0)
    assert len({clip.id for clip in clips}) == len(clips)


def test_a_clip_is_the_same_whenever_and_however_long_it_is_read(recipe):
    dataset = recipe.build("test", FRAMES)
    clip = dataset[1].frames.clone()
    dataset[1].frames.zero_()  # what is handed out belongs to the reader
    assert torch.equal(dataset[1].frames, clip)
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[1].frames, clip)
    assert torch.equal(recipe.build("test", 2)[1].frames, clip[:2])


def test_it_ends_where_it_says(recipe):
    dataset = recipe.build("test", 1)
    for index in (-1, len(dataset)):
        with pytest.raises(IndexError):
            dataset[index]
    assert len(list(dataset)) == len(dataset)
    if dataset.max_frames:
        assert recipe.build("test", dataset.max_frames)[0].num_frames == dataset.max_frames
        with pytest.raises(ValueError, match=f"{dataset.max_frames + 1} are asked for"):
            recipe.build("test", dataset.max_frames + 1)


def test_senseless_requests_are_refused(recipe):
    with pytest.raises(ValueError, match="split = 'validation'"):
        recipe.build("validation", FRAMES)
    with pytest.raises(ValueError, match="frames = 0"):
        recipe.build("test", 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_worker_processes_change_nothing(recipe):
    dataset = recipe.build("test", FRAMES)
    streams = [loader.batches(dataset, 3, seed=1, workers=workers) for workers in (0, 2)]
    for _ in range(4):
        one, other = map(next, streams)
        assert one.id == other.id and torch.equal(one.frames, other.frames)


@pytest.mark.parametrize("name", config.shipped("recipes"))
def test_shipped_recipes_load_under_their_names(name):
    recipe = config.load(Recipe, "recipes", name)
    assert recipe.name == name
    assert config.from_dict(Recipe, config.to_dict(recipe)) == recipe
    if isinstance(recipe, MovingMNISTConfig):
        assert recipe.build("train", 2)[0].frames.shape[1:] == (recipe.format.height, recipe.format.width, 1)


def test_the_papers_recipes_have_the_papers_settings():
    for name in ("moving-mnist", "moving-mnist-300", "moving-mnist-600"):
        recipe = config.load(Recipe, "recipes", name)
        assert (recipe.num_digits, recipe.digit_size, recipe.image_size) == (2, 28, 64)
        assert (recipe.step, recipe.bounce, recipe.digits) == (0.15, "clamp", "bundled")
