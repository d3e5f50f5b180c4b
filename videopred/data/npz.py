"""Recordings in files of arrays: .npz, also one that a rollout or TECO's code wrote, or .npy.

Frames are uint8 or floating: (t, h, w, c), or (n, t, h, w, c) for n clips, or (t, h, w) for a gray one. In an .npz they
stand under `video`, `frames`, `real` or `data`; `actions` are integers (t,) or (n, t), `pose` is (t, d) or (n, t, d).
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from videopred.data.array import PIECE, Unfit, Values, arrays
from videopred.data.facts import Facts, changed
from videopred.data.tracks import tracks


def facts(path: Path) -> list[Facts]:
    """Of every clip. Reads the file once, whole, so that damage is found now. Raises ValueError."""
    with arrays(path) as file:
        values = file.frames()
        count, length, height, width, channels = clips_shape(path, values)
        if not values.whole:
            raise ValueError(f"{path}: damaged: it ends before its frames do")
        file.check()
        low, high = _range(path, values) if values.dtype.kind == "f" else (None, None)
        whole = tracks(file)
    return [
        Facts(length, height, width, channels, low, high, **whole.of(clip, count).facts(path, length))
        for clip in range(count)
    ]


def frames(path: Path, clip: int, facts: Facts, steps: np.ndarray) -> Iterator[np.ndarray]:
    first, last = int(steps[0]), int(steps[-1])
    with arrays(path) as file:
        values = file.frames()
        if clips_shape(path, values)[1:] != (facts.length, facts.height, facts.width, facts.channels):
            raise changed(path)
        block = span(path, values, clip, first, last + 1)
    yield block if len(block) == len(steps) else block[steps - first]


def glance(path: Path) -> tuple[int, None]:
    with arrays(path) as file:
        return clips_shape(path, file.frames())[0], None


def first(path: Path, clip: int, count: int) -> Iterator[np.ndarray]:
    with arrays(path) as file:
        values = file.frames()
        yield span(path, values, clip, 0, min(count, clips_shape(path, values)[1]))


def span(path: Path, values: Values, clip: int, start: int, stop: int) -> np.ndarray:
    """Frames start..stop-1 of a clip, (n, h, w, c) as stored. Raises ValueError if the file ends before."""
    _, length, *frame = clips_shape(path, values)
    found = values.read((clip * length + start) * math.prod(frame), (stop - start, *frame))
    if found is None:
        raise ValueError(f"{path}: damaged: it ends within clip {clip}")
    return found


def clips_shape(path: Path, values: Values) -> tuple[int, int, int, int, int]:
    """(n, t, h, w, c) of the frames of a file. Raises ValueError."""
    shape = values.shape
    whole = (*shape, 1) if len(shape) == 3 else shape
    whole = (1, *whole) if len(whole) == 4 else whole
    if len(whole) != 5 or whole[4] not in (1, 3, 4):
        raise ValueError(
            f"{path}: {values.name} have shape {shape}; must be (t, h, w, c) with c = 1, 3 or 4, (n, t, h, w, c) or "
            f"(t, h, w){_hint(shape)}"
        )
    if min(whole) < 1:
        raise ValueError(f"{path}: {values.name} have shape {shape}; it holds none")
    return whole  # type: ignore[return-value]


def _hint(shape: tuple[int, ...]) -> str:
    """What an array that does not fit most likely is, and what to do then."""
    axes = {4: (-3,), 5: (-3, -4)}.get(len(shape), ())
    for axis in (axis for axis in axes if shape[axis] in (1, 3, 4)):
        return f". Channels first? Then move that axis to the end: np.moveaxis(x, {axis}, -1)"
    return ". Gray clips (n, t, h, w)? Then add a last axis of 1: x[..., None]" if len(shape) == 4 else ""


def _range(path: Path, values: Values) -> tuple[float, float]:
    """Least and greatest of floating values, piece by piece."""
    total, piece = math.prod(values.shape), PIECE // values.dtype.itemsize
    low, high = math.inf, -math.inf
    for place in range(0, total, piece):
        part = values.read(place, (min(piece, total - place),))
        if part is None:
            raise ValueError(f"{path}: damaged: it ends before its frames do")
        low, high = np.minimum(low, part.min()), np.maximum(high, part.max())  # NaN stays
    if not math.isfinite(low + high):
        raise ValueError(f"{path}: some values of {values.name} are not finite")
    return float(low), float(high)


def read_actions(path: Path) -> np.ndarray | None:
    """`actions` of an .npz as int64, or None where it has none. Raises ValueError if they are not integers."""
    with arrays(path) as file:
        try:
            return file.actions()
        except Unfit as error:
            raise ValueError(f"{path}: {error}") from error
