"""One file of somebody's frames: arrays and videos give what was put in, and a wrong file is named with the reason."""

import io
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from videopred.clip import Format
from videopred.data.clip_file import ClipFile
from videopred.data.drawing import Layout
from videopred.data.npz import read_actions
from videopred.data.video_writer import VideoWriter
from videopred.data.writer import rollout_writer

GRAY, RGB = Format(1, 8, 12), Format(3, 8, 12)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, **arrays) -> Path:
    if path.suffix == ".npy":
        np.save(path, arrays["video"])
    else:
        np.savez_compressed(path, **arrays)
    return path


def smooth(frames: int) -> np.ndarray:
    """A bright square that wanders over coloured halves: what a lossy codec keeps well."""
    video = np.zeros((frames, 32, 48, 3), np.uint8)
    video[:, :, :24], video[:, :, 24:] = (180, 60, 40), (40, 90, 200)
    for t in range(frames):
        video[t, 8:24, t : t + 16] = 230
    return video


@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_one_clip_of_an_array_file(tmp_path, name, dtype):
    video = noise(6, 8, 12, 3)
    dataset = ClipFile(save(tmp_path / name, video=video.astype(dtype)), RGB, frames=100)
    assert len(dataset) == 1 and dataset.fps is None
    clip = dataset[0]
    assert np.array_equal(clip.frames.numpy(), video) and clip.frames.numpy().dtype == np.uint8
    assert (clip.id, clip.actions) == (f"{name}/0", None)


@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
def test_several_clips_of_an_array_file(tmp_path, name):
    video = noise(3, 6, 8, 12, 1)
    dataset = ClipFile(save(tmp_path / name, video=video), GRAY, frames=4)
    assert [clip.id for clip in dataset] == [f"{name}/{i}" for i in range(3)]
    for i in range(3):
        assert np.array_equal(dataset[i].frames.numpy(), video[i, :4])
    with pytest.raises(IndexError):
        dataset[-1]


def test_a_gray_clip_may_lack_the_last_axis(tmp_path):
    video = noise(6, 8, 12)
    clip = ClipFile(save(tmp_path / "a.npy", video=video), GRAY, 9)[0]
    assert np.array_equal(clip.frames.numpy()[..., 0], video)


def test_colours_become_the_models(tmp_path):
    video = noise(6, 8, 12, 3)
    clip = ClipFile(save(tmp_path / "a.npy", video=video), GRAY, 9)[0]
    assert np.array_equal(clip.frames.numpy()[..., 0], np.rint(video @ np.float32([0.2126, 0.7152, 0.0722])))
    clip = ClipFile(save(tmp_path / "b.npy", video=video[..., :1]), RGB, 9)[0]
    assert np.array_equal(clip.frames.numpy(), video[..., :1].repeat(3, 3))


@pytest.mark.parametrize("key", ["video", "frames", "real", "data"])
def test_npz_with_actions(tmp_path, key):
    video, actions = noise(2, 6, 8, 12, 1), np.arange(12, dtype=np.int32).reshape(2, 6)
    path = save(tmp_path / "a.npz", **{key: video, "actions": actions, "other": np.zeros(3)})
    clip = ClipFile(path, GRAY, 4)[1]
    assert np.array_equal(clip.frames.numpy(), video[1, :4])
    assert clip.actions.tolist() == [6, 7, 8, 9] and str(clip.actions.dtype) == "torch.int64"
    path = save(tmp_path / "b.npz", **{key: video[0], "actions": actions[1]})
    assert ClipFile(path, GRAY, 9)[0].actions.tolist() == [6, 7, 8, 9, 10, 11]


def test_what_a_rollout_wrote_can_be_read(tmp_path):
    real = noise(2, 5, 8, 12, 1)
    layout = Layout(GRAY, ("x", "y"), 2, 3)
    with rollout_writer(tmp_path / "a.npz", layout, Fraction(20), np.ones((2, 5), np.int64)) as write:
        for t in range(5):
            write(real[:, t], real[:, t, None])
    dataset = ClipFile(tmp_path / "a.npz", GRAY, 99)
    assert [np.array_equal(clip.frames.numpy(), frames) for clip, frames in zip(dataset, real)] == [True, True]
    assert dataset[1].actions.tolist() == [1] * 5


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".gif"])
def test_a_video_comes_back_in_colour_and_in_gray(tmp_path, suffix):
    path, video = tmp_path / f"a{suffix}", smooth(20)
    with VideoWriter(path, Fraction(25)) as writer:
        for frame in video:
            writer.write(frame)
    dataset = ClipFile(path, Format(3, 32, 48), frames=100)
    assert (len(dataset), dataset.fps) == (1, 25)
    got = dataset[0].frames.numpy()
    assert got.shape == video.shape and dataset[0].id == f"a{suffix}/0"
    assert np.abs(got.astype(int) - video).mean() < 4
    assert np.abs(got[:, 4, 4].astype(int) - (180, 60, 40)).mean() < 4
    first = ClipFile(path, Format(1, 32, 48), frames=7)[0].frames.numpy()
    assert first.shape == (7, 32, 48, 1)
    assert abs(first[0, 4, 4, 0] - (0.2126 * 180 + 0.7152 * 60 + 0.0722 * 40)) < 4


def header_only(path: Path) -> Path:
    """An mp4 whose index promises frames that are not there."""
    with VideoWriter(path, Fraction(25)) as writer:
        for frame in noise(40, 32, 48, 3):
            writer.write(frame)
    content = path.read_bytes()
    path.write_bytes(content[: content.find(b"mdat") + 8])
    return path


def cut(path: Path, by: int) -> Path:
    path.write_bytes(path.read_bytes()[:-by])
    return path


def pickled(path: Path) -> Path:
    np.savez(path, video=np.array([{"a": 1}], object))
    return path


def short_member(path: Path) -> Path:
    """An .npz whose array has a header for more than follows."""
    content = io.BytesIO()
    np.save(content, noise(6, 8, 12, 1))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("video.npy", content.getvalue()[:-50])
    return path


def text(path: Path, content: str = "hello") -> Path:
    path.write_text(content)
    return path


WRONG = {
    "missing": (lambda p: p / "a.mp4", "a.mp4: no such file"),
    "folder": (lambda p: p, "is a folder without pictures"),
    "empty": (lambda p: text(p / "a.npz", ""), "a.npz: is empty"),
    "no npz": (lambda p: text(p / "a.npz"), "a.npz: damaged"),
    "no npy": (lambda p: text(p / "a.npy"), "a.npy: damaged"),
    "no video": (lambda p: text(p / "a.mp4"), "a.mp4: not a video, or damaged"),
    "cut npz": (lambda p: cut(save(p / "a.npz", video=noise(6, 8, 12, 1)), 100), "a.npz: damaged"),
    "cut npy": (lambda p: cut(save(p / "a.npy", video=noise(6, 8, 12, 1)), 99), "damaged: it ends within clip 0"),
    "short member": (lambda p: short_member(p / "a.npz"), "a.npz: damaged: it ends within clip 0"),
    "keys": (lambda p: save(p / "a.npz", clip=noise(6, 8, 12, 1)), "none of the keys .* data; its keys are: clip"),
    "size": (lambda p: save(p / "a.npy", video=noise(6, 9, 12, 1)), "is 9 x 12, the model takes 8 x 12"),
    "channels": (lambda p: save(p / "a.npy", video=noise(6, 8, 12, 2)), r"shape \(6, 8, 12, 2\)"),
    "axes": (lambda p: save(p / "a.npy", video=noise(8, 12)), r"shape \(8, 12\)"),
    "no frames": (lambda p: save(p / "a.npy", video=noise(0, 8, 12, 1)), r"shape \(0, 8, 12, 1\); it holds none"),
    "integers": (lambda p: save(p / "a.npy", video=noise(6, 8, 12, 1).astype(int)), "dtype of frames is int64"),
    "0..1": (lambda p: save(p / "a.npy", video=noise(6, 8, 12, 1) / 255), "as if white were 1"),
    "-1..1": (lambda p: save(p / "a.npy", video=noise(6, 8, 12, 1) / 128 - 1), "must be 0..255"),
    "nan": (lambda p: save(p / "a.npy", video=np.full((6, 8, 12, 1), np.nan)), "must be 0..255"),
    "pickled": (lambda p: pickled(p / "a.npz"), "frames holds pickled objects"),
    "fortran": (lambda p: save(p / "a.npy", video=np.asfortranarray(noise(6, 8, 12, 1))), "Fortran order"),
    "few actions": (
        lambda p: save(p / "a.npz", video=noise(6, 8, 12, 1), actions=np.arange(5)),
        r"actions have shape \(5,\); the clip has 6 frames",
    ),
    "float actions": (lambda p: save(p / "a.npz", video=noise(6, 8, 12, 1), actions=np.ones(6)), "actions are float64"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, make, message):
    with pytest.raises(ValueError, match=message):
        ClipFile(make(tmp_path), replace(GRAY, num_actions=3), 100)[0]


def test_a_video_of_another_size_is_refused(tmp_path):
    with VideoWriter(tmp_path / "a.mp4", Fraction(25)) as writer:
        writer.write(smooth(1)[0])
    with pytest.raises(ValueError, match=r"a\.mp4: is 32 x 48, the model takes 8 x 12"):
        ClipFile(tmp_path / "a.mp4", GRAY, 9)[0]


def test_a_video_whose_frames_are_gone_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.mp4: (holds no frame|not a video, or damaged)"):
        ClipFile(header_only(tmp_path / "a.mp4"), Format(3, 32, 48), 9)[0]


def test_actions_of_an_npz(tmp_path):
    assert read_actions(save(tmp_path / "a.npz", actions=np.array([2, 0, 1], np.uint8))).tolist() == [2, 0, 1]
    assert read_actions(save(tmp_path / "b.npz", video=np.zeros(3))) is None
    with pytest.raises(ValueError, match=r"c\.npz: damaged, or not an \.npz file"):
        read_actions(text(tmp_path / "c.npz"))
    with pytest.raises(ValueError, match=r"d\.npz: its actions cannot be read"):
        read_actions(save(tmp_path / "d.npz", actions=np.array([None])))
