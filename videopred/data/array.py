"""Arrays in files, read piece by piece: what an array's header says, and frames as uint8. Nothing is ever unpickled."""

from pathlib import Path
from typing import IO

import numpy as np


def header(path: Path, file: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the .npy `name` that `file` stands at, and then at its first value. Raises ValueError."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, columns_first, dtype = read(file)
    except ValueError as error:
        raise ValueError(f"{path}: damaged: {name} has no array header: {error}") from error
    if dtype.hasobject:
        raise ValueError(f"{path}: {name} holds pickled objects; must be an array of numbers")
    if columns_first and len(shape) > 1:
        raise ValueError(f"{path}: {name} is in Fortran order; save np.ascontiguousarray of it")
    if dtype != np.uint8 and dtype.kind != "f":
        raise ValueError(f"{path}: dtype of {name} is {dtype}; must be uint8, or floating in 0..255")
    return shape, dtype


def uint8(path: Path, frames: np.ndarray, name: str) -> np.ndarray:
    """A copy of uint8 frames, or floating ones in 0..255 rounded. Raises ValueError for another range, or for 0..1."""
    if frames.dtype == np.uint8:
        return frames.copy()
    low, high = frames.min(), frames.max()
    if not (low >= 0 and high <= 255):  # NaN too
        raise ValueError(f"{path}: values of {name} lie in {low}..{high}; must be 0..255")
    if 0 < high <= 1:
        raise ValueError(f"{path}: values of {name} lie in {low}..{high}, as if white were 1; must be 0..255")
    return np.rint(frames).astype(np.uint8)
