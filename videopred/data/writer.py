"""Writers: a rollout goes to its file frame by frame, in constant memory, and the file appears whole or not at all.

    with rollout_writer(path, layout, fps, actions) as write:
        write(real, fake)       # uint8 (n, h, w, c), or None after the truth's end; and (n, samples, h, w, c)

The suffix decides what is written: .mp4 .webm .gif (`Board`), .png (`Strip`), or .npz (the frames themselves).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from videopred.data import whole_file
from videopred.data.behind import behind
from videopred.data.board import Board
from videopred.data.drawing import Layout
from videopred.data.npz_writer import NpzWriter
from videopred.data.strip import Strip
from videopred.data.video_writer import VideoWriter
from videopred.data.whole_file import WholeFile

VIDEOS = (".mp4", ".webm", ".gif")
SUFFIXES = (*VIDEOS, ".png", ".npz")


def require_writable(path: Path) -> None:
    """Raises ValueError unless a rollout can be written to `path`: to be asked before the work. Makes its folder."""
    if path.suffix.lower() not in SUFFIXES:
        has = f"cannot write {path.suffix}" if path.suffix else "has no suffix"
        raise ValueError(f"{path}: {has}; its name must end in one of {' '.join(SUFFIXES)}")
    whole_file.require_writable(path)


@contextmanager
def rollout_writer(
    path: Path, layout: Layout, fps: Fraction, actions: np.ndarray | None = None
) -> Iterator[Callable[[np.ndarray | None, np.ndarray], None]]:
    """The function `write(real, fake)` for a file of this suffix; `actions` int64 (n, t) go into an .npz.

    To be called for every frame, those of the context included, whose `fake` is what the model is shown. It draws and
    encodes in another thread, so arrays must stay as they are, and an error may come a few frames late. Raises
    ValueError if the picture would be too large, OSError (ENOSPC) if the disk is full.
    """
    if path.suffix.lower() == ".npz":
        with NpzWriter(path, layout, actions) as npz, behind(npz.write) as write:
            yield write
    elif path.suffix.lower() == ".png":
        strip = Strip(layout)
        with PictureWriter(path) as picture:
            with behind(strip.add) as write:
                yield write
            picture.write(strip.picture)
    else:
        board = Board(layout)
        with VideoWriter(path, fps) as video, behind(lambda real, fake: video.write(board.draw(real, fake))) as write:
            yield write


class PictureWriter(WholeFile):
    """A PNG of one picture, uint8 (h, w, 3)."""

    def write(self, picture: np.ndarray) -> None:
        Image.fromarray(picture).save(self.temporary, format="png", optimize=True)
