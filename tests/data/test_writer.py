"""Writers: what is decoded is what was written, files are whole or absent, and nothing depends on the length."""

import errno
import resource
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from videopred.clip import Format
from videopred.data.drawing import Layout
from videopred.data.video_writer import VideoWriter
from videopred.data.writer import SUFFIXES, require_writable, rollout_writer

COLOURS = [
    (0, 0, 0),
    (255, 255, 255),
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (128, 128, 128),
    (240, 160, 60),
    (60, 90, 210),
]


def bars(height=63, width=65) -> np.ndarray:
    """Vertical bars of every colour."""
    picture = np.zeros((height, width, 3), np.uint8)
    for i, colour in enumerate(COLOURS):
        picture[:, i * 8 : width if i == 7 else (i + 1) * 8] = colour
    return picture


def decode(path: Path) -> tuple[np.ndarray, Fraction, av.VideoCodecContext]:
    """Frames (t, h, w, 3), rate and codec of a video. The frames are counted by decoding them."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return np.stack(frames), stream.average_rate, stream.codec_context


def numbered(t: int, height=63, width=65) -> np.ndarray:
    """Bars above, below them the number t in binary, as ten black or white fields."""
    picture = bars(height, width)
    bits = [255 * (t >> i & 1) for i in range(10)]
    picture[40:] = np.array(bits, np.uint8).repeat(7)[:width, None]
    return picture


def number(picture: np.ndarray) -> int:
    return sum((picture[50, 7 * i + 2].mean() > 128) << i for i in range(10) if 7 * i + 2 < 65)


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_300_odd_frames_come_back_in_order_size_rate_and_colour(tmp_path, suffix):
    path = tmp_path / f"odd{suffix}"
    with VideoWriter(path, Fraction(2997, 100)) as video:
        for t in range(300):
            video.write(numbered(t))
    frames, rate, codec = decode(path)
    assert frames.shape == (300, 64, 66, 3)
    assert [number(frame) for frame in frames] == list(range(300))
    assert rate == Fraction(2997, 100)
    assert codec.pix_fmt == "yuv420p"
    assert (codec.color_range, codec.colorspace, codec.color_primaries, codec.color_trc) == (1, 1, 1, 1)
    for i, colour in enumerate(COLOURS):
        got = frames[::50, 5:35, i * 8 + 3 : i * 8 + 5].astype(
            int
        )  # away from the edges: colours are at half resolution
        off = np.abs(got - colour)
        assert off.max() <= 8 and off.mean() <= 2.5, f"{colour} came back as {got[0, 0, 0]}"  # another matrix: 20 to 40
    padded = frames[::50, :35, 65].astype(int)
    assert np.abs(padded - COLOURS[7]).max() <= 6, "padded by the edge"


def test_gray_levels_come_back_close_in_mp4(tmp_path):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(4, 0).repeat(4, 1)
    with VideoWriter(tmp_path / "gray.mp4", Fraction(10)) as video:
        video.write(ramp)
    frames, _, _ = decode(tmp_path / "gray.mp4")
    assert frames.shape == (1, 64, 64, 3)
    assert np.abs(frames[0].astype(int) - ramp).mean() < 2


def test_an_mp4_can_play_before_it_is_all_there(tmp_path):
    with VideoWriter(tmp_path / "a.mp4", Fraction(10)) as video:
        video.write(bars())
    content = (tmp_path / "a.mp4").read_bytes()
    assert 0 < content.find(b"moov") < content.find(b"mdat")


def test_gif_is_exact_where_colours_are_few_and_loops(tmp_path):
    path = tmp_path / "a.gif"
    with VideoWriter(path, Fraction(20)) as video:
        for t in range(12):
            video.write(numbered(t))
    with Image.open(path) as image:
        assert (image.n_frames, image.size, image.info["loop"], image.info["duration"]) == (12, (65, 63), 0, 50)
        for t in range(12):
            image.seek(t)
            assert np.array_equal(np.asarray(image.convert("RGB")), numbered(t))


def test_gif_of_many_colours_is_close(tmp_path):
    y, x = np.mgrid[:64, :64].astype(np.uint8)
    picture = np.stack([4 * x, 4 * y, 2 * x + 2 * y], -1)
    with VideoWriter(tmp_path / "a.gif", Fraction(20)) as video:
        video.write(picture)
    with Image.open(tmp_path / "a.gif") as image:
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - picture).mean() < 8


def layout(count=2, samples=1, context=3, horizon=6, channels=1) -> Layout:
    return Layout(Format(channels, 8, 12), tuple(f"test/{i}" for i in range(count)), context, horizon, samples)


def clips(shape: Layout, seed=0):
    """real (n, t, h, w, c), which ends 2 frames early, and fake (n, samples, t, h, w, c)."""
    rng = np.random.default_rng(seed)
    total, size = shape.context + shape.horizon, (shape.format.height, shape.format.width, shape.format.channels)
    real = rng.integers(0, 256, (len(shape.clips), total, *size), dtype=np.uint8)
    fake = rng.integers(0, 256, (len(shape.clips), shape.samples, total, *size), dtype=np.uint8)
    fake[:, :, : shape.context] = real[:, None, : shape.context]
    return real[:, :-2], fake


def write_all(path: Path, shape: Layout, actions=None) -> tuple[np.ndarray, np.ndarray]:
    real, fake = clips(shape)
    with rollout_writer(path, shape, Fraction(20), actions) as write:
        for t in range(shape.context + shape.horizon):
            write(real[:, t] if t < real.shape[1] else None, fake[:, :, t])
    return real, fake


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("count", "samples"), [(1, 1), (3, 1), (2, 3)])
def test_npz_holds_every_frame_in_tecos_layout(tmp_path, count, samples, channels):
    shape, path = layout(count, samples, channels=channels), tmp_path / "a.npz"
    actions = np.arange(count * 9).reshape(count, 9)
    real, fake = write_all(path, shape, actions)
    with np.load(path, allow_pickle=False) as got:
        assert got["fake"].dtype == got["real"].dtype == np.uint8
        assert np.array_equal(got["fake"], fake.reshape(-1, *fake.shape[2:]))
        assert np.array_equal(got["real"], real.repeat(samples, 0))
        assert np.array_equal(got["fake"][:, :3], got["real"][:, :3])
        assert (got["context"], got["real_frames"]) == (3, 7)
        assert np.array_equal(got["actions"], actions.repeat(samples, 0))
        assert got["clip_ids"].tolist() == [clip for clip in shape.clips for _ in range(samples)]
        assert got["sample"].tolist() == list(range(samples)) * count


def test_npz_without_actions_has_none(tmp_path):
    write_all(tmp_path / "a.npz", layout())
    with np.load(tmp_path / "a.npz", allow_pickle=False) as got:
        assert "actions" not in got.files


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_gives_a_file_that_opens_and_leaves_nothing_else(tmp_path, suffix):
    path = tmp_path / f"a{suffix.upper()}"
    write_all(path, layout())
    assert list(tmp_path.iterdir()) == [path]
    if suffix == ".npz":
        assert np.load(path)["fake"].shape == (2, 9, 8, 12, 1)
    elif suffix in (".png", ".gif"):
        with Image.open(path) as image:
            assert getattr(image, "n_frames", 1) == (9 if suffix == ".gif" else 1)
            assert np.asarray(image.convert("RGB")).std() > 10
    else:
        assert len(decode(path)[0]) == 9


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, suffix, kind):
    path, shape = tmp_path / f"a{suffix}", layout()
    path.write_bytes(b"the old file")
    real, fake = clips(shape)
    with pytest.raises(kind), rollout_writer(path, shape, Fraction(20)) as write:
        for t in range(4):
            write(real[:, t], fake[:, :, t])
        raise kind
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"the old file"


@contextmanager
def small_files():
    """No file may grow beyond 2 kB: what a full disk does, when we choose. Also pytest's own output."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("frames", [9, 150], ids=["at the end", "on the way"])
@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".gif", ".npz", ".png"])
def test_a_full_disk_is_an_oserror_that_names_the_file(tmp_path, suffix, frames):
    path, rng = tmp_path / f"a{suffix}", np.random.default_rng(0)
    path.write_bytes(b"the old file")
    shape = layout(context=3, horizon=frames - 3)
    real, fake = rng.integers(0, 256, (2, 2, 60, 8, 12, 1), dtype=np.uint8)
    with small_files(), pytest.raises(OSError) as caught, rollout_writer(path, shape, Fraction(20)) as write:
        for t in range(frames):
            write(real[:, t % 60], fake[:, t % 60, None])
    assert (caught.value.errno, str(caught.value.filename)) == (errno.EFBIG, str(path))
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"the old file"


def test_what_cannot_be_written_is_said_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.mp4").mkdir()
    for name, message in {
        "a.mpeg": r"a\.mpeg: cannot write \.mpeg; its name must end in one of \.mp4 \.webm \.gif \.png \.npz",
        "a": "a: has no suffix",
        "folder.mp4": "is a folder",
        "file/a.mp4": "cannot be written: ",
    }.items():
        with pytest.raises(ValueError, match=message):
            require_writable(tmp_path / name)
    require_writable(tmp_path / "made" / "on the way" / "a.mp4")
    assert list((tmp_path / "made" / "on the way").iterdir()) == []
    with pytest.raises(ValueError, match="cannot be written: "):
        require_writable(Path("/proc/a.mp4"))
