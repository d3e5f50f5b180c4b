"""Recordings that are videos: .mp4 .webm .mkv .avi .mov .gif and what else libav reads, by PyAV.

Frames are counted by decoding them, as headers lie.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.error import FFmpegError


def glance(path: Path) -> tuple[int, Fraction | None]:
    with _stream(path) as stream:
        return 1, stream.average_rate or stream.guessed_rate


def first(path: Path, clip: int, count: int) -> Iterator[np.ndarray]:
    with _stream(path) as stream:
        frame = None
        for frame in islice(stream.container.decode(stream), count):
            yield frame.to_ndarray(format="rgb24")[None]
    if frame is None:
        raise ValueError(f"{path}: holds no frame that can be decoded")


@contextmanager
def _stream(path: Path) -> Iterator[Any]:
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise ValueError(f"{path}: holds no video")
            yield container.streams.video[0]
    except FFmpegError as error:
        raise ValueError(f"{path}: not a video, or damaged: {error.strerror}") from error
