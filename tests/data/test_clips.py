"""Clips from anywhere: what lies on disk is what is read, whatever window, split, process or rank asks for it."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from videopred.clip import Format
from videopred.config import from_dict, to_dict
from videopred.data import ClipsConfig, Recipe, loader
from videopred.data.clip_file import ClipFile
from videopred.data.split import NoClips

ACTIONS = ("forward", "left", "right")


def video(frames: int, seed: int = 0, size: tuple[int, ...] = (8, 12, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (frames, *size), dtype=np.uint8)


def save(path: Path, save=np.savez, **arrays) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, **arrays)
    return path


def recipe(root: Path | str, **keys) -> ClipsConfig:
    return ClipsConfig(**({"root": str(root), "image_size": (8, 12)} | keys))


def one(root: Path, frames: int, **keys):
    """The only clip."""
    [clip] = recipe(root, test_share=0.0, **keys).build("train", frames)
    return clip


@pytest.mark.parametrize("save_as", [np.savez, np.savez_compressed])
def test_tecos_tree(tmp_path, save_as):
    made = {}
    for i, name in enumerate(("train/0/a", "train/0/b", "train/10/a", "test/0/a")):
        made[name] = video(300 + i % 2, i), np.arange(300 + i % 2, dtype=np.int32) % 3
        save(tmp_path / f"{name}.npz", save_as, video=made[name][0], actions=made[name][1])
    for split, count in (("train", 3), ("test", 1)):
        dataset = recipe(tmp_path, actions=ACTIONS).build(split, 300)
        assert len(dataset) == count
        for clip in dataset:
            frames, actions = made[clip.id.removesuffix(".npz")]
            assert np.array_equal(clip.frames, frames[:300]) and np.array_equal(clip.actions, actions[:300])
            assert clip.actions.dtype == torch.int64 and clip.start == 0 and clip.pose is None


@pytest.mark.parametrize("save_as", [np.savez, np.savez_compressed])
def test_a_window_is_a_slice_of_the_recording(tmp_path, save_as):
    frames, actions, pose = video(30), np.arange(30) % 3, np.random.default_rng(1).random((30, 3))
    save(tmp_path / "a.npz", save_as, frames=frames, actions=actions, pose=pose)
    config = recipe(tmp_path, actions=ACTIONS, test_share=0.0)
    dataset, starts = config.build("train", 7), set()
    for epoch in range(60):
        clip = dataset.window(0, epoch)
        here = slice(clip.start, clip.start + 7)
        assert np.array_equal(clip.frames, frames[here]) and np.array_equal(clip.actions, actions[here])
        assert np.allclose(clip.pose, pose[here]) and clip.pose.dtype == torch.float32
        assert torch.equal(clip.frames, config.build("train", 7).window(0, epoch).frames)
        starts.add(clip.start)
    assert min(starts) == 0 and max(starts) == 23 and len(starts) > 15
    other = recipe(tmp_path, test_share=0.0, seed=1).build("train", 7)
    assert [other.window(0, i).start for i in range(9)] != [dataset.window(0, i).start for i in range(9)]


def test_with_a_stride_a_window_starts_at_any_frame(tmp_path):
    save(tmp_path / "a.npz", video=video(20))
    dataset = recipe(tmp_path, stride=4, test_share=0.0).build("train", 4)
    assert {dataset.window(0, epoch).start for epoch in range(99)} == {*range(8)}  # the last one is 7, 11, 15, 19
    assert dataset.cut(0, 1).start == 4 and dataset.cut(0, 1, 4).start == 4


def test_several_clips_of_a_file(tmp_path):
    frames, actions = video(3 * 9).reshape(3, 9, 8, 12, 3), np.arange(27).reshape(3, 9) % 3
    save(tmp_path / "a.npz", data=frames, actions=actions)
    dataset = recipe(tmp_path, test_share=0.0, actions=ACTIONS).build("train", 5)
    assert [clip.id for clip in dataset] == [f"train/a.npz/{i}" for i in range(3)]
    assert np.array_equal(np.stack([clip.frames for clip in dataset]), frames[:, :5])
    assert np.array_equal(np.stack([clip.actions for clip in dataset]), actions[:, :5])


def test_hash_splits_are_disjoint_stable_and_of_the_wanted_size(tmp_path):
    for i in range(150):
        save(tmp_path / f"{i % 7}" / f"{i}.npz", video=video(2, i))
    config = recipe(tmp_path, test_share=0.3)
    train, test = ({clip.id.partition("/")[2] for clip in config.build(split, 1)} for split in ("train", "test"))
    assert not train & test and len(train | test) == 150 and 25 < len(test) < 65
    (tmp_path / "0" / "0.npz").unlink()
    save(tmp_path / "new.npz", video=video(2))
    again = {clip.id.partition("/")[2] for clip in config.build("test", 1)}
    assert again ^ test <= {"0/0.npz", "new.npz"}


def test_short_recordings_are_left_out(tmp_path):
    for i, length in enumerate((4, 9, 6)):
        save(tmp_path / f"train/{i}.npz", video=video(length))
    dataset = recipe(tmp_path).build("train", 6)
    assert [clip.id for clip in dataset] == ["train/1.npz", "train/2.npz"]
    assert dataset.recordings.lengths.tolist() == [4, 9, 6] and dataset.max_frames == 9
    with pytest.raises(ValueError, match="longest recording has 9 frames; 10 are asked for"):
        recipe(tmp_path).build("train", 10)


def test_gray_rgb_and_alpha(tmp_path):
    frames = video(3)
    save(tmp_path / "a.npz", video=frames)
    luma = np.rint(frames @ np.float32([0.2126, 0.7152, 0.0722]))
    assert np.array_equal(one(tmp_path, 3, channels=1).frames[..., 0], luma)
    save(tmp_path / "a.npz", video=frames[..., :1])
    assert np.array_equal(one(tmp_path, 3).frames, frames[..., :1].repeat(3, 3))
    save(tmp_path / "a.npz", video=np.concatenate([frames, np.full_like(frames[..., :1], 51)], 3))
    assert np.array_equal(one(tmp_path, 3).frames, np.rint(frames / 5))


def test_resizing_takes_the_middle_and_the_mean(tmp_path):
    frames = video(2, size=(24, 40, 3))
    save(tmp_path / "a.npz", video=frames)
    middle = frames[:, :, 2:38].reshape(2, 8, 3, 12, 3, 3).astype(float)
    assert np.abs(one(tmp_path, 2).frames.numpy() - middle.mean((2, 4))).max() < 1.01
    tall = video(2, size=(21, 12, 3))
    save(tmp_path / "a.npz", video=np.concatenate([tall[:, :2], tall[:, :8], tall[:, :2]], 1))
    assert np.array_equal(one(tmp_path, 2).frames, tall[:, :8])
    for size, part in (((9, 12, 3), np.s_[:, :8]), ((8, 15, 3), np.s_[:, :, 1:13])):  # an odd margin does not blur
        odd = video(2, size=size)
        save(tmp_path / "a.npz", video=odd)
        assert np.array_equal(one(tmp_path, 2).frames, odd[part])
    save(tmp_path / "a.npz", video=np.full((1, 4, 6, 3), 77, np.uint8))
    assert (one(tmp_path, 1).frames == 77).all()


def test_stride_and_actions(tmp_path):
    frames, actions = video(20), np.random.default_rng(0).integers(0, 3, 20)
    save(tmp_path / "a.npz", video=frames, actions=actions)
    clip = one(tmp_path, 7, stride=3, actions=ACTIONS, action_pool="last")
    assert np.array_equal(clip.frames, frames[::3]) and np.array_equal(clip.actions, actions[::3])
    config = recipe(tmp_path, stride=3, actions=ACTIONS, action_pool="stack", test_share=0.0)
    clip = config.build("train", 7)[0]
    joint = [9 * actions[t - 2] + 3 * actions[t - 1] + actions[t] for t in range(3, 20, 3)]
    assert clip.actions.tolist() == [actions[0], *joint]
    assert config.format.num_actions == 27 == len(config.action_names)
    assert config.action_names[joint[0]] == "+".join(ACTIONS[a] for a in actions[1:4])
    window = config.build("train", 3).window(0, 3)
    assert np.array_equal(window.frames, frames[window.start : window.start + 7 : 3])
    later = range(window.start + 3, window.start + 7, 3)
    assert window.actions.tolist()[1:] == [9 * actions[t - 2] + 3 * actions[t - 1] + actions[t] for t in later]
    with pytest.raises(ValueError, match="has 7 frames; 8 are asked for"):
        config.build("train", 8)


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"stride": 2, "actions": ACTIONS}, 'action_pool = "last" or "stack"'),
        ({"stride": 2, "action_pool": "last"}, "is for actions"),
        ({"fps": 5.0, "actions": ACTIONS, "action_pool": "stack"}, "a fixed number of frames"),
        ({"stride": 0}, "stride = 0: must be at least 1"),
        ({"fps": -1.0}, "fps = -1.0: must be at least 0"),
        ({"fps": float("inf")}, "fps = inf: must be at most 1000"),
        ({"fps": float("nan")}, "fps = nan: must be"),
        ({"image_size": (0, 4)}, "image_size"),
        ({"image_size": (4, 2**63)}, "image_size = .*: must be at most 8192"),
        ({"stride": 10**30}, r"stride = 10+: must be at most 1000000"),
        ({"stride": 8, "actions": ACTIONS, "action_pool": "stack"}, "3 actions and stride = 8 make more than 4096"),
        ({"stride": 10**6, "actions": ("a",), "action_pool": "stack"}, "1 actions and stride = 1000000 make more"),
        ({"root": ""}, r"root = '': must be a folder; '\.' is the current one"),
        ({"actions": ("a", "a")}, "two have the same name"),
        ({"test_share": 1.5}, "test_share = 1.5"),
    ],
)
def test_senseless_recipes_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        recipe(**({"root": "x"} | keys))


def test_sizes_as_a_file_gives_them():
    table = {"kind": "clips", "root": "x", "image_size": [8, 12], "fps": 5}
    config = from_dict(Recipe, table)
    assert (config.format.height, config.format.width, config.fps) == (8, 12, 5.0)
    assert from_dict(Recipe, to_dict(config)) == config
    assert from_dict(Recipe, table | {"image_size": 9}).size == (9, 9)
    with pytest.raises(ValueError, match="image_size"):
        from_dict(Recipe, table | {"image_size": "9"})
    with pytest.raises(ValueError, match="channels = 2: must be one of 1, 3"):
        from_dict(Recipe, table | {"channels": 2})


def test_masked_actions_stay_masked(tmp_path):
    save(tmp_path / "a.npz", video=video(6), actions=[0, 1, -1, 2, 1, 2])
    assert one(tmp_path, 6, actions=ACTIONS).actions.tolist() == [0, 1, -1, 2, 1, 2]
    assert one(tmp_path, 3, actions=ACTIONS, stride=2, action_pool="stack").actions.tolist() == [0, -1, 7]


def test_missing_actions_are_zeros_if_the_recipe_says_so(tmp_path):
    save(tmp_path / "a.npz", video=video(6))
    assert one(tmp_path, 6, actions=ACTIONS, missing_actions="zeros").actions.tolist() == [0] * 6
    with pytest.raises(ValueError, match=r"a\.npz: has no actions, the recipe has forward, left, right"):
        one(tmp_path, 6, actions=ACTIONS)


@pytest.mark.parametrize("top, name", [(1, "0..1"), (255, "0..255")])
def test_floating_frames_need_a_range(tmp_path, top, name):
    frames = video(4)
    frames[0, 0, 0] = 0, 128, 255
    save(tmp_path / "a.npz", video=frames.astype(np.float32) / 255 * top)
    assert np.array_equal(one(tmp_path, 4, float_range=name).frames, frames)
    with pytest.raises(ValueError, match=rf"a\.npz: is floating, in 0\.0\.\.{top}\.0; say float_range"):
        one(tmp_path, 4)
    with pytest.raises(ValueError, match=r"a\.npz: is floating, .*; the recipe says float_range"):
        one(tmp_path, 4, float_range="0..255" if top == 1 else "0..1")


def pickled(path: Path) -> None:
    np.savez(path, video=np.array([{"a": 1}], object))


def cut(path: Path) -> None:
    save(path, video=video(6))
    path.write_bytes(path.read_bytes()[:500])


def flipped(path: Path, save_as=np.savez) -> None:
    save(path, save_as, video=video(6))
    content = bytearray(path.read_bytes())
    content[600] ^= 255
    path.write_bytes(content)


def packed(path: Path, method: int) -> None:
    """The frames by another compression, with a wrong byte."""
    content = io.BytesIO()
    np.save(content, video(6))
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("video.npy", content.getvalue())
    wrong = bytearray(path.read_bytes())
    wrong[200] ^= 255
    path.write_bytes(wrong)


def shaped(path: Path, shape: str, name: str = "actions") -> None:
    """An array beside the frames, of which there is only the header."""
    save(path, video=video(6))
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)


WRONG = {
    "lzma": (lambda p: packed(p, zipfile.ZIP_LZMA), "damaged"),
    "bz2": (lambda p: packed(p, zipfile.ZIP_BZIP2), "damaged"),
    "endless actions": (lambda p: shaped(p, "(99999999999999,)"), "actions cannot be read: it ends before"),
    "no whole number": (lambda p: shaped(p, "(True,)"), r"actions .*damaged: actions have shape \(True,\)"),
    "64 bits": (
        lambda p: save(p, video=video(6), actions=np.full(6, 2**64 - 1, np.uint64)),
        "its actions go up to 18446744073709551615",
    ),
    "far pose": (lambda p: save(p, video=video(6), pose=np.full((6, 2), 1e300)), "pose is float64; must be finite"),
    "keys": (lambda p: save(p, clip=video(6)), "has none of the keys video, .* its keys are: clip"),
    "dtype": (lambda p: save(p, video=video(6).astype(np.int64)), "dtype of frames is int64"),
    "shape": (lambda p: save(p, video=video(6)[..., :2]), r"shape \(6, 8, 12, 2\)"),
    "nan": (lambda p: save(p, video=np.full((2, 8, 12, 3), np.nan)), "not finite"),
    "no frames": (lambda p: save(p, video=video(6)[:0]), "it holds none"),
    "no actions": (lambda p: save(p, video=video(6)), "has no actions"),
    "few actions": (lambda p: save(p, video=video(6), actions=[0] * 5), r"actions have shape \(5,\); the clip has 6"),
    "many actions": (lambda p: save(p, video=video(6), actions=[0] * 7), r"actions have shape \(7,\); the clip has 6"),
    "great actions": (lambda p: save(p, video=video(6), actions=[0, 1, 3] * 2), r"lie in 0\.\.3; they must be 0\.\.2"),
    "small actions": (lambda p: save(p, video=video(6), actions=[0, 1, -2] * 2), r"lie in -2\.\.1"),
    "float actions": (lambda p: save(p, video=video(6), actions=[0.5] * 6), "actions are float64"),
    "pose": (lambda p: save(p, video=video(6), pose=np.zeros((5, 3))), r"pose has shape \(5, 3\); must be \(6, d\)"),
    "pickled": (pickled, "pickled objects"),
    "text": (lambda p: p.write_text("hello"), r"damaged, or not an \.npz file"),
    "empty": (lambda p: p.write_bytes(b""), r"damaged, or not an \.npz file"),
    "cut": (cut, "damaged"),
    "bit": (flipped, "damaged"),
    "packed bit": (lambda p: flipped(p, np.savez_compressed), "damaged"),
}


@pytest.mark.parametrize("make, message", WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_or_skipped_by_name(tmp_path, make, message, capsys):
    good = save(tmp_path / "train/b.npz", video=video(6), actions=[0, 1, 2, 0, 1, 2])
    make(tmp_path / "train/a.npz")
    config = recipe(tmp_path, actions=ACTIONS)
    with pytest.raises(ValueError, match=rf"/train/a\.npz: .*{message}.*; broken = \"skip\""):
        config.build("train", 2)
    skipping = recipe(tmp_path, actions=ACTIONS, broken="skip")
    dataset = skipping.build("train", 2)
    assert [clip.id for clip in dataset] == ["train/b.npz"]
    skipping.build("train", 1)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"videopred: skipped: {tmp_path}/train/a.npz: ")
    found = config.recordings("train")
    assert (found.files, len(found.rows), len(found.broken)) == (2, 1, 1) and "a.npz" in found.broken[0]
    good.unlink()
    with pytest.raises(NoClips, match=r"none of its recordings can be used: .*a\.npz: "):
        skipping.build("train", 2)


@pytest.mark.parametrize("actions", [np.zeros((6, 7), np.float32), np.zeros((6, 2), int), np.zeros(5, int)])
def test_actions_that_no_recipe_names_break_nothing(tmp_path, actions):
    frames, pose = video(6), np.ones((6, 2))
    save(tmp_path / "a.npz", video=frames, actions=actions, pose=pose)
    for _ in range(2):  # by reading the file, and by the index
        clip = one(tmp_path, 6)
        assert np.array_equal(clip.frames, frames) and clip.actions is None and np.array_equal(clip.pose, pose)
    alone = ClipFile(tmp_path / "a.npz", Format(3, 8, 12), 6)[0]
    assert np.array_equal(alone.frames, frames) and alone.actions is None
    with pytest.raises(ValueError, match=r"/a\.npz: actions (are float32|have shape)"):
        one(tmp_path, 6, actions=ACTIONS, missing_actions="zeros")


CHANGES = {
    "fewer actions": {"actions": [0, 1, 2]},
    "great actions": {"actions": [0, 1, 77] * 2},
    "no actions": {"actions": None},
    "wide actions": {"actions": np.zeros((6, 2), int)},
    "no pose": {"pose": None},
    "short pose": {"pose": np.zeros((5, 2))},
    "wide pose": {"pose": np.zeros((6, 3))},
    "floats": {"video": video(6).astype(np.float32) / 255},
    "not finite": {"video": np.full((6, 8, 12, 3), np.nan)},
    "shorter": {"video": video(5)},
    "size": {"video": video(6, size=(12, 8, 3))},
    "clips": {"video": video(6)[None].repeat(2, 0)[:, :3]},
}


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_after_it_was_indexed_is_refused(tmp_path, change, floating):
    top = 255.0 if floating else 1
    good = {"video": video(6) / top if floating else video(6), "actions": [0, 1, 2, 0, 1, 2], "pose": np.zeros((6, 2))}
    save(tmp_path / "a.npz", **good)
    keys = {"float_range": "0..1"} if floating else {}
    dataset = recipe(tmp_path, test_share=0.0, actions=ACTIONS, **keys).build("train", 6)
    assert len(dataset[0].frames) == 6
    if floating and "video" in change and change["video"].dtype == np.float32:
        change = {"video": video(6)}  # uint8 in place of floats, or 0..255
    save(tmp_path / "a.npz", **{name: x for name, x in (good | change).items() if x is not None})
    with pytest.raises(ValueError, match=r"/a\.npz: (was changed since it was indexed|pose has shape)"):
        dataset[0]


def test_empty_places_say_what_to_do(tmp_path):
    with pytest.raises(NoClips, match=r"root = '.*nowhere': no such folder\. Put the data there"):
        recipe(tmp_path / "nowhere").build("train", 1)
    with pytest.raises(NoClips, match="holds no recording"):
        recipe(tmp_path).build("train", 1)
    save(tmp_path / "a.npz", video=video(3))
    with pytest.raises(NoClips, match=r"none of its 1 recordings falls to test, with test_share = 0\.0"):
        recipe(tmp_path, test_share=0.0).build("test", 1)
    save(tmp_path / "x/train/a.npz", video=video(3))
    with pytest.raises(NoClips, match="has no folder test/"):
        recipe(tmp_path / "x").build("test", 1)
    with pytest.raises(NoClips, match=r"is a file; give the folder"):
        recipe(tmp_path / "a.npz").build("test", 1)


def test_a_reading_process_that_is_not_given_a_file_is_said_in_one_line():
    def reading():
        yield
        raise ValueError(
            "Caught Unreadable in worker\nTraceback\nvideopred.data.array.Unreadable: a.npz: cannot be read: gone"
        )

    batches = loader._read(reading())  # type: ignore[arg-type]
    next(batches)
    with pytest.raises(ValueError, match=r"^a\.npz: cannot be read: gone$"):
        next(batches)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_windows_are_the_same_for_any_number_of_workers_ranks_and_after_resuming(tmp_path):
    for i in range(5):
        save(tmp_path / f"train/{i}.npz", video=video(20, i), actions=np.arange(20) % 3)
    dataset = recipe(tmp_path, actions=ACTIONS).build("train", 4)

    def read(count, batch=3, **keys):
        batches = loader.batches(dataset, batch, 0, **keys)
        clips = [next(batches) for _ in range(count)]
        return [(i, s, f.numpy().tobytes()) for clip in clips for i, s, f in zip(clip.id, clip.start, clip.frames)]

    whole = read(10)
    assert len({start for _, start, _ in whole}) > 8
    assert read(10, workers=1) == read(10, workers=2) == whole
    assert read(4, position=6, workers=1) == whole[18:]
    assert [x for pair in zip(*(read(10, 1, rank=rank, world=3) for rank in range(3))) for x in pair] == whole
