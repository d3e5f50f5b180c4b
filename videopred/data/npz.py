"""The clips of one file of arrays: .npz, also one that a rollout or TECO's code wrote, or .npy.

Frames are uint8, or floating in 0..255: (t, h, w, c), or (n, t, h, w, c) for n clips, or (t, h, w) for a gray one. In
an .npz they stand under `video`, `frames`, `real` or `data`, and `actions` are integers (t,) or (n, t). Only the clip
that is asked for is read; nothing is ever unpickled.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import torch

from videopred.clip import Clip, Format
from videopred.data import array

KEYS = ("video", "frames", "real", "data")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError)


class ArrayFile:
    """A dataset of the clips of one file, each at most `frames` frames long; ids are the file's name and "/0", "/1".

    Raises ValueError if the file is damaged or its frames do not fit the format.
    """

    fps = None  # an array does not say

    def __init__(self, path: Path, format: Format, frames: int):
        self.path, self.format, self.frames = path, format, frames
        with self._array(KEYS) as (_, shape, _):
            self.count = shape[0]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Clip:
        if not 0 <= index < self.count:
            raise IndexError(f"clip {index}: {self.path} has clips 0..{self.count - 1}")
        with self._array(KEYS) as (file, shape, dtype):
            wanted = min(self.frames, shape[1]), *shape[2:]
            file.seek(index * math.prod(shape[1:]) * dtype.itemsize, 1)
            content = file.read(math.prod(wanted) * dtype.itemsize)
        if len(content) < math.prod(wanted) * dtype.itemsize:
            raise ValueError(f"{self.path}: damaged: it ends within clip {index}")
        frames = torch.from_numpy(array.uint8(self.path, np.frombuffer(content, dtype).reshape(wanted), "frames"))
        return Clip(frames=frames, actions=self._actions(index, len(frames)), id=f"{self.path.name}/{index}")

    def _actions(self, index: int, frames: int) -> torch.Tensor | None:
        if self.path.suffix.lower() != ".npz":
            return None
        actions = read_actions(self.path)
        if actions is None:
            return None
        actions = actions[index] if actions.ndim == 2 and len(actions) == self.count else actions
        if actions.ndim != 1 or len(actions) < frames:
            raise ValueError(f"{self.path}: actions have shape {actions.shape}; the clip has {frames} frames")
        return torch.from_numpy(actions[:frames])

    @contextmanager
    def _array(self, keys: tuple[str, ...]) -> Iterator[tuple[IO[bytes], tuple[int, ...], np.dtype]]:
        """The file, standing at the first value of the frames, with their shape (n, t, h, w, c) and dtype."""
        with ExitStack() as stack:
            try:
                if self.path.suffix.lower() == ".npy":
                    file = stack.enter_context(open(self.path, "rb"))
                else:
                    archive = stack.enter_context(zipfile.ZipFile(self.path))
                    names = [name.removesuffix(".npy") for name in archive.namelist()]
                    key = next((key for key in keys if key in names), None)
                    if key is None:
                        raise ValueError(f"{self.path}: has none of the keys {', '.join(keys)}; has {', '.join(names)}")
                    file = stack.enter_context(archive.open(f"{key}.npy"))
                yield file, *self._header(file)
            except DAMAGE as error:
                raise ValueError(f"{self.path}: damaged, or not what its name says: {error}") from error

    def _header(self, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
        shape, dtype = array.header(self.path, file, "frames")
        whole = (*shape, 1) if len(shape) == 3 else shape
        whole = (1, *whole) if len(whole) == 4 else whole
        wanted = (self.format.height, self.format.width, self.format.channels)
        if len(whole) != 5 or whole[2:] != wanted:
            raise ValueError(
                f"{self.path}: frames have shape {shape}; the model takes ({', '.join(map(str, ('t', *wanted)))}), or "
                "several such clips with an axis in front"
            )
        if not math.prod(whole):
            raise ValueError(f"{self.path}: frames have shape {shape}; it holds none")
        return whole, dtype


def read_actions(path: Path) -> np.ndarray | None:
    """`actions` of an .npz as int64, or None where it has none. Raises ValueError if they are not integers."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            actions = archive["actions"] if "actions" in archive.files else None
    except (*DAMAGE, ValueError) as error:
        raise ValueError(f"{path}: its actions cannot be read: {error}") from error
    if actions is None or actions.dtype.kind in "iu":
        return None if actions is None else actions.astype(np.int64)
    raise ValueError(f"{path}: actions are {actions.dtype}; must be integers")
