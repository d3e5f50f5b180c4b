"""`videopred data list | show | check`."""

import argparse
import tomllib

import numpy as np
import pytest
from PIL import Image

from videopred import config
from videopred.commands import data
from videopred.data import Recipe


def _run(*words):
    parser = argparse.ArgumentParser()
    data.add(parser.add_subparsers())
    return data.run(parser.parse_args(["data", *map(str, words)]))


def _write(path, clips):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, data=clips)


def test_list_names_every_shipped_recipe(capsys):
    assert _run("list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == config.shipped("recipes")


def test_show_prints_the_recipe_as_toml_with_its_sizes(capsys):
    assert _run("show", "moving-mnist-small") == 0
    out = capsys.readouterr().out
    assert tomllib.loads(out)["image_size"] == 32
    assert "# frames: 32x32 gray" in out and "# test: 10000 clips" in out


def test_check_of_a_generator_reads_a_sample_and_writes_a_sheet(capsys, tmp_path):
    assert _run("check", "moving-mnist-small", "--clips", 3, "--frames", 5, "--out", tmp_path / "sheet.png") == 0
    train, test, _ = capsys.readouterr().out.splitlines()
    assert train.startswith("train     3 of 1000000 clips read, 15 frames, 32x32 gray, values 0..254")
    assert test.startswith("test      3 of 10000 clips read")
    sheet = np.array(Image.open(tmp_path / "sheet.png"))
    assert sheet.shape == (6 * 68 + 8, 5 * 68, 3)
    shown = config.load(Recipe, "recipes", "moving-mnist-small").build("train", 1)[0].frames[0, :, :, 0].numpy()
    assert np.array_equal(sheet[2:66:2, 2:66:2, 0], shown)  # frames are enlarged twice, inside a margin of 2


def test_check_of_a_folder_reads_everything_and_names_what_is_broken(capsys, tmp_path):
    for name in ("train/0/a", "train/0/b", "test/0/a"):
        _write(tmp_path / f"{name}.npz", np.full((2, 7, 64, 64, 1), 9, np.float32))
    assert _run("check", tmp_path) == 0
    assert "train     4 of 4 clips read, 28 frames, 64x64 gray, values 9..9, mean 9.00" in capsys.readouterr().out
    _write(tmp_path / "train/0/b.npz", np.full((2, 7, 64, 64, 1), 999, np.float32))
    assert _run("check", tmp_path) == 2
    out, err = capsys.readouterr()
    assert "train     2 of 4 clips read" in out and "b.npz: values of data lie in 999.0..999.0; must be 0..255" in out
    assert err.splitlines()[-1] == f"videopred: error: 2 clips of {tmp_path} cannot be used"
    (tmp_path / "train/0/b.npz").write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"b.npz: damaged, or not an .npz file"):
        _run("check", tmp_path)


def test_check_of_an_npy_says_that_train_is_missing(capsys, tmp_path):
    np.save(tmp_path / "seq.npy", np.full((20, 3, 64, 64), 7, np.uint8))
    assert _run("check", tmp_path / "seq.npy") == 0
    out = capsys.readouterr().out
    assert "test      3 of 3 clips read, 60 frames" in out and "none      train: " in out


@pytest.mark.parametrize(
    "words, message",
    [
        (["moving-mnist-smal"], "did you mean 'moving-mnist-small'"),
        (["missing.npy"], "missing.npy.*must be an .npy file"),
        (["moving-mnist", "--clips", "0"], "--clips 0: must be at least 1"),
        (["moving-mnist", "--frames", "-3"], "--frames -3"),
        (["moving-mnist", "--out", "sheet.jpg"], "must end in .png"),
    ],
)
def test_wrong_words_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        _run("check", *words)
