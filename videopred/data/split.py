"""What a reader is asked for: a split, a number of frames, an index; and the refusals all readers share."""

from pathlib import Path
from typing import Literal

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")


class NoClips(ValueError):
    """A recipe that has no clips for a split, while nothing is wrong with it."""


def require_request(split: str, frames: int) -> None:
    """Raises ValueError unless `build(split, frames)` makes sense."""
    if split not in SPLITS:
        raise ValueError(f"split = {split!r}: must be 'train' or 'test'")
    if frames < 1:
        raise ValueError(f"frames = {frames}: a clip has at least 1 frame")


def require_index(split: str, index: int, length: int) -> None:
    """Raises IndexError outside 0..length-1, so that a dataset can also be iterated over."""
    if not 0 <= index < length:
        raise IndexError(f"clip {index}: {split} has clips 0..{length - 1}")


def require_frames(path: Path, have: int, frames: int) -> None:
    """Raises ValueError if the clips of a file are shorter than `frames`."""
    if have < frames:
        raise ValueError(f"{path}: has clips of {have} frames; {frames} are asked for")
