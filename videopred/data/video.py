"""The clip of one video file (.mp4 .webm .mkv .avi .mov .gif and what else libav reads), by PyAV.

Frames are counted by decoding them, as headers lie. A gray model gets the luma of a coloured video.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.error import FFmpegError

from videopred.clip import Clip, Format

LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)  # BT.709


class VideoFile:
    """A dataset of one clip, at most `frames` frames long, without actions; its id is the file's name and "/0".

    Raises ValueError, where the clip is asked for, if the file is damaged, holds no frame or one of another size.
    """

    def __init__(self, path: Path, format: Format, frames: int):
        self.path, self.format, self.frames = path, format, frames
        with self._stream() as stream:
            self.fps: Fraction | None = stream.average_rate or stream.guessed_rate

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Clip:
        if index != 0:
            raise IndexError(f"clip {index}: {self.path} has clip 0 only")
        with self._stream() as stream:
            frames = [self._pixels(frame) for frame, _ in zip(stream.container.decode(stream), range(self.frames))]
        if not frames:
            raise ValueError(f"{self.path}: holds no frame that can be decoded")
        return Clip(frames=torch.from_numpy(np.stack(frames)), id=f"{self.path.name}/0")

    def _pixels(self, frame: av.VideoFrame) -> np.ndarray:
        if (frame.height, frame.width) != (self.format.height, self.format.width):
            raise ValueError(
                f"{self.path}: is {frame.height} x {frame.width}, the model takes {self.format.height} x "
                f"{self.format.width}; resize it, or choose another model"
            )
        rgb = frame.to_ndarray(format="rgb24")
        return rgb if self.format.channels == 3 else np.rint(rgb @ LUMA).astype(np.uint8)[..., None]

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        try:
            with av.open(str(self.path)) as container:
                if not container.streams.video:
                    raise ValueError(f"{self.path}: holds no video")
                yield container.streams.video[0]
        except FFmpegError as error:
            raise ValueError(f"{self.path}: not a video, or damaged: {error.strerror}") from error
