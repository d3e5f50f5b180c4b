"""The index of a folder: what is known of every recording in it, so that nothing is read twice to find that out.

It is kept in the folder or, where that cannot be written, below $VIDEOPRED_HOME (default ~/.cache/videopred). A
recording that is new, or whose stamp is not what the index says, is read again; the others are not.
While it grows it is saved now and then, so that a process that is killed loses little.

Numbers and names are held in a few numpy arrays: a list of Python objects would be copied, page by page, into every
reading process that looks at it.
"""

import contextlib
import hashlib
import os
import sys
import time
import zipfile
from array import array
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

from videopred.data import recording
from videopred.data.array import Unreadable
from videopred.data.facts import Facts
from videopred.data.recording import Place
from videopred.data.whole_file import WholeFile

VERSION = 3
NAME = ".videopred-index.npz"
BLOCK, SAVE_EVERY = 64, 20  # recordings that are read at once, seconds
NONE = -1
CLIP = np.dtype(
    [
        ("recording", "i4"), ("clip", "i4"), ("clips", "i4"), ("length", "i4"), ("height", "i4"), ("width", "i4"),
        ("channels", "i4"), ("low", "f8"), ("high", "f8"), ("actions", "i4"), ("least", "i8"), ("most", "i8"),
        ("pose", "i4"), ("up", "i8"), ("down", "i8"), ("first", "i8"), ("step", "i8"), ("times", "i8"),
        ("keys", "i8"), ("num_keys", "i4"), ("unfit", "i4"),
    ]
)  # fmt: skip
Found = str | list[Facts]  # what is wrong with a recording, or the clips in it


class Index:
    """
    folder  : what was searched
    paths   : bytes (n,), of the recordings below it, sorted; `stamps` int64 (n, 2), as `Place` gives them
    faults  : int32 (n,), the place in `reasons` of what is wrong with each, or -1; `unfit` of a clip, with its actions
    clips   : `CLIP` (m,), those of every recording without a fault, in the order of `paths`
    pool    : int64, frame times and key frames that `clips` point at
    """

    ARRAYS = ("paths", "stamps", "faults", "reasons", "clips", "pool")

    def __init__(self, folder: Path, **arrays: np.ndarray):
        self.folder = folder
        self.paths, self.stamps, self.faults, self.reasons, self.clips, self.pool = (arrays[x] for x in self.ARRAYS)

    @classmethod
    def of(cls, folder: Path, places: list[Place], found: dict[str, Found]) -> "Index":
        """Of those `places` about which something was found."""
        places = [place for place in places if place.path in found]
        faults, reasons, rows, pool = np.full(len(places), NONE, np.int32), [], [], array("q")
        for number, place in enumerate(places):
            answer = found[place.path]
            if isinstance(answer, str):
                faults[number] = len(reasons)
                reasons.append(answer)
            else:
                for clip, facts in enumerate(answer):
                    rows.append((*_row(number, clip, len(answer), facts, pool), len(reasons) if facts.unfit else NONE))
                    reasons += [facts.unfit] if facts.unfit else []
        return cls(
            folder,
            paths=np.array([os.fsencode(place.path) for place in places], "S"),
            stamps=np.array([place.stamp for place in places], np.int64).reshape(-1, 2),
            faults=faults,
            reasons=np.array(reasons, "U"),
            clips=np.array(rows, CLIP),
            pool=np.array(pool, np.int64),
        )

    def is_of(self, places: list[Place]) -> bool:
        """Whether these are its recordings, unchanged."""
        stamps = np.array([place.stamp for place in places], np.int64).reshape(-1, 2)
        names = [os.fsencode(place.path) for place in places]
        return self.paths.tolist() == names and np.array_equal(self.stamps, stamps)

    def path(self, number: int) -> str:
        return os.fsdecode(bytes(self.paths[number]))

    def unfit(self, clip: np.void) -> str:
        """Why the actions of one of `clips` cannot be used, or ""."""
        return "" if clip["unfit"] == NONE else str(self.reasons[clip["unfit"]])

    def facts(self, row: int) -> Facts:
        """Of clip `row` of all."""
        clip = self.clips[row]
        number = {name: int(clip[name]) for name in CLIP.names or () if clip[name].dtype.kind == "i"}
        if number["step"]:
            times = number["first"] + number["step"] * np.arange(number["length"])
        else:
            times = self._pooled(number["times"], number["length"])
        return Facts(
            *(number[name] for name in ("length", "height", "width", "channels")),
            *(None if np.isnan(clip["low"]) else float(clip[name]) for name in ("low", "high")),
            actions=None if number["actions"] == NONE else number["actions"],
            least=number["least"],
            most=number["most"],
            unfit=self.unfit(clip),
            pose=number["pose"],
            unit=Fraction(number["up"], number["down"]),
            times=times,
            keys=self._pooled(number["keys"], number["num_keys"]),
        )

    def found(self) -> dict[tuple[str, int, int], Found]:
        """What is known of every recording of this path and stamp."""
        known: dict[tuple[str, int, int], Found] = {}
        keys = [(self.path(i), int(size), int(mark)) for i, (size, mark) in enumerate(self.stamps)]
        for row, number in enumerate(self.clips["recording"].tolist()):
            clips = known.setdefault(keys[number], [])
            assert isinstance(clips, list)
            clips.append(self.facts(row))
        return known | {keys[i]: str(self.reasons[self.faults[i]]) for i in np.nonzero(self.faults != NONE)[0]}

    def _pooled(self, start: int, count: int) -> np.ndarray:
        return np.empty(0, np.int64) if start == NONE else self.pool[start : start + count]


def open_index(folder: Path) -> Index:
    """The index of all recordings below `folder`, up to date. Raises ValueError if the folder cannot be searched."""
    places = recording.search(folder)
    old = _load(folder)
    if old is not None and old.is_of(places):
        return old
    known = {} if old is None else old.found()
    found = {place.path: answer for place in places if (answer := known.get((place.path, *place.stamp))) is not None}
    missing = [place for place in places if place.path not in found]
    passing: dict[str, Found] = {}  # faults of the moment, that are not kept
    saved = time.monotonic()
    try:
        with (
            ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads,
            tqdm(total=len(missing), desc=f"indexing {folder}", unit="file", disable=None) as bar,
        ):
            for start in range(0, len(missing), BLOCK):
                block = missing[start : start + BLOCK]
                for place, answer in zip(block, threads.map(lambda place: _look(folder, place), block)):
                    keeping = passing if isinstance(answer, Unreadable) else found
                    keeping[place.path] = answer if isinstance(answer, list) else _reason(answer, folder / place.path)
                    bar.update()
                if time.monotonic() - saved > SAVE_EVERY:
                    _save(folder, Index.of(folder, places, found))
                    saved = time.monotonic()
    finally:
        _save(folder, Index.of(folder, places, found))
    return Index.of(folder, places, found | passing)


def _look(folder: Path, place: Place) -> list[Facts] | ValueError:
    try:
        return recording.facts(folder / place.path)
    except ValueError as error:
        return error


def _reason(error: ValueError, path: Path) -> str:
    """Without the path, as the folder may be moved together with its index."""
    return str(error).removeprefix(f"{path}: ")


def _row(number: int, clip: int, clips: int, facts: Facts, pool: array) -> tuple:
    steps = np.diff(facts.times)
    even = len(steps) > 0 and steps[0] > 0 and (steps == steps[0]).all()
    first, step = (int(facts.times[0]), int(steps[0])) if even else (0, 0)
    low, high = (np.nan if value is None else value for value in (facts.low, facts.high))
    actions = NONE if facts.actions is None else facts.actions
    size = facts.length, facts.height, facts.width, facts.channels
    unit = facts.unit.numerator, facts.unit.denominator
    times = NONE if even else _add(pool, facts.times)
    keys = _add(pool, facts.keys), len(facts.keys)
    known = (*size, low, high, actions, facts.least, facts.most, facts.pose, *unit)
    return (number, clip, clips, *known, first, step, times, *keys)


def _add(pool: array, values: np.ndarray) -> int:
    if not len(values):
        return NONE
    pool.frombytes(values.astype(np.int64).tobytes())
    return len(pool) - len(values)


def _homes(folder: Path) -> list[Path]:
    """Where the index may be: in the folder, or where the user's other caches are."""
    home = Path(os.environ.get("VIDEOPRED_HOME") or Path.home() / ".cache" / "videopred")
    return [folder / NAME, home / "indexes" / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]}.npz"]


def _load(folder: Path) -> Index | None:
    """The newest index that can be read; damaged ones, and those of another version, are none."""
    found = []
    for path in _homes(folder):
        with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            modified = path.stat().st_mtime
            with open(path, "rb") as content, np.load(content, allow_pickle=False) as file:
                if int(file["version"]) == VERSION:
                    found.append((modified, Index(folder, **{name: file[name] for name in Index.ARRAYS})))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _save(folder: Path, index: Index) -> None:
    arrays = {name: getattr(index, name) for name in Index.ARRAYS}
    for path in _homes(folder):
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with WholeFile(path) as file, open(file.temporary, "wb") as content:
                np.savez(content, version=np.array(VERSION), **arrays)
            return
    _tell_unsaved(folder)


@cache
def _tell_unsaved(folder: Path) -> None:
    """Once, however often it is tried."""
    print(f"videopred: {folder}: its index could not be saved, so that next time it is made again", file=sys.stderr)
