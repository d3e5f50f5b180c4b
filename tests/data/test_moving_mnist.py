"""The generator: a pure function with the physics of the paper's."""

import dataclasses
import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from videopred.data import MovingMNISTConfig
from videopred.data.digits import pool

PAPER = MovingMNISTConfig()
SMALL = MovingMNISTConfig(digit_size=14, image_size=32)
# sha256 of clip 17 of test, 64 frames. If these change, every recorded number changes with them.
GOLDEN = {
    PAPER: "279e53744641f76fb36862fd7b39b1c208638f5d48bf9904be97424a4d6837e8",
    SMALL: "0ccb4b655d81886541a233920b678eb4361219ce28b456d554fe06075325e22f",
    MovingMNISTConfig(step=0.1, bounce="reflect"): "226e1741677623cb52078db8647093b03baeea92d13433f20260e87c06103314",
}


def _hash(recipe, index=17, frames=64):
    return hashlib.sha256(recipe.build("test", frames)[index].frames.numpy().tobytes()).hexdigest()


def _reference(recipe, split, index, frames):
    """The same clip, one pixel block at a time, as the paper's generator does it."""
    key = np.array([recipe.seed, ["train", "test"].index(split)], np.uint64)
    raw = np.random.Philox(key=key, counter=np.array([0, 0, index, 0], np.uint64))
    draws = [int(x) // 2**11 / 2**53 for x in raw.random_raw(4 * recipe.num_digits)]
    digits = pool("bundled", "", split, recipe.digit_size)
    d, travel = recipe.digit_size, recipe.image_size - recipe.digit_size
    video = np.zeros((frames, recipe.image_size, recipe.image_size), np.uint8)
    for k in range(recipe.num_digits):
        which, x, y, angle = draws[4 * k : 4 * k + 4]
        digit = digits[int(which * len(digits))]
        vx, vy = recipe.step * math.cos(2 * math.pi * angle), recipe.step * math.sin(2 * math.pi * angle)
        for frame in video:
            x, y = x + vx, y + vy
            if not 0 < x < 1:
                x, vx = _bounced(x, recipe.bounce), -vx
            if not 0 < y < 1:
                y, vy = _bounced(y, recipe.bounce), -vy
            top, left = int(y * travel), int(x * travel)
            for i in range(d):
                for j in range(d):
                    frame[top + i, left + j] = max(frame[top + i, left + j], digit[i, j])
    return video[..., None]


def _bounced(place, bounce):
    if bounce == "clamp":
        return min(max(place, 0.0), 1.0)
    return -place if place < 0 else 2 - place if place > 1 else place


@pytest.mark.parametrize(
    "recipe",
    [
        dataclasses.replace(SMALL, num_digits=3),
        dataclasses.replace(SMALL, bounce="reflect", step=0.4),
        dataclasses.replace(SMALL, step=1.0),
        MovingMNISTConfig(num_digits=1, digit_size=9, image_size=9),
        MovingMNISTConfig(digit_size=10, image_size=31, step=0.07, seed=2**64 - 1),
    ],
)
def test_frames_are_those_of_a_plain_loop(recipe):
    for split, index in (("train", 0), ("test", 9_999)):
        assert np.array_equal(recipe.build(split, 70)[index].frames, _reference(recipe, split, index, 70))


@pytest.mark.parametrize("recipe", GOLDEN)
def test_golden_frames(recipe):
    assert _hash(recipe) == GOLDEN[recipe]


def test_another_process_makes_the_same_clip():
    code = (
        "import hashlib; from videopred.data import MovingMNISTConfig as C\n"
        "print(hashlib.sha256(C().build('test', 64)[17].frames.numpy().tobytes()).hexdigest())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == _hash(PAPER)


def test_a_shorter_clip_is_a_prefix():
    assert torch.equal(PAPER.build("test", 64)[17].frames, PAPER.build("test", 200)[17].frames[:64])


def test_clips_splits_and_seeds_differ():
    frames = [
        recipe.build(split, 3)[index].frames.numpy().tobytes()
        for recipe in (SMALL, dataclasses.replace(SMALL, seed=1))
        for split in ("train", "test")
        for index in (0, 1, 2)
    ]
    assert len(set(frames)) == len(frames)


def test_numbers_of_clips_and_name_do_not_change_a_clip():
    other = dataclasses.replace(SMALL, train_clips=5, test_clips=18, name="other")
    assert _hash(other) == _hash(SMALL)
    assert (len(other.build("train", 1)), len(other.build("test", 1))) == (5, 18)


def test_clips_of_a_split_show_only_its_digits():
    recipe = MovingMNISTConfig(num_digits=1, digit_size=28, image_size=28, test_clips=3000)
    for split, size in (("train", 8000), ("test", 2000)):
        digits = {image.tobytes() for image in pool("bundled", "", split, 28)}
        dataset = recipe.build(split, 1)
        shown = {dataset[i].frames.numpy().tobytes() for i in range(500)}
        assert shown <= digits
        assert len(shown) > 0.8 * size * (1 - math.exp(-500 / size))  # they are drawn from all of them


@pytest.mark.parametrize("bounce", ["clamp", "reflect"])
def test_a_digit_never_leaves_the_image(bounce):
    recipe = MovingMNISTConfig(num_digits=1, bounce=bounce, step=0.3)
    dataset, digits = recipe.build("train", 100), pool("bundled", "", "train", 28)
    for index in range(10):
        frames = dataset[index].frames.flatten(1).sum(1)
        assert (frames == frames[0]).all()  # no ink is cut off at a wall
        assert frames[0].item() in set(digits.sum((1, 2)).tolist())


def test_bounce_modes_part_at_the_first_wall():
    clamp, reflect = (dataclasses.replace(SMALL, bounce=bounce).build("train", 50) for bounce in ("clamp", "reflect"))
    same = torch.stack([(clamp[i].frames == reflect[i].frames).flatten(1).all(1) for i in range(20)])
    assert same[:, 0].sum() >= 10 and not same.all(1).any()


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"num_digits": 0}, "num_digits = 0: must be at least 1"),
        ({"digit_size": 0}, "digit_size = 0"),
        ({"digit_size": 28, "image_size": 20}, "image_size = 20: must be at least digit_size = 28"),
        ({"step": -0.1}, "step = -0.1: must lie in 0..1"),
        ({"step": 1.5}, "step = 1.5"),
        ({"step": float("nan")}, "step = nan"),
        ({"seed": -1}, "seed = -1"),
        ({"test_clips": 0}, "test_clips = 0"),
        ({"digits": "torchvision"}, "root = ''.*give it with digits = 'torchvision'"),
        ({"root": "somewhere"}, "root = 'somewhere'"),
    ],
)
def test_odd_settings_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        MovingMNISTConfig(**keys)
