"""One file of frames that somebody has, as a dataset: what `--clip` takes."""

from pathlib import Path

from videopred.clip import Format
from videopred.data.npz import ArrayFile
from videopred.data.video import VideoFile


def clip_file(path: Path, format: Format, frames: int) -> ArrayFile | VideoFile:
    """The clips of a .npz, .npy or video file, each at most `frames` long. `fps` is the file's, or None.

    Raises ValueError that names the file if it is missing, empty, damaged or does not fit `format`.
    """
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give one file")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    if not path.stat().st_size:
        raise ValueError(f"{path}: is empty")
    return (ArrayFile if path.suffix.lower() in (".npz", ".npy") else VideoFile)(path, format, frames)
