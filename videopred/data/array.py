"""Arrays in .npz and .npy files, read piece by piece from their place. Nothing is ever unpickled.

An uncompressed array is read where it lies, only the bytes that are asked for; a compressed one is unpacked only as far
as needed. What is returned is memory of its own, never a window into a file.
"""

import errno
import lzma
import math
import struct
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

KEYS = ("video", "frames", "real", "data")  # under which an .npz may hold frames, the first that there is
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    NotImplementedError,  # an unknown kind of compression
    tokenize.TokenError,  # numpy's word for some headers
)
ENCRYPTED = 1  # a flag of a member of a zip file
PARSING = threading.Lock()  # numpy reads headers by Python's parser, which threads disturb (SystemError, 3.11)
PIECE = 1 << 22  # bytes that are held while a whole file is looked through


class Unreadable(ValueError):
    """The machine did not give the file; nothing is known to be wrong with what it holds."""


class Unfit(ValueError):
    """Actions that cannot be used; the frames beside them can. The message does not name the file."""


class Arrays:
    """The arrays of an open file, as `arrays` gives it; that of an .npy has no name and answers to every key."""

    def __init__(self, path: Path, stack: ExitStack):
        self.path, self.stack = path, stack
        self.archive = None if path.suffix.lower() == ".npy" else stack.enter_context(zipfile.ZipFile(path))
        members = [] if self.archive is None else self.archive.infolist()
        if any(member.flag_bits & ENCRYPTED for member in members):
            raise ValueError(f"{path}: is encrypted; save it without a password")
        self.names = [m.filename.removesuffix(".npy") for m in members if m.filename.endswith(".npy")]

    def frames(self, keys: tuple[str, ...] = KEYS) -> "Values":
        """The first of `keys` that there is, uint8 or floating. Raises ValueError if there is none."""
        word = keys[0] if len(keys) == 1 else "frames"
        if self.archive is None:
            return Values(self.path, word, self._file(), self.path.stat().st_size)
        key = next((key for key in keys if key in self.names), None)
        if key is None:
            wanted = f"no key {keys[0]!r}" if len(keys) == 1 else f"none of the keys {', '.join(keys)}"
            raise ValueError(f"{self.path}: has {wanted}; its keys are: {', '.join(self.names)}")
        member = self.archive.getinfo(f"{key}.npy")
        if member.compress_type == zipfile.ZIP_STORED:
            file = self._file()
            file.seek(member.header_offset + 26)
            name, extra = np.frombuffer(file.read(4), "<u2").tolist()  # lengths of what stands before the array
            file.seek(name + extra, 1)
        else:
            file = self.stack.enter_context(self.archive.open(member))
        return Values(self.path, word, file, member.file_size)

    def _file(self) -> IO[bytes]:
        return self.stack.enter_context(open(self.path, "rb"))

    def check(self) -> None:
        """Reads everything in an .npz once. Raises ValueError, BadZipFile or zlib's error if it is damaged."""
        damaged = self.archive and self.archive.testzip()
        if damaged:
            raise ValueError(f"{self.path}: damaged: {damaged} is not what was written")

    def small(self, name: str) -> np.ndarray | None:
        """The whole array `name`, or None if there is none. Raises ValueError."""
        if self.archive is None or name not in self.names:
            return None
        try:
            with self.archive.open(f"{name}.npy") as file:
                shape, columns_first, dtype = _header(self.path, file, name)
                if dtype.hasobject:
                    raise ValueError("it holds pickled objects")
                size = math.prod(shape) * dtype.itemsize
                if size > self.archive.getinfo(f"{name}.npy").file_size or len(content := file.read(size)) < size:
                    raise EOFError(f"it ends before its shape {shape} does")
                return np.ndarray(shape, dtype, content, order="F" if columns_first else "C").copy()
        except (*DAMAGE, ValueError) as error:
            raise ValueError(f"{self.path}: its {name} cannot be read: {error}") from error

    def actions(self) -> np.ndarray | None:
        """`actions` as int64, or None. Raises Unfit if they are not integers."""
        actions = self.small("actions")
        if actions is None:
            return None
        if actions.dtype.kind not in "iu":
            raise Unfit(f"actions are {actions.dtype}; must be integers")
        if actions.dtype == np.uint64 and actions.max(initial=0) > np.iinfo(np.int64).max:
            raise Unfit(f"its actions go up to {actions.max()}; must be below 2 ** 63")
        return actions.astype(np.int64)

    def pose(self) -> np.ndarray | None:
        """`pose` as float32, or None. Raises ValueError if it is not finite numbers."""
        pose = self.small("pose")
        if pose is None:
            return None
        with np.errstate(over="ignore"):  # what is too large becomes infinite
            if pose.dtype.kind in "iuf" and np.isfinite(short := pose.astype(np.float32)).all():
                return short
        raise ValueError(f"{self.path}: pose is {pose.dtype}; must be finite numbers, as float32 too")


class Values:
    """One array of frames: `shape`, `dtype`, and any run of its values."""

    def __init__(self, path: Path, name: str, file: IO[bytes], size: int):
        """`file` stands at the first of the `size` bytes of an .npy. Raises ValueError if they are none."""
        self.path, self.name, self.file = path, name, file
        self.stop = file.tell() + size
        self.shape, self.dtype = header(path, file, name)
        self.start = file.tell()

    @property
    def whole(self) -> bool:
        """Whether the file is long enough for its shape."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize <= self.stop

    def read(self, place: int, shape: tuple[int, ...]) -> np.ndarray | None:
        """An array of `shape` from value number `place` on, or None if the file ends before."""
        first = self.start + place * self.dtype.itemsize
        if first + math.prod(shape) * self.dtype.itemsize > self.stop:
            return None
        values = np.empty(shape, self.dtype)
        left = memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        self.file.seek(first)
        while left and (count := self.file.readinto(left)):  # type: ignore[attr-defined]
            left = left[count:]
        return None if left else values


@contextmanager
def arrays(path: Path) -> Iterator[Arrays]:
    """Opens an .npz or .npy. Raises ValueError that names it if it cannot be opened, or turns out to be damaged."""
    try:
        with ExitStack() as stack:
            yield Arrays(path, stack)
    except DAMAGE as error:
        raise ValueError(f"{path}: damaged, or not an {path.suffix.lower()} file: {error}") from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # bz2's word for damage; a place before the file's start
            raise ValueError(f"{path}: damaged: {error}") from error
        raise Unreadable(f"{path}: cannot be read: {error.strerror}") from error


def header(path: Path, file: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the .npy `name` that `file` stands at, and then at its first value. Raises ValueError."""
    shape, columns_first, dtype = _header(path, file, name)
    if dtype.hasobject:
        raise ValueError(f"{path}: {name} holds pickled objects; must be an array of numbers")
    if columns_first and len(shape) > 1:
        raise ValueError(f"{path}: {name} is in Fortran order; save np.ascontiguousarray of it")
    if dtype != np.uint8 and dtype.kind != "f":
        raise ValueError(f"{path}: dtype of {name} is {dtype}; must be uint8, or floating in 0..255")
    return shape, dtype


def _header(path: Path, file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and dtype. Raises ValueError."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with PARSING:
            shape, columns_first, dtype = read(file)
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(f"{path}: damaged: {name} has no array header: {error}") from error
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"{path}: damaged: {name} have shape {shape}")
    return shape, columns_first, dtype


def uint8(path: Path, frames: np.ndarray, name: str) -> np.ndarray:
    """Frames as uint8: floating ones must lie in 0..255 and are rounded. Raises ValueError, also for 0..1."""
    if frames.dtype == np.uint8:
        return frames
    low, high = frames.min(), frames.max()
    if not (low >= 0 and high <= 255):  # NaN too
        raise ValueError(f"{path}: values of {name} lie in {low}..{high}; must be 0..255")
    if 0 < high <= 1:
        raise ValueError(f"{path}: values of {name} lie in {low}..{high}, as if white were 1; must be 0..255")
    return np.rint(frames).astype(np.uint8)
