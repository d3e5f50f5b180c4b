"""What some clips are like: counts that grow as they are read, and the lines of text that tell them."""

from collections import Counter

import numpy as np

from videopred.checking.sources import Source
from videopred.clip import Clip, Format

ALIKE = 0.5  # mean difference of two frames, in grey levels of 0..255, below which they count as alike
STILL = 0.9  # share of alike neighbours from which on a clip is said to stand still
NAMED = 4  # clips or sizes that are told one by one


class Tally:
    """`begin` a clip, `add` its pieces, `end` it; `lines` then tell what all of them are like."""

    def __init__(self, source: Source):
        self.source, self.frames, self.lengths = source, 0, []
        self.levels, self.actions = np.zeros(256, np.int64), Counter[int]()
        self.low: np.ndarray | None = None
        self.high: np.ndarray | None = None
        self.pairs = self.alike = 0
        self.still: list[str] = []
        self.ids: set[str] = set()
        self.begin()

    def begin(self) -> None:
        self.last: np.ndarray | None = None
        self.id, self.length, self.here = "", 0, 0

    def add(self, clip: Clip) -> None:
        """A piece of a clip. Raises ValueError unless it is what the source's format says."""
        pixels = _pixels(clip, self.source.format)
        self.id, self.length, self.frames = str(clip.id), self.length + len(pixels), self.frames + len(pixels)
        self.levels += np.bincount(pixels.ravel(), minlength=256)
        self.here += _alike(pixels, self.last)
        self.last = pixels[-1]
        if clip.actions is not None:
            self.actions.update(clip.actions.tolist())
        if clip.pose is not None:
            pose = clip.pose.numpy()
            self.low = np.minimum(pose.min(0), pose.min(0) if self.low is None else self.low)
            self.high = np.maximum(pose.max(0), pose.max(0) if self.high is None else self.high)

    def end(self) -> None:
        self.lengths.append(self.length)
        self.ids.add(self.id)
        self.pairs, self.alike = self.pairs + self.length - 1, self.alike + self.here
        if self.length > 1 and self.here >= STILL * (self.length - 1):
            self.still.append(self.id)

    def lines(self) -> list[str]:
        """The first says how much was read, those after it what it is like."""
        source, good, levels = self.source, len(self.lengths), self.levels.nonzero()[0]
        files = "" if source.files is None else f" in {source.files} files"
        found = [f"{good} of {source.total} clips{files} read, {self.frames} frames, {describe(source.format)}"]
        if not good:
            return found
        total = self.levels.sum()
        mean = self.levels @ np.arange(256) / total
        found += [
            f"lengths min {min(self.lengths)}, median {np.median(self.lengths):g}, max {max(self.lengths)}",
            f"values {levels[0]}..{levels[-1]}, mean {mean:.2f}, black {self.levels[0] / total:.1%}",
        ]
        if source.stored:
            sizes = [f"{describe(Format(c, h, w))} ({n})" for (h, w, c), n in source.stored.most_common(NAMED)]
            more = f" and {len(source.stored) - NAMED} other sizes" if len(source.stored) > NAMED else ""
            found.append(f"stored as {', '.join(sizes)}{more}")
        if self.actions:
            found.append(f"actions {', '.join(self._shares())}")
        if self.low is not None and self.high is not None:
            found.append(f"pose {', '.join(f'{a:.2f}..{b:.2f}' for a, b in zip(self.low, self.high))}")
        if self.pairs:
            still = f"; {len(self.still)} clips stand still: {_some(self.still)}" if self.still else ""
            found.append(f"alike {self.alike / self.pairs:.1%} of neighbouring frames{still}")
        return found

    def _shares(self) -> list[str]:
        total, names = self.actions.total(), dict(enumerate(self.source.actions)) | {-1: "unknown"}
        wanted = sorted({*range(len(self.source.actions)), *self.actions})
        return [f"{names.get(action, action)} {self.actions[action] / total:.1%}" for action in wanted]


def describe(format: Format) -> str:
    """Such as `64x64 RGB, 3 actions`."""
    colour = {1: "gray", 3: "RGB", 4: "RGB and opacity"}[format.channels]
    actions = f", {format.num_actions} actions" if format.num_actions else ""
    return f"{format.height}x{format.width} {colour}{actions}"


def _pixels(clip: Clip, expected: Format) -> np.ndarray:
    """The clip's frames, uint8 (t, h, w, c). Raises ValueError if frames or actions are not of the format."""
    shape = (expected.height, expected.width, expected.channels)
    assert clip.frames is not None
    pixels = clip.frames.numpy()
    if pixels.dtype != "uint8" or pixels.shape[1:] != shape:
        raise ValueError(f"{clip.id}: frames are {pixels.dtype} {pixels.shape[1:]}; the recipe says uint8 {shape}")
    if clip.actions is not None:
        low, high = int(clip.actions.min()), int(clip.actions.max())
        if len(clip.actions) != len(pixels) or low < -1 or high >= expected.num_actions:
            raise ValueError(
                f"{clip.id}: has {len(clip.actions)} actions in {low}..{high} for {len(pixels)} frames; the recipe has "
                f"{expected.num_actions} actions"
            )
    return pixels


def _alike(frames: np.ndarray, before: np.ndarray | None) -> int:
    """How many frames (t, h, w, c) hardly differ from the one before."""
    count = 0
    for frame in frames:
        if before is not None:
            count += bool(np.abs(np.subtract(frame, before, dtype=np.int16)).mean() < ALIKE)
        before = frame
    return count


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (" ..." if len(names) > NAMED else "")
