"""Moving-MNIST, made as it is read: clip i of a split is a pure function of (recipe, split, i), so no file is needed.

Each digit starts at a uniform place of its travel (image size less digit size, as 0..1), in a uniform direction.
Every frame it moves `step` of the travel, then meets the walls: `clamp` puts it on the wall and turns that velocity
(the ConvS5 paper's generator, step 0.15), `reflect` carries the rest of the step back inside (OpenSTL, step 0.1).
Its place is truncated to whole pixels; where digits overlap the brighter one shows.

Random numbers are the raw output of Philox, keyed by (seed, split), with the clip's index in the high half of its
counter: streams never meet, and raw output is the same in every numpy. All are drawn before the first frame, so a
shorter clip is a prefix.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from videopred.clip import Clip, Format
from videopred.config import at_least
from videopred.data.digits import Source, pool
from videopred.data.split import SPLITS, Split, require_index, require_request

Bounce = Literal["clamp", "reflect"]


@dataclass(frozen=True)
class MovingMNISTConfig:
    """`step` is the share of the travel covered per frame, 0..1; the numbers of clips only say where an epoch ends."""

    kind: Literal["moving_mnist"] = "moving_mnist"
    name: str = ""
    num_digits: int = 2
    digit_size: int = 28
    image_size: int = 64
    step: float = 0.15
    bounce: Bounce = "clamp"
    seed: int = 0
    train_clips: int = 1_000_000
    test_clips: int = 10_000
    digits: Source = "bundled"
    root: str = ""  # of torchvision's MNIST

    def __post_init__(self):
        at_least(self, num_digits=1, digit_size=1, train_clips=1, test_clips=1)
        if self.image_size < self.digit_size:
            raise ValueError(f"image_size = {self.image_size}: must be at least digit_size = {self.digit_size}")
        if not 0 <= self.step <= 1:
            raise ValueError(f"step = {self.step}: must lie in 0..1, it is the share of the travel covered per frame")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed = {self.seed}: must lie in 0..2^64 - 1")
        if (self.digits == "torchvision") != bool(self.root):
            raise ValueError(
                f"root = {self.root!r} with digits = {self.digits!r}: root is the folder of torchvision's "
                "MNIST; give it with digits = 'torchvision' and only then"
            )

    @property
    def format(self) -> Format:
        return Format(1, self.image_size, self.image_size)

    def build(self, split: Split, frames: int) -> "MovingMNIST":
        return MovingMNIST(self, split, frames)


class MovingMNIST:
    """The clips of one split, `frames` long: uint8 (t, image_size, image_size, 1), ids such as "test/17"."""

    max_frames = None  # a clip goes on for ever

    def __init__(self, config: MovingMNISTConfig, split: Split, frames: int):
        require_request(split, frames)
        self.config, self.split, self.frames = config, split, frames
        self.pool = pool(config.digits, config.root, split, config.digit_size)

    def __len__(self) -> int:
        return self.config.train_clips if self.split == "train" else self.config.test_clips

    def __getitem__(self, index: int) -> Clip:
        require_index(self.split, index, len(self))
        config = self.config
        which, x, y, angle = _uniform(config.seed, SPLITS.index(self.split), index, 4 * config.num_digits).T
        chosen = [self.pool[int(u * len(self.pool))] for u in which]
        travel = config.image_size - config.digit_size
        paths = np.array(
            [
                [self._path(start, turn(2 * math.pi * a)) for start, a in zip(starts, angle, strict=True)]
                for starts, turn in ((x, math.cos), (y, math.sin))
            ]
        )  # (2, num_digits, t) in 0..1
        columns, rows = (travel * paths).astype(np.intp)
        frames = _draw(chosen, columns, rows, config.image_size)
        return Clip(frames=torch.from_numpy(frames)[..., None], id=f"{self.split}/{index}")

    def _path(self, start: float, share: float) -> list[float]:
        """Places in 0..1 along one axis after 1, 2, ... steps, of which this axis gets `share`."""
        place, velocity, places = float(start), self.config.step * share, []
        reflect = self.config.bounce == "reflect"
        for _ in range(self.frames):
            place += velocity
            if place <= 0:
                place, velocity = -place if reflect else 0.0, -velocity
            elif place >= 1:
                place, velocity = 2 - place if reflect else 1.0, -velocity
            places.append(place)
        return places


def _uniform(seed: int, stream: int, index: int, count: int) -> np.ndarray:
    """float64 (count / 4, 4) in [0, 1): 53 bits of each raw number."""
    key, counter = np.array([seed, stream], np.uint64), np.array([0, 0, index, 0], np.uint64)  # a list may turn float
    raw = np.random.Philox(key=key, counter=counter).random_raw(count)
    return ((raw >> np.uint64(11)) * 2.0**-53).reshape(-1, 4)


def _draw(chosen: list[np.ndarray], columns: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """uint8 (t, size, size) with the upper left corner of digit k in frame t at (rows[k, t], columns[k, t]).

    A digit is first laid out once for every column it may stand in, as a strip of full rows. A strip is one run of
    memory, so that placing it in a frame is one copy; 64 frames at a time stay in the cache.
    """
    digit_size, travel, count = chosen[0].shape[-1], size - chosen[0].shape[-1], columns.shape[-1]
    frames = np.zeros((count, size * size), np.uint8)
    places = sliding_window_view(frames, digit_size * size, axis=1, writeable=True)[:, ::size]  # (t, row, strip)
    strips = []
    for digit in chosen:
        padded = np.pad(digit, ((0, 0), (travel, travel)))
        windows = sliding_window_view(padded, size, axis=1)[:, ::-1]  # (digit_size, column, size)
        strips.append(windows.swapaxes(0, 1).reshape(travel + 1, -1))
    for start in range(0, count, 64):
        t = np.arange(start, min(start + 64, count))
        for strip, column, row in zip(strips, columns, rows, strict=True):
            place = t, row[t]
            places[place] = np.maximum(places[place], strip[column[t]])
    return frames.reshape(count, size, size)
