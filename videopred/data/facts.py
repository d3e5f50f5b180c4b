"""What is known of a recording before it is read."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

ROUNDING = 0.1  # of a frame: containers round times, to milliseconds for example


def changed(path: Path) -> ValueError:
    """The file is no longer what is known of it."""
    return ValueError(f"{path}: was changed since it was indexed; start again")


def _none() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Facts:
    """
    length, height, width, channels   frames, pixels as shown, values per pixel as stored
    low, high   : of floating frames, the least and the greatest value; None of uint8
    actions     : how many there are, or None; `least` and `most` are the range of their numbers
    unfit       : why a recipe that names actions cannot use those of the file, or ""; `actions` is then None
    pose        : numbers per frame, 0 for none
    times       : int64 (length,), when each frame is shown, in units of `unit` seconds; empty where nothing says
    keys        : int64, numbers of frames from which decoding can start, at least `video.APART` apart; or empty
    """

    length: int
    height: int
    width: int
    channels: int
    low: float | None = None
    high: float | None = None
    actions: int | None = None
    least: int = 0
    most: int = 0
    unfit: str = ""
    pose: int = 0
    unit: Fraction = Fraction(0)
    times: np.ndarray = field(default_factory=_none)
    keys: np.ndarray = field(default_factory=_none)

    def count(self, stride: int, fps: float) -> int:
        """How many frames `steps` can give from the first on."""
        taken = self.length
        if fps:
            shown = float((self.times[-1] - self.times[0]) * self.unit)
            taken = math.floor(shown * fps + ROUNDING) + 1
        return -(-taken // stride)

    def steps(self, start: int, count: int, stride: int, fps: float) -> np.ndarray:
        """Numbers of `count` frames: number `start` of those that are taken, and every `stride`-th after it.

        With `fps`, those are taken that are shown nearest to 0, 1 / fps, 2 / fps ... seconds after the first, of two
        the earlier; else all.
        """
        steps = start + np.arange(count) * stride
        if not fps:
            return steps
        times, wanted = self.times - self.times[0], steps / (fps * float(self.unit))
        after = np.searchsorted(times, wanted).clip(1, max(1, self.length - 1))
        before = after - 1
        nearer = times[after.clip(max=self.length - 1)] - wanted < wanted - times[before] - 1e-6
        return np.where(nearer & (self.length > 1), after, before)
