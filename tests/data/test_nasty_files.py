"""Files that mislead readers: turned, transparent, 10-bit, uneven in time, odd in size, cut short, no pictures."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from videopred.data import ClipsConfig, recording
from videopred.data.video_writer import VideoWriter


def bars(frames: int = 6, height: int = 24, width: int = 40) -> np.ndarray:
    """Left above red, right above green, below blue; it brightens with time."""
    video = np.zeros((frames, height, width, 3), np.uint8)
    for t in range(frames):
        video[t, : height // 2, : width // 2, 0] = 100 + 20 * t
        video[t, : height // 2, width // 2 :, 1] = 100 + 20 * t
        video[t, height // 2 :, :, 2] = 100 + 20 * t
    return video


def encode(path: Path, video: np.ndarray, codec: str, pixels: str, times=None, metadata=None, **options) -> Path:
    """`times` are in milliseconds; 25 frames per second if there are none."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25, options={k: str(v) for k, v in options.items()})
        stream.height, stream.width, stream.pix_fmt = *video.shape[1:3], pixels
        stream.codec_context.time_base = Fraction(1, 1000)
        stream.metadata.update(metadata or {})
        for t, picture in enumerate(video):
            frame = av.VideoFrame.from_ndarray(picture, format="rgba" if picture.shape[2] == 4 else "rgb24")
            frame.pts, frame.time_base = 40 * t if times is None else times[t], Fraction(1, 1000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def recipe(folder: Path, size, **keys) -> ClipsConfig:
    return ClipsConfig(root=str(folder), image_size=size, test_share=0.0, **keys)


def read(folder: Path, size: tuple[int, int], frames: int, **keys) -> np.ndarray:
    [clip] = recipe(folder, size, **keys).build("train", frames)
    return clip.frames.numpy().astype(int)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_turned_video_is_turned_upright(tmp_path, quarters):
    path = encode(tmp_path / "a.mp4", np.rot90(bars(), quarters, (1, 2)), "libx264", "yuv420p", crf=4)
    content = path.read_bytes()
    one = 1 << 16
    straight = np.array([one, 0, 0, 0, one, 0, 0, 0, 1 << 30], ">i4").tobytes()
    cos, sin = [(0, one), (-one, 0), (0, -one)][quarters - 1]  # a player turns it to the right by so many quarters
    turned = np.array([cos, sin, 0, -sin, cos, 0, 0, 0, 1 << 30], ">i4").tobytes()
    place = content.index(straight, content.index(b"tkhd"))
    path.write_bytes(content[:place] + turned + content[place + len(turned) :])
    assert np.abs(read(tmp_path, (24, 40), 6) - bars()).mean() < 6


def test_transparent_parts_lie_over_black(tmp_path):
    opacity = np.full((6, 24, 40, 1), 255, np.uint8)
    opacity[:, 12:] = 0
    opacity[:, :, 32:] = 128
    video = np.concatenate([bars(), opacity], 3)
    expected = bars() * (opacity / 255)
    encode(tmp_path / "a.webm", video, "libvpx-vp9", "yuva420p", metadata={"alpha_mode": "1"}, crf=4, b=0)
    assert np.abs(read(tmp_path, (24, 40), 6) - expected).mean() < 6
    (tmp_path / "a.webm").unlink()
    encode(tmp_path / "a.mov", video, "png", "rgba")
    assert np.abs(read(tmp_path, (24, 40), 6) - expected).max() <= 1
    (tmp_path / "a.mov").unlink()
    for t, frame in enumerate(video):
        Image.fromarray(frame).save(tmp_path / f"{t}.png")
    assert np.abs(read(tmp_path, (24, 40), 6) - expected).max() <= 1


def test_a_gif_with_transparency(tmp_path):
    pictures = [
        Image.fromarray(np.uint8(np.where(np.arange(160).reshape(10, 16) < 16 * t, 1, 0)), "P") for t in range(4)
    ]
    for picture in pictures:
        picture.putpalette([255, 255, 255, 200, 100, 50])
    options = {"save_all": True, "append_images": pictures[1:], "duration": 50, "transparency": 0, "disposal": 2}
    pictures[0].save(tmp_path / "a.gif", **options)
    got = read(tmp_path, (10, 16), 4)
    for t in range(4):
        assert (got[t, :t] == (200, 100, 50)).all() and (got[t, t:] == 0).all()


@pytest.mark.parametrize(
    "suffix, codec, pixels",
    [(".mkv", "libx265", "yuv420p10le"), (".mkv", "ffv1", "yuv444p10le"), (".mov", "prores_ks", "yuv422p10le")],
)
def test_ten_bits(tmp_path, suffix, codec, pixels):
    options = {"x265-params": "log-level=none:qp=4"} if codec == "libx265" else {}
    encode(tmp_path / f"a{suffix}", bars(), codec, pixels, **options)
    assert np.abs(read(tmp_path, (24, 40), 6) - bars()).mean() < 6


@pytest.mark.parametrize("suffix, codec", [(".mkv", "ffv1"), (".gif", "gif"), (".webm", "libvpx-vp9")])
def test_odd_sizes(tmp_path, suffix, codec):
    pixels = {"ffv1": "bgr0", "gif": "rgb8"}.get(codec, "yuv420p")
    encode(tmp_path / f"a{suffix}", bars(3, 43, 101), codec, pixels)
    assert np.abs(read(tmp_path, (43, 101), 3) - bars(3, 43, 101)).mean() < 12
    assert read(tmp_path, (16, 16), 3).shape == (3, 16, 16, 3)


UNEVEN = [0, 40, 80, 300, 340, 500, 1000, 1001, 1200, 1960]


def numbered(frames: int) -> np.ndarray:
    """Frame t shows 20 t everywhere."""
    return np.broadcast_to(
        np.arange(0, 20 * frames, 20, dtype=np.uint8)[:, None, None, None], (frames, 16, 16, 3)
    ).copy()


def shown(folder: Path, frames: int, **keys) -> list[int]:
    return (read(folder, (16, 16), frames, **keys)[:, 8, 8, 0] / 20).round().astype(int).tolist()


@pytest.mark.parametrize("suffix, codec, pixels", [(".mkv", "ffv1", "bgr0"), (".mp4", "libx264", "yuv420p")])
def test_uneven_times(tmp_path, suffix, codec, pixels):
    encode(tmp_path / f"a{suffix}", numbered(10), codec, pixels, UNEVEN)
    assert shown(tmp_path, 10) == [*range(10)]
    # 0, 200, 400 ... 1960: the frame shown nearest to each
    nearest = [min(range(10), key=lambda i: (abs(UNEVEN[i] - time), i)) for time in range(0, 1961, 200)]
    assert shown(tmp_path, 10, fps=5.0) == nearest
    assert shown(tmp_path, 5, fps=5.0, stride=2) == nearest[::2]
    with pytest.raises(ValueError, match="has 10 frames; 11 are asked for"):
        recipe(tmp_path, 16, fps=5.0).build("train", 11)
    dataset = recipe(tmp_path, 16, fps=5.0).build("train", 4)
    for epoch in range(6):
        clip = dataset.window(0, epoch)
        values = (clip.frames[:, 8, 8, 0].numpy() / 20).round().astype(int).tolist()
        assert values[0] == clip.start and values in [nearest[i : i + 4] for i in range(7)]
    dataset, seen = recipe(tmp_path, 16, fps=5.0, stride=3).build("train", 3), set()
    for epoch in range(40):
        seen.add(tuple((dataset.window(0, epoch).frames[:, 8, 8, 0].numpy() / 20).round().astype(int).tolist()))
    assert seen == {tuple(nearest[i : i + 7 : 3]) for i in range(4)}


@pytest.mark.parametrize("rate, fps, expected", [(30, 30, 1), (30, 15, 2), (30, 10, 3)])
def test_resampling_an_even_video_whose_times_are_rounded(tmp_path, rate, fps, expected):
    encode(tmp_path / "a.mkv", numbered(12), "ffv1", "bgr0", [round(1000 * t / rate) for t in range(12)])
    assert shown(tmp_path, 12 // expected, fps=float(fps)) == [*range(0, 12, expected)]


def test_resampling_and_actions(tmp_path):
    encode(tmp_path / "a.mkv", numbered(10), "ffv1", "bgr0")
    np.savez(tmp_path / "a.npz", actions=np.arange(10))
    actions = {"actions": tuple("abcdefghij")}
    for fps, pool, message in (
        (12.5, "", "leaves out frames of it; say what becomes of their actions"),
        (50.0, "last", "shows frames of it twice, and no action leads to the second"),
    ):
        with pytest.raises(ValueError, match=rf"a\.mkv: fps = {fps:g} {message}"):
            recipe(tmp_path, 16, fps=fps, action_pool=pool, **actions).build("train", 2)
    [clip] = recipe(tmp_path, 16, fps=12.5, action_pool="last", **actions).build("train", 5)
    assert clip.actions.tolist() == [0, 2, 4, 6, 8]
    [clip] = recipe(tmp_path, 16, fps=25.0, **actions).build("train", 10)
    assert clip.actions.tolist() == [*range(10)]


def test_actions_beside_a_video_must_be_as_many(tmp_path):
    encode(tmp_path / "a.mkv", numbered(10), "ffv1", "bgr0")
    np.savez(tmp_path / "a.npz", actions=np.zeros(11, np.int32))
    with pytest.raises(ValueError, match=r"a\.mkv: actions have shape \(11,\); the clip has 10 frames"):
        recipe(tmp_path, 16, actions=("a",)).build("train", 2)
    (tmp_path / "a.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"a\.mkv: .*a\.npz: damaged, or not an \.npz file"):
        recipe(tmp_path, 16, actions=("a",)).build("train", 2)


def test_arrays_have_no_times(tmp_path):
    np.savez(tmp_path / "a.npz", video=numbered(5))
    with pytest.raises(ValueError, match=r"a\.npz: does not say when its frames are shown; leave out fps = 5"):
        recipe(tmp_path, 16, fps=5.0).build("train", 2)


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".gif"])
def test_a_name_with_a_colon(empty_folder, suffix):
    path = Path(f"12:30{suffix}")  # relative, so that nothing stands before "12:"
    with VideoWriter(path, Fraction(20)) as output:
        for frame in bars():
            output.write(frame)
    assert np.abs(read(Path(), (24, 40), 6) - bars()).mean() < 12
    assert recording.facts(path)[0].length == 6 and [file.name for file in empty_folder.glob("12*")] == [path.name]


def test_metadata_that_are_not_utf8(tmp_path):
    path = encode(tmp_path / "a.avi", bars(), "mpeg4", "yuv420p")
    with av.open(str(path)) as source, av.open(str(tmp_path / "b.avi"), "w") as output:
        output.metadata["title"] = "Caffe-Fahrt"
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)
    content = (tmp_path / "b.avi").read_bytes()
    assert b"Caffe-" in content
    path.unlink()
    (tmp_path / "b.avi").write_bytes(content.replace(b"Caffe-", "Caffé ".encode("latin-1")))
    assert len(read(tmp_path, (24, 40), 6)) == 6


def cut(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])


def no_index(path: Path) -> None:
    cut(encode(path, bars(), "libx264", "yuv420p"), 0.5)  # an mp4's index stands at its end


def no_frames(path: Path) -> None:
    """The index promises frames that are not there."""
    with av.open(str(path), "w", options={"movflags": "faststart"}) as output:
        stream = output.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = 24, 40, "yuv420p"
        for picture in bars():
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode())
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"mdat") + 8])


def sound(path: Path) -> None:
    with av.open(str(path), "w") as output:
        stream = output.add_stream("aac", rate=44100)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        output.mux(stream.encode(frame))
        output.mux(stream.encode())


BROKEN = {
    "no index": (no_index, "not a video, or damaged"),
    "no frames": (no_frames, "(holds no frame that can be decoded|not a video, or damaged)"),
    "no picture": (sound, "holds no video"),
    "text": (lambda path: path.write_text("hello"), "not a video, or damaged"),
    "empty": (lambda path: path.write_bytes(b""), "not a video, or damaged"),
}


@pytest.mark.parametrize("make, message", BROKEN.values(), ids=BROKEN)
def test_a_broken_video_is_refused_or_skipped(tmp_path, capsys, make, message):
    make(tmp_path / "a.mp4")
    encode(tmp_path / "b.mp4", bars(), "libx264", "yuv420p")
    with pytest.raises(ValueError, match=rf"a\.mp4: {message}"):
        recipe(tmp_path, 16).build("train", 2)
    assert len(recipe(tmp_path, 16, broken="skip").build("train", 2)) == 1
    assert capsys.readouterr().err.count("a.mp4") == 1


def as_npz(path: Path) -> Path:
    np.savez(path.with_suffix(".npz"), video=numbered(4), actions=np.zeros(4, np.int64))
    return path.with_suffix(".npz")


def as_packed_npz(path: Path) -> Path:
    np.savez_compressed(path.with_suffix(".npz"), video=numbered(4))
    return path.with_suffix(".npz")


def as_video(path: Path) -> Path:
    return encode(path.with_suffix(".mp4"), numbered(4), "mpeg4", "yuv420p")


def as_picture(path: Path) -> Path:
    path.mkdir()
    Image.fromarray(bars(1)[0]).save(path / "0.png")
    return path / "0.png"


@pytest.mark.filterwarnings("ignore:Reading .* required additional header parsing")
@pytest.mark.parametrize("make", [as_npz, as_packed_npz, as_video, as_picture])
def test_damage_anywhere_is_said_of_the_file_or_does_no_harm(tmp_path, make):
    file, random = make(tmp_path / "a"), np.random.default_rng(0)
    path, good, refused = file.parent if make is as_picture else file, file.read_bytes(), 0
    for _ in range(40):
        content = bytearray(good)
        for place in random.integers(0, min(len(good), 400 if random.random() < 0.5 else len(good)), 3):
            content[place] = random.integers(256)
        file.write_bytes(content[: random.integers(len(good))] if random.random() < 0.2 else content)
        try:
            for facts in recording.facts(path):
                list(recording.frames(path, 0, facts, np.arange(facts.length)))
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")
            refused += 1
    assert refused > 5


def test_a_truncated_stream_counts_what_can_be_decoded(tmp_path):
    video = np.random.default_rng(0).integers(0, 256, (30, 24, 40, 3)).astype(np.uint8)
    path = encode(tmp_path / "a.mkv", video, "mjpeg", "yuvj420p")
    cut(path, 0.5)
    [length] = recipe(tmp_path, 16, broken="skip").recordings("train").lengths
    assert 8 < length < 22
    assert read(tmp_path, (24, 40), int(length)).shape[0] == length


def test_broken_pictures_are_named(tmp_path):
    for t, frame in enumerate(bars(4)):
        Image.fromarray(frame).save(tmp_path / f"{t}.png")
    cut(tmp_path / "2.png", 0.7)
    with pytest.raises(ValueError, match=rf"{tmp_path}: 2\.png is damaged|2\.png is not a picture"):
        recipe(tmp_path, 16).build("train", 2)
    (tmp_path / "2.png").write_text("hello")
    with pytest.raises(ValueError, match=r"2\.png is not a picture"):
        recipe(tmp_path, 16).build("train", 2)


def test_pictures_of_one_recording_have_one_size(tmp_path):
    for t, size in enumerate([(24, 40), (24, 40), (40, 24)]):
        Image.fromarray(bars(1, *size)[0]).save(tmp_path / f"{t}.png")
    with pytest.raises(ValueError, match=r"2\.png is 40 x 24 and 0\.png 24 x 40; must be of one size"):
        recipe(tmp_path, 16).build("train", 2)


def test_turned_photographs_gray_pictures_and_sixteen_bits(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned to the right by a quarter
    upright = bars(1)[0]
    Image.fromarray(np.rot90(upright)).save(tmp_path / "0.jpg", exif=exif, quality=95)
    Image.fromarray(upright[..., 0]).save(tmp_path / "1.png")
    Image.fromarray(upright[..., 0].astype(np.uint16) * 257).save(tmp_path / "2.png")
    got = read(tmp_path, (24, 40), 3)
    assert np.abs(got[0] - upright).mean() < 6
    assert (got[1:] == upright[..., :1]).all()
