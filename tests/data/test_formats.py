"""Every kind of recording keeps the same promises, from whichever frame it is entered."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from PIL import Image

from videopred.clip import Format
from videopred.data import ClipsConfig, loader
from videopred.data.clip_file import ClipFile

FRAMES, SIZE = 45, (24, 32)
ACTIONS = np.random.default_rng(3).integers(0, 3, FRAMES)


def scene(frames: int = FRAMES, height: int = SIZE[0], width: int = SIZE[1]) -> np.ndarray:
    """Every frame is another, and no two neighbours are near: coloured bars that jump."""
    video = np.zeros((frames, height, width, 3), np.uint8)
    for t in range(frames):
        video[t, :, : width // 2] = (37 * t % 256, 90, 255 - 41 * t % 256)
        video[t, (5 * t) % (height - 4) :][:4] = (230, 20 + 5 * t % 200, 60)
    return video


def encode(path: Path, video: np.ndarray, codec: str, pixels: str, times=None, metadata=None, **options) -> Path:
    """`times` are in units of 1/1000 second; 25 frames per second if there are none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25, options={k: str(v) for k, v in options.items()})
        stream.height, stream.width, stream.pix_fmt = *video.shape[1:3], pixels
        if times is not None:
            stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        stream.metadata.update(metadata or {})
        for t, picture in enumerate(video):
            frame = av.VideoFrame.from_ndarray(picture, format="rgba" if picture.shape[2] == 4 else "rgb24")
            frame.pts, frame.time_base = (t, Fraction(1, 25)) if times is None else (times[t], Fraction(1, 1000))
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def npz(save):
    return lambda path, video: save(path.with_suffix(".npz"), video=video, actions=ACTIONS)


def encoded(suffix, codec, pixels="yuv420p", **options):
    def make(path, video):
        encode(path.with_suffix(suffix), video, codec, pixels, **options)
        np.savez(path.with_suffix(".npz"), actions=ACTIONS)

    return make


def pictures(suffix):
    def make(path, video):
        path.mkdir()
        for t, frame in enumerate(video):
            Image.fromarray(frame).save(path / f"frame{t}{suffix}", quality=95)  # frame10 comes after frame9
        np.savez(path.with_suffix(".npz"), actions=ACTIONS)

    return make


FORMATS = {
    "npz": npz(np.savez),
    "npz compressed": npz(np.savez_compressed),
    "mp4 with B-frames": encoded(".mp4", "libx264", g=12, bf=3, sc_threshold=0),
    "mp4 open groups": encoded(".mp4", "libx264", g=10, bf=2, sc_threshold=0, **{"x264-params": "open-gop=1"}),
    "mp4 every frame a key": encoded(".mp4", "libx264", g=1),
    "mp4 as OpenCV writes it": encoded(".mp4", "mpeg4", g=12),
    "mkv hevc": encoded(".mkv", "libx265", **{"x265-params": "keyint=10:min-keyint=10:bframes=3:log-level=none"}),
    "mkv lossless": encoded(".mkv", "ffv1", "bgr0"),
    "webm": encoded(".webm", "libvpx-vp9", g=10, deadline="realtime", **{"cpu-used": 8}),
    "avi with B-frames": encoded(".avi", "mpeg4", g=10, bf=2),
    "mov": encoded(".mov", "mjpeg", "yuvj420p"),
    "mpg": encoded(".mpg", "mpeg2video", g=10, bf=2),
    "gif": encoded(".gif", "gif", "rgb8"),
    "png": pictures(".png"),
    "jpg": pictures(".jpg"),
}
LOSSLESS = ("npz", "npz compressed", "mkv lossless", "png")


@pytest.fixture(params=FORMATS)
def written(request, tmp_path):
    """The name of a format, and a recipe for a folder with train clips a and b and test clip c of it."""
    for split, name, seed in (("train", "a", 0), ("train", "b", 7), ("test", "c", 3)):
        (tmp_path / split).mkdir(exist_ok=True)
        FORMATS[request.param](tmp_path / split / name, np.roll(scene(), seed, 0))
    actions = ("forward", "left", "right")
    return request.param, ClipsConfig(root=str(tmp_path), image_size=SIZE, actions=actions)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_recording_keeps_its_promises(written, tmp_path):
    name, config = written
    whole = config.build("train", FRAMES)[0]
    assert whole.frames.dtype == torch.uint8 and whole.frames.shape == (FRAMES, *SIZE, 3)
    error = np.abs(whole.frames.numpy().astype(int) - scene()).mean((1, 2, 3))  # of each frame
    assert error.max() == 0 if name in LOSSLESS else error.max() < 30
    assert np.array_equal(whole.actions, ACTIONS)

    dataset = config.build("train", 5)
    assert len(dataset) == 2 and len(config.build("test", 5)) == 1
    assert dataset.max_frames == FRAMES
    for start in range(FRAMES - 4):  # wherever a file is entered, it gives what decoding from the start gives
        clip = dataset.cut(0, start)
        assert torch.equal(clip.frames, whole.frames[start : start + 5]), start
        assert torch.equal(clip.actions, whole.actions[start : start + 5]) and clip.start == start
    assert clip.frames.untyped_storage().nbytes() == 5 * SIZE[0] * SIZE[1] * 3  # not a view of something larger
    clip.frames.zero_()
    assert torch.equal(dataset[0].frames, whole.frames[:5])

    streams = [loader.batches(dataset, 2, seed=1, workers=workers) for workers in (0, 2)]
    for _ in range(2):
        one, other = map(next, streams)
        assert one.id == other.id and one.start == other.start and torch.equal(one.frames, other.frames)

    [path] = [path for path in (tmp_path / "train").glob("a*") if path.suffix != ".npz" or name.startswith("npz")]
    alone = ClipFile(path, Format(3, *SIZE, 3), 7)[0]
    assert torch.equal(alone.frames, whole.frames[:7]) and torch.equal(alone.actions, whole.actions[:7])
