"""What is said of clips, whatever they are: recipes, folders of anything, single files."""

import numpy as np
import pytest
from PIL import Image

from videopred import config
from videopred.checking import check
from videopred.data import Recipe


def write(path, frames, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, video=frames, **more)


def noise(*shape):
    return np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)


@pytest.fixture
def tree(empty_folder):
    """Clips of three lengths and two sizes, with actions and pose."""
    for name, length, size in ("train/0/a", 4, 8), ("train/0/b", 6, 8), ("train/1/c", 9, 16), ("test/0/a", 5, 8):
        actions = np.array([0, 1, 1, 2, -1, 1, 1, 1, 1][:length])
        pose = np.stack([np.arange(length), -np.ones(length)], 1).astype(np.float32)
        write(empty_folder / f"tree/{name}.npz", noise(length, size, size, 3), actions=actions, pose=pose)
    return empty_folder


def test_a_folder_is_described_and_its_recipe_worked_out(tree, capsys):
    assert check("tree", out=tree / "sheet.png") == 0
    recipe, *lines, sheet = capsys.readouterr().out.splitlines()
    assert recipe == (
        'recipe    kind = "clips"; root = "tree"; image_size = 8; actions = ["action-0", "action-1", "action-2"]'
    )
    assert lines[0] == "train     3 of 3 clips in 3 files read, 19 frames, 8x8 RGB, 3 actions"
    assert lines[1] == "          lengths min 4, median 6, max 9"
    assert lines[2].startswith("          values 0..255, mean 12")
    assert lines[3] == "          stored as 8x8 RGB (2), 16x16 RGB (1)"
    # a: 0 1 1 2; b: 0 1 1 2 -1 1; c: 0 1 1 2 -1 1 1 1 1, of 19
    assert lines[4] == "          actions unknown 10.5%, action-0 15.8%, action-1 57.9%, action-2 15.8%"
    assert lines[5] == "          pose 0.00..8.00, -1.00..-1.00"
    assert lines[6] == "          alike 0.0% of neighbouring frames"
    assert lines[7] == "test      1 of 1 clips in 1 files read, 5 frames, 8x8 RGB, 3 actions"
    (tree / "own.toml").write_text(recipe.removeprefix("recipe    ").replace("; ", "\n"))
    assert config.load(Recipe, "recipes", "own.toml").build("train", 4)[0].frames.shape == (4, 8, 8, 3)
    assert sheet == f"sheet     {tree}/sheet.png"


def test_a_recipes_names_are_those_of_its_actions(tree, capsys):
    (tree / "r.toml").write_text(
        'kind = "clips"\nroot = "tree"\nimage_size = 8\nactions = ["go", "left", "right", "up"]'
    )
    assert check("r.toml") == 0
    out = capsys.readouterr().out
    assert out.startswith("train ") and "actions unknown 10.5%, go 15.8%, left 57.9%, right 15.8%, up 0.0%\n" in out


def test_clips_and_frames_limit_what_is_read(tree, capsys):
    assert check("tree", clips=2, frames=5) == 0
    out = capsys.readouterr().out
    assert "train     2 of 3 clips in 3 files read, 9 frames" in out and "lengths min 4, median 4.5, max 5" in out


def test_broken_files_are_named_with_the_reason(tree, capsys):
    (tree / "tree/train/0/b.npz").write_bytes(b"hello")
    write(tree / "tree/test/0/b.npz", noise(3, 8, 8, 3), actions=np.array([0, 1]))
    assert check("tree") == 2
    out, err = capsys.readouterr()
    assert "skipped" not in err  # it is said once
    assert "broken    tree/train/0/b.npz: damaged, or not an .npz file" in out
    assert "broken    tree/test/0/b.npz: actions have shape (2,); the clip has 3 frames" in out
    assert "train     2 of 2 clips in 3 files read, 13 frames" in out
    for path in (tree / "tree/train").rglob("*.npz"):
        path.write_bytes(b"")
    assert check("tree") == 4
    assert "none      train: none of its 3 files can be used" in capsys.readouterr().out
    (tree / "tree/test/0/a.npz").unlink()
    assert check("tree") == 3
    out, err = capsys.readouterr()
    assert "test      1 of 1 clips in 1 files read, 3 frames, 8x8 RGB\n" in out
    assert (
        err == "videopred: tree: actions have shape (2,); the clip has 3 frames; the clips are read without actions\n"
    )
    (tree / "tree/test/0/b.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"tree: holds no clip that can be read: tree/train/0/a.npz: "):
        check("tree")


def test_a_file_that_breaks_after_it_was_indexed_is_found(tree, capsys, monkeypatch):
    from videopred.data import clips

    read = clips.Clips.cut

    def cut(self, index, start, frames=0):
        if index == 1:
            raise ValueError("tree/train/0/b.npz: gone")
        return read(self, index, start, frames)

    monkeypatch.setattr(clips.Clips, "cut", cut)
    assert check("tree") == 1
    out = capsys.readouterr().out
    assert "broken    train: clip 1: tree/train/0/b.npz: gone" in out and "train     2 of 3 clips in 3 files" in out


def test_clips_in_which_nothing_moves_are_named(empty_folder, capsys):
    still = noise(1, 8, 8, 3).repeat(5, 0)
    write(empty_folder / "c/train/0/a.npz", still)
    write(empty_folder / "c/train/0/b.npz", np.concatenate([still[:2], noise(3, 8, 8, 3)]))
    assert check("c") == 0
    out = capsys.readouterr().out  # 4 of 4 pairs of a, and 1 of 4 of b
    assert "alike 62.5% of neighbouring frames; 1 clips stand still: train/0/a.npz\n" in out


def test_long_clips_are_read_in_pieces_and_counted_as_one(empty_folder, capsys, monkeypatch):
    from videopred.checking import sources

    moving = np.concatenate([noise(9, 8, 8, 1), noise(9, 8, 8, 1)[-1:]])
    write(empty_folder / "c/train/0/a.npz", moving)
    monkeypatch.setattr(sources, "PIECE", 3 * 64)
    assert check("c", out=empty_folder / "pieces.png") == 0
    assert "1 of 1 clips in 1 files read, 10 frames" in (out := capsys.readouterr().out) and "alike 11.1%" in out
    monkeypatch.setattr(sources, "PIECE", 1 << 20)
    check("c", out=empty_folder / "whole.png")
    assert (empty_folder / "pieces.png").read_bytes() == (empty_folder / "whole.png").read_bytes()


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_one_file(suffix, empty_folder, capsys):
    frames = noise(2, 4, 6, 7, 3)
    if suffix == "npz":
        write(empty_folder / "one.npz", frames, actions=np.array([[0, 1, 1, 1], [0, 0, 0, 0]]))
    else:
        np.save("one.npy", frames)
    assert check(f"one.{suffix}", out=empty_folder / "sheet.png") == 0
    out = capsys.readouterr().out
    actions = ", 2 actions" if suffix == "npz" else ""
    assert out.startswith(f"file      2 of 2 clips in 1 files read, 8 frames, 6x7 RGB{actions}\n")
    assert ("actions 0 62.5%, 1 37.5%" in out) == (suffix == "npz")


def test_floating_frames_show_their_range(empty_folder, capsys):
    write(empty_folder / "c/train/0/a.npz", noise(3, 8, 8, 1) / np.float32(255))
    assert check("c") == 0
    out = capsys.readouterr().out
    assert 'channels = 1; float_range = "0..1"' in out and "none      test: c: has no folder test/" in out


def test_a_folder_of_pictures(empty_folder, capsys):
    for i in range(3):
        path = empty_folder / f"c/walk/{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(8, 9, 3)).save(path)
    assert check("c/walk") == 0
    assert "stored as 8x9 RGB (1)" in capsys.readouterr().out


def test_a_picture_that_moves_and_has_opacity(empty_folder, capsys):
    pictures = [Image.fromarray(frame) for frame in noise(4, 8, 9, 4)]
    pictures[0].save("a.gif", save_all=True, append_images=pictures[1:], duration=100, disposal=2)
    assert check("a.gif", out=empty_folder / "sheet.png") == 0
    assert capsys.readouterr().out.startswith("file      1 of 1 clips in 1 files read, 4 frames, 8x9 RGB\n")


def test_numbers_that_can_hardly_be_actions_are_not_taken_for_such(empty_folder):
    write(empty_folder / "c/train/a.npz", noise(3, 8, 8, 3), actions=np.array([0, 1, 10**9]))
    for name in ("c", "c/train/a.npz"):
        with pytest.raises(ValueError, match=f"{name}: its actions go up to 1000000000; write a recipe"):
            check(name)


def test_moving_mnists_test_file(empty_folder, capsys):
    np.save("seq.npy", np.full((20, 3, 64, 64), 7, np.uint8))
    assert check("seq.npy") == 0
    out = capsys.readouterr().out
    assert "test      3 of 3 clips read, 60 frames, 64x64 gray" in out and "none      train: " in out


def test_a_recipe_without_an_end_is_sampled(capsys, empty_folder):
    assert check("moving-mnist-small", clips=3, frames=5, out=empty_folder / "sheet.png") == 0
    train, *_ = capsys.readouterr().out.splitlines()
    assert train == "train     3 of 1000000 clips read, 15 frames, 32x32 gray"
    sheet = np.array(Image.open("sheet.png"))
    shown = config.load(Recipe, "recipes", "moving-mnist-small").build("train", 1)[0].frames[0, :, :, 0].numpy()
    y, x = 28 + 18 + 2, 12 + 2  # below the head and the clip's name, inside the margin; borders of 2
    assert np.array_equal(sheet[y : y + 64 : 2, x : x + 64 : 2, 0], shown)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("moving-mnist-smal", "did you mean 'moving-mnist-small'"),
        ("missing.mp4", "missing.mp4: no such file"),
        ("own.toml", "own.toml: no such file"),
        ("empty.npz", "empty.npz: is empty"),
        ("folder", "folder: holds no clip that can be read"),
    ],
)
def test_what_is_not_there_is_said(name, message, empty_folder):
    (empty_folder / "empty.npz").touch()
    (empty_folder / "folder").mkdir()
    with pytest.raises(ValueError, match=message):
        check(name)
