"""Rollouts that somebody has in files, one clip at a time: what `videopred eval --predictions` and `--targets` take.

A path is a file or a folder of files: .npz as TECO's code, `rollout` or `eval --save-clips` writes it (`real`, `fake`),
.npy, a video, a folder of pictures. Frames come as they are stored, uint8 or floating.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from videopred.data import npz, pictures, recording, video
from videopred.data.array import KEYS, Arrays, arrays

Side = Literal["fake", "real"]
LOSSY = (*video.SUFFIXES, ".jpg", ".jpeg")


@dataclass(frozen=True)
class Stored:
    """A clip in a file: `frames` (t, h, w, c) as stored; `id`, `sample` and `context` where the file names them.

    named : whether `id` is the file's own word, and not the file's name and the clip's place in it
    """

    frames: np.ndarray
    id: str
    sample: int = 0
    context: int | None = None
    named: bool = False


@dataclass(frozen=True)
class Told:
    """What a file says of its clips, or what stands for that."""

    ids: list[str]
    samples: list[int]
    context: int | None = None
    named: bool = False


class RolloutFiles:
    """The clips of a path in the order of its files, of which 10 comes after 9; `side` is the array wanted of an .npz.

    Every file of arrays is read once, whole, so that damage is found now: an array that is not compressed would be read
    past it. Raises ValueError that names the file if it is missing, damaged, holds no frames or contradicts itself.
    """

    def __init__(self, path: Path, side: Side):
        recording.require(path)
        self.path, self.side = path, side
        single = path.is_file() or bool(pictures.names([entry.name for entry in path.iterdir()]))
        found = [] if single else sorted((place.path for place in recording.search(path)), key=_natural)
        self.files = [path] if single else [path / name for name in found]
        self.told = [self._told(file) for file in self.files]
        if not self.files:
            raise ValueError(f"{path}: holds no clips; give .npz, .npy or video files, or a folder of them")
        _require_samples(path, self.clips)

    @property
    def lossy(self) -> str:
        """Name of a file whose frames are not what was predicted, but what a codec left of it; or ""."""
        return next((name for file in self.files for name in _frames_in(file) if name.lower().endswith(LOSSY)), "")

    @property
    def clips(self) -> list[tuple[str, int]]:
        """Id and sample of each."""
        return [clip for told in self.told for clip in zip(told.ids, told.samples, strict=True)]

    def __len__(self) -> int:
        return sum(len(told.ids) for told in self.told)

    def __getitem__(self, index: int) -> Stored:
        for file, told in zip(self.files, self.told, strict=True):
            if 0 <= index < len(told.ids):
                frames = self._frames(file, index) if _arrayed(file) else _whole(file)
                return Stored(frames, told.ids[index], told.samples[index], told.context, told.named)
            index -= len(told.ids)
        raise IndexError(f"{self.path}: has {len(self)} clips")

    def _frames(self, path: Path, index: int) -> np.ndarray:
        with arrays(path) as file:
            values = file.frames((self.side, *KEYS))
            _, length, *_ = npz.clips_shape(path, values)
            return _native(npz.span(path, values, index, 0, length))

    def _told(self, path: Path) -> Told:
        name = path.name if path == self.path else str(path.relative_to(self.path))
        if not _arrayed(path):
            return Told([name], [0])
        with arrays(path) as file:
            file.check()
            count, *_ = npz.clips_shape(path, file.frames((self.side, *KEYS)))
            ids, samples = _listed(path, file, "clip_ids", count), _numbers(path, file, "sample", count)
            context = _numbers(path, file, "context", 1)
        named = ids is not None
        ids = [str(clip) for clip in ids] if named else [f"{name}/{i}" for i in range(count)]
        return Told(ids, samples or [0] * count, context[0] if context else None, named)


def _frames_in(path: Path) -> list[str]:
    """Names of the files that hold the frames of a clip: its own, or of a folder those of its pictures."""
    return pictures.names([entry.name for entry in path.iterdir()]) if path.is_dir() else [path.name]


def _arrayed(path: Path) -> bool:
    return path.suffix.lower() in recording.ARRAYS


def _natural(name: str) -> tuple[list[str | int], str]:
    """Sorts numbers in names by their size, as `eval --save-clips` counts its files."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)], name


def _listed(path: Path, file: Arrays, name: str, count: int) -> list[Any] | None:
    """What an array says of each of `count` clips; a single value is said of all. Raises ValueError."""
    array = file.small(name)
    if array is None:
        return None
    if array.size not in (1, count):
        raise ValueError(f"{path}: its {name} has {array.size} values for {count} clips; must be one, or one for each")
    return array.reshape(-1).tolist() * (count if array.size == 1 else 1)


def _numbers(path: Path, file: Arrays, name: str, count: int) -> list[int] | None:
    """The same of whole numbers from 0 on."""
    numbers = _listed(path, file, name, count)
    wrong = [number for number in numbers or () if type(number) is not int or number < 0]
    if wrong:
        raise ValueError(f"{path}: its {name} is {wrong[0]!r}; must be a whole number, at least 0")
    return numbers


def _require_samples(path: Path, clips: Sequence[tuple[str, int]]) -> None:
    """Raises ValueError unless each clip has samples 0, 1, ..., as many as the others, and none twice."""
    if twice := next((clip for clip, times in Counter(clips).items() if times > 1), None):
        raise ValueError(f"{path}: sample {twice[1]} of clip {twice[0]} comes twice; give each once")
    counts = Counter(clip for clip, _ in clips)
    most = max(counts.values())
    for clip, sample in clips:
        if counts[clip] < most or sample >= most:
            what = f"clip {clip} has {counts[clip]} sample(s), one is number {sample}, and a clip has {most} at most"
            raise ValueError(f"{path}: {what}; must be as many of every clip, numbered from 0 on")


def _native(frames: np.ndarray) -> np.ndarray:
    """In the machine's byte order, and of no type wider than torch knows."""
    kind = np.float64 if frames.dtype.itemsize > 8 else frames.dtype.newbyteorder("=")
    return frames.astype(kind, copy=False)


def _whole(path: Path) -> np.ndarray:
    return np.concatenate(list(recording.first(path, 0, 1 << 30)))
