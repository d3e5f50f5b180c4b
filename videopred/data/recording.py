"""A recording: one file or folder that somebody has, with what is known of it and any of its frames.

Kinds, by the name: arrays (`npz`), videos (`video`), folders of pictures (`pictures`). A member is a module with
    facts(path) -> list[Facts]                  of every clip in it; reads it all once
    frames(path, clip, facts, steps)            blocks (n, h, w, c), uint8 or as stored, a frame for every step
    glance(path) -> (clips, frames per second)  without reading it all
    first(path, clip, count)                    blocks of the first frames, at most so many
All raise ValueError that names the file. `steps` are numbers of frames that do not decrease. Actions (t,) and pose
(t, d) stand in the .npz itself, or in an .npz that has the name of the video or folder.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from videopred.data import npz, pictures, video
from videopred.data.array import KEYS, Unreadable, arrays
from videopred.data.facts import Facts
from videopred.data.tracks import Tracks, tracks

ARRAYS = (".npz", ".npy")


@dataclass(frozen=True, order=True)
class Place:
    """Where a recording is below the folder that was searched; `stamp` changes when any of its files does."""

    path: str
    size: int
    mark: int  # of the names, sizes and times of change of its files, those of actions and pose too

    @property
    def stamp(self) -> tuple[int, int]:
        return self.size, self.mark


def search(folder: Path) -> list[Place]:
    """All recordings below a folder, in the order of their paths; names that begin with a dot are passed over.

    Pictures in a folder are one recording, unless files that are some lie beside them. Raises ValueError if a folder
    cannot be looked into.
    """
    found: list[Place] = []
    seen, waiting = set(), [("", folder, None)]
    while waiting:
        prefix, place, beside = waiting.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name, reverse=True)  # the same everywhere
            entries = [entry for entry in entries if not entry.name.startswith(".")]
            folders = [entry.name for entry in entries if _is_folder(entry)]
            files = {entry.name: _stamp(entry) for entry in entries if entry.is_symlink() or entry.is_file()}
            status = os.stat(place)
        except OSError as error:
            raise Unreadable(f"{place}: cannot be searched: {error.strerror}") from error
        if (status.st_dev, status.st_ino) in seen:  # links may go round in a circle
            continue  # its first name, in the order of the alphabet, is that of the recordings in it
        seen.add((status.st_dev, status.st_ino))
        files = {name: stamp for name, stamp in files.items() if name not in folders}
        waiting += [(f"{prefix}{name}/", place / name, files.get(f"{name}.npz")) for name in folders]
        ofs = {os.path.splitext(name)[0]: name for name in files if name.lower().endswith(video.SUFFIXES)}
        named = {f"{stem}.npz": name for stem, name in ofs.items()} | {f"{name}.npz": name for name in folders}
        single = [name for name in files if name.lower().endswith((*ARRAYS, *video.SUFFIXES)) and name not in named]
        for name in single:
            found.append(_place(prefix + name, files, [name, f"{os.path.splitext(name)[0]}.npz"]))
        shown = [] if single else pictures.names([*files])
        if shown:
            found.append(_place(prefix.removesuffix("/"), files | {"..": beside}, [*shown, ".."]))
        elif beside is not None:  # it only happens to have the folder's name
            found.append(_place(f"{prefix.removesuffix('/')}.npz", {"": beside}, [""]))
    return sorted(found)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link to itself
            return False
        raise


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int]:
    """Size and time of change; of a link that leads nowhere, something that no file has."""
    try:
        status = entry.stat()
    except OSError:
        return -1, 0
    return status.st_size, status.st_mtime_ns


def _place(path: str, stamps: Mapping[str, tuple[int, int] | None], files: list[str]) -> Place:
    """`files` are the names of those it consists of; some may not be there."""
    parts = {name: stamp for name in files if (stamp := stamps.get(name)) is not None}
    mark = sha256(os.fsencode(repr(sorted(parts.items())))).digest()[:8]
    return Place(path, sum(size for size, _ in parts.values()), int.from_bytes(mark, "big", signed=True))


def require(path: Path) -> None:
    """Raises ValueError unless there is something at `path` that may be a recording."""
    if not path.exists():
        raise ValueError(f"{path}: no such file")
    if path.is_file() and not path.stat().st_size:
        raise ValueError(f"{path}: is empty")


def glance(path: Path) -> tuple[int, Fraction | None]:
    """The number of clips in a recording, and how many frames make a second, if it says so."""
    return _kind(path).glance(path)


def first(path: Path, clip: int, count: int) -> Iterator[np.ndarray]:
    """The first frames of a clip, at most `count`, in blocks (n, h, w, c) as stored."""
    return _kind(path).first(path, clip, count)


def facts(path: Path) -> list[Facts]:
    """Of every clip of a recording."""
    kind = _kind(path)
    found = kind.facts(path)
    if kind is npz:
        return found
    beside = _beside(path)
    if beside.is_file():
        with arrays(beside) as file:
            if key := next((key for key in KEYS if key in file.names), None):
                raise ValueError(f"{path}: {beside.name} beside it holds frames too, as {key!r}; move one of them away")
    return [replace(facts, **read_tracks(path, 0, 1).facts(path, facts.length)) for facts in found]


def frames(path: Path, clip: int, facts: Facts, steps: np.ndarray) -> Iterator[np.ndarray]:
    """The frames of a clip with the numbers `steps`, in blocks (n, h, w, c) as stored."""
    return _kind(path).frames(path, clip, facts, steps)


def read_tracks(path: Path, clip: int, count: int) -> Tracks:
    """Actions and pose of one of `count` clips of a recording."""
    if _kind(path) is not npz:
        path = _beside(path)
        if not path.is_file():
            return Tracks()
    with arrays(path) as file:
        return tracks(file).of(clip, count)


def _beside(path: Path) -> Path:
    """Where the actions and the pose of a video or a folder of pictures are, if there are any."""
    return path.with_name(f"{path.stem if path.is_file() else path.name}.npz")


def _kind(path: Path) -> Any:
    if path.is_dir():
        return pictures
    return npz if path.suffix.lower() in ARRAYS else video
