"""Frames to a video file that everybody's player takes: .mp4 (H.264), .webm (VP9) or .gif, by PyAV.

H.264 and VP9 are written as yuv420p, whose sides are even: an odd frame is padded by its last row or column, never
resized. Frames become limited-range BT.709, and the file says so; a player that has to guess takes another matrix for
small videos, and shows other colours.
"""

import contextlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from PIL import Image

from videopred.data.whole_file import WholeFile

FORMATS = {  # suffix: container, encoder, its pixels and options
    ".mp4": ("mp4", "libx264", "yuv420p", {"crf": "16", "preset": "veryfast"}),
    ".webm": ("webm", "libvpx-vp9", "yuv420p", {"crf": "16", "b": "0", "deadline": "realtime", "cpu-used": "6"}),
    ".gif": ("gif", "gif", "pal8", {}),
}
BT709 = 1  # the number of the matrix, the primaries and the transfer curve alike


class VideoWriter(WholeFile):
    """`write` takes frames of one size, in order; in constant memory. `fps` frames make a second."""

    def __init__(self, path: Path, fps: Fraction):
        super().__init__(path)
        self.fps, self.frames = fps, 0
        self.container, self.encoder, self.pixels, self.options = FORMATS[path.suffix.lower()]
        self.convert = VideoReformatter().reformat  # kept, as it is slow to make
        self.output: Any = None  # opened when the size is known

    def write(self, frame: np.ndarray) -> None:
        """The next frame, uint8 (h, w, 1) or (h, w, 3). Raises OSError, with ENOSPC if the disk is full."""
        frame = np.ascontiguousarray(np.broadcast_to(frame, (*frame.shape[:2], 3)))
        picture = _indexed(frame) if self.pixels == "pal8" else self._yuv(frame)
        self.output = self.output or self._open(picture.width, picture.height)
        picture.pts, picture.time_base = self.frames, 1 / self.fps
        self.output.mux(self.stream.encode(picture))
        self.frames += 1

    def finish(self) -> None:
        if self.output is None:
            raise ValueError(f"{self.path}: no frame was written")
        self.output.mux(self.stream.encode())
        self.output.close()

    def release(self) -> None:
        if self.output is not None:
            with contextlib.suppress(FFmpegError):  # closing writes, and the disk may be full
                self.output.close()

    def _open(self, width: int, height: int) -> Any:
        # faststart: the index comes first, so that a browser can play before it has everything
        options = {"movflags": "faststart"} if self.container == "mp4" else {}
        # absolute, as libav takes "12:" at the start of a name for a protocol
        output = av.open(str(self.temporary.absolute()), "w", format=self.container, options=options)
        self.stream: Any = output.add_stream(self.encoder, rate=self.fps, options=self.options)
        self.stream.width, self.stream.height, self.stream.pix_fmt = width, height, self.pixels
        context = self.stream.codec_context
        context.time_base = 1 / self.fps
        if self.pixels == "yuv420p":
            context.color_range, context.colorspace = ColorRange.MPEG, Colorspace.ITU709
            context.color_primaries = context.color_trc = BT709
        return output

    def _yuv(self, frame: np.ndarray) -> av.VideoFrame:
        padded = np.pad(frame, ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)), mode="edge")
        picture = av.VideoFrame.from_ndarray(padded, format="rgb24")
        return self.convert(
            picture, format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG, threads=1
        )


def _indexed(frame: np.ndarray) -> av.VideoFrame:
    """With a palette of its own, exact where the frame has at most 256 colours."""
    image = Image.fromarray(frame).quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    colours = np.array(image.getpalette(), np.uint8).reshape(-1, 3)
    palette = np.zeros((256, 4), np.uint8)  # alpha, red, green, blue
    palette[:, 0], palette[: len(colours), 1:] = 255, colours
    return av.VideoFrame.from_ndarray((np.asarray(image), palette), format="pal8")  # type: ignore[arg-type]
