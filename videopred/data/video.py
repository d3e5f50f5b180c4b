"""Recordings that are videos: .mp4 .webm .mkv .avi .mov .gif and what else libav reads, by PyAV.

Frames are counted by decoding them, as headers lie, and shown as a player shows them: turned as the file says, and over
black where they are transparent. Nothing is kept open from one reading to the next, so that no decoder is ever carried
into another process.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import VideoReformatter

from videopred.data.array import Unreadable
from videopred.data.facts import Facts
from videopred.data.fit import opaque

APART = 8  # frames between key frames that are remembered: more than any codec reorders
SUFFIXES = (
    *(
        ".mp4",
        ".m4v",
        ".mov",
        ".3gp",
        ".webm",
        ".mkv",
        ".ogv",
        ".avi",
        ".gif",
        ".mpg",
        ".mpeg",
        ".vob",
        ".m2ts",
        ".mts",
    ),
    *(".m2ts", ".mts", ".wmv", ".asf", ".flv", ".y4m"),
)

ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}  # decoders that give the alpha channel, which libav's own drop


def glance(path: Path) -> tuple[int, Fraction | None]:
    with _stream(path) as stream:
        return 1, stream.average_rate or stream.guessed_rate


def first(path: Path, clip: int, count: int) -> Iterator[np.ndarray]:
    picture, frame = _Picture(), None
    for frame in islice(_decoded(path), count):
        yield picture(frame)[None]
    if frame is None:
        raise ValueError(f"{path}: holds no frame that can be decoded")


def facts(path: Path) -> list[Facts]:
    times, keys, size, unit = [], [], None, Fraction(0)
    for number, frame in enumerate(_decoded(path)):
        times.append(frame.pts)
        if size is None:
            size, unit = _size(frame), frame.time_base or Fraction(0)
        if frame.key_frame and (not keys or number - keys[-1] >= APART):
            keys.append(number)
    if size is None:
        raise ValueError(f"{path}: holds no frame that can be decoded")
    if not unit or None in times or any(after <= before for before, after in pairwise(times)):
        times, keys = [], []  # some files do not say, or not truly
    timing = {"unit": unit, "times": np.array(times, np.int64), "keys": np.array(keys, np.int64)}
    return [Facts(number + 1, *size, 3, **timing)]


def frames(path: Path, clip: int, facts: Facts, steps: np.ndarray) -> Iterator[np.ndarray]:
    """Decodes from the last key frame before the first step, if the file can be entered there, or from the start."""
    picture, wanted = _Picture(), iter(steps.tolist())
    step: int | None = next(wanted)
    for number, frame in _from(path, facts, int(steps[0])):
        shown = picture(frame)[None] if number == step else None
        while number == step:
            yield shown  # type: ignore[misc]
            step = next(wanted, None)
        if step is None:
            return
    raise ValueError(f"{path}: has fewer frames than when it was indexed; it was changed, or is damaged")


def _from(path: Path, facts: Facts, start: int) -> Iterator[tuple[int, av.VideoFrame]]:
    """The frames from number `start` on or from one before it, with their numbers."""
    for key in facts.keys[(facts.keys <= start) & (facts.keys > 0)][::-1][:2].tolist():
        reading = _decoded(path, int(facts.times[key]))
        try:
            frame = next((frame for frame in reading if frame.pts is None or frame.pts >= facts.times[key]), None)
        except ValueError:  # it cannot be entered there
            continue
        if frame is not None and frame.pts == facts.times[key]:  # or it was entered too late, as some containers are
            yield from enumerate(chain([frame], reading), key)
            return
    yield from enumerate(_decoded(path))


def _decoded(path: Path, time: int | None = None) -> Iterator[av.VideoFrame]:
    """The frames, in the order in which they are shown; from a key frame near `time` on if it is given."""
    with _stream(path) as stream:
        if time is not None:
            stream.container.seek(time, stream=stream)
        alpha = any(key.lower() == "alpha_mode" and value == "1" for key, value in stream.metadata.items())
        if not alpha or stream.codec_context.name not in ALPHA:
            yield from stream.container.decode(stream)
            return
        decoder: Any = av.CodecContext.create(ALPHA[stream.codec_context.name], "r")
        for packet in stream.container.demux(stream):
            for frame in decoder.decode(packet if packet.size else None):
                frame.time_base = stream.time_base
                yield frame


@contextmanager
def _stream(path: Path) -> Iterator[Any]:
    try:
        # absolute, as libav takes "12:" at the start of a name for a protocol; metadata are often Latin-1
        with av.open(str(path.absolute()), metadata_errors="replace") as container:
            if not container.streams.video:
                raise ValueError(f"{path}: holds no video")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise ValueError(f"{path}: is coded in a way that PyAV does not know, or damaged")
            stream.codec_context.thread_count = 1  # clips are small, and each process reads one of its own
            yield stream
    except FFmpegError as error:
        if isinstance(error, OSError | MemoryError):  # of the machine; libav's own words for damage are none of these
            raise Unreadable(f"{path}: cannot be read: {error.strerror}") from error
        raise ValueError(f"{path}: not a video, or damaged: {error.strerror}") from error


class _Picture:
    """Turns frames into uint8 (h, w, 3)."""

    def __init__(self):
        self.convert = VideoReformatter().reformat  # kept, as it is slow to make

    def __call__(self, frame: av.VideoFrame) -> np.ndarray:
        alpha = any(component.is_alpha for component in frame.format.components) or frame.format.name == "pal8"
        # by one thread: for small frames it takes longer to start others, in every call, than to convert
        picture = self.convert(frame, format="rgba" if alpha else "rgb24", threads=1).to_ndarray()
        picture = opaque(picture) if alpha else picture
        return np.ascontiguousarray(np.rot90(picture, _quarters(frame)))


def _quarters(frame: av.VideoFrame) -> int:
    """Turns to the left by 90 degrees."""
    return round(frame.rotation / 90) % 4


def _size(frame: av.VideoFrame) -> tuple[int, int]:
    return (frame.width, frame.height) if _quarters(frame) % 2 else (frame.height, frame.width)
