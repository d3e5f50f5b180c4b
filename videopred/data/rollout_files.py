"""Rollouts that somebody has in files, one clip at a time: what `videopred eval --predictions` and `--targets` take.

A path is a file or a folder of files: .npz as TECO's code, `rollout` or `eval --save-clips` writes it (`real`, `fake`),
.npy, a video, a folder of pictures. Frames come as they are stored, uint8 or floating.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from videopred.data import npz, pictures, recording, video
from videopred.data.array import KEYS, arrays

Side = Literal["fake", "real"]
LOSSY = (*video.SUFFIXES, ".jpg", ".jpeg")


@dataclass(frozen=True)
class Stored:
    """A clip in a file: `frames` (t, h, w, c) as stored; `id` and `sample` where the file names them (`named`)."""

    frames: np.ndarray
    id: str
    sample: int
    named: bool = False


class RolloutFiles:
    """The clips of a path in the order of its files, 2 before 10; `side` is the array of an .npz that is wanted first.

    Raises ValueError that names the file if it is missing, damaged or holds no frames.
    """

    def __init__(self, path: Path, side: Side):
        recording.require(path)
        self.path, self.side = path, side
        single = path.is_file() or bool(pictures.names([entry.name for entry in path.iterdir()]))
        self.files = [path] if single else sorted((path / x.path for x in recording.search(path)), key=_in_order)
        self.counts = [self._count(file) for file in self.files]
        if not self.files:
            raise ValueError(f"{path}: holds no clips; give .npz, .npy or video files, or a folder of them")

    @property
    def lossy(self) -> str:
        """Name of a file whose frames are not what was predicted, but what a codec left of it; or ""."""
        return next((name for file in self.files for name in _frames_in(file) if name.lower().endswith(LOSSY)), "")

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, index: int) -> Stored:
        for file, count in zip(self.files, self.counts, strict=True):
            if 0 <= index < count:
                return self._stored(file, index) if _arrayed(file) else Stored(_whole(file), self._id(file), 0)
            index -= count
        raise IndexError(f"{self.path}: has {len(self)} clips")

    def _stored(self, path: Path, index: int) -> Stored:
        with arrays(path) as file:
            values = file.frames((self.side, *KEYS))
            _, length, *_ = npz.clips_shape(path, values)
            frames = npz.span(path, values, index, 0, length)
            name, sample = _nth(file.small("clip_ids"), index), _nth(file.small("sample"), index)
        told = f"{self._id(path)}/{index}" if name is None else str(name)
        return Stored(frames, told, int(sample or 0), name is not None)

    def _count(self, path: Path) -> int:
        if not _arrayed(path):
            return 1
        with arrays(path) as file:
            return npz.clips_shape(path, file.frames((self.side, *KEYS)))[0]

    def _id(self, file: Path) -> str:
        return file.name if file == self.path else str(file.relative_to(self.path))


def _in_order(path: Path) -> tuple:
    """Numbers in names by their size, as they were written: data_2.npz stands before data_10.npz."""
    parts = [re.split(r"(\d+)", part) for part in path.parts]
    return [[int(x) if x.isdecimal() else x for x in part] for part in parts], path


def _frames_in(path: Path) -> list[str]:
    """Names of the files that hold the frames of a clip: its own, or of a folder those of its pictures."""
    return pictures.names([entry.name for entry in path.iterdir()]) if path.is_dir() else [path.name]


def _arrayed(path: Path) -> bool:
    return path.suffix.lower() in recording.ARRAYS


def _nth(array: np.ndarray | None, index: int) -> Any:
    """What an array says of clip `index`; a single value is said of all."""
    return None if array is None else array.reshape(-1)[index if array.size > 1 else 0]


def _whole(path: Path) -> np.ndarray:
    return np.concatenate(list(recording.first(path, 0, 1 << 30)))
