"""`videopred data list | show | check | make`."""

import argparse
import tomllib

import numpy as np
import pytest

from videopred import config
from videopred.commands import data


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


def test_make_prints_what_it_made_and_check_reads_it(capsys, empty_folder):
    assert _run("make", "moving-mnist-small", "--clips", 3, "--frames", 5, "--workers", 1, "--out", "copy") == 0
    [made] = capsys.readouterr().out.splitlines()
    assert made.startswith("6 clips made, 30 frames, 0.0 MB, ") and made.endswith(" frames/s, in copy")
    assert _run("check", "copy") == 0
    assert "test      3 of 3 clips in 3 files read, 15 frames, 32x32 gray" in capsys.readouterr().out


def test_check_ends_with_a_count_of_what_is_broken(capsys, empty_folder):
    _write(empty_folder / "train/0/a.npz", np.zeros((7, 8, 8, 1), np.uint8))
    (empty_folder / "train/0/b.npz").write_bytes(b"hello")
    assert _run("check", empty_folder, "--out", "made/sheet.png") == 2
    out, err = capsys.readouterr()
    assert err.splitlines()[-1] == f"videopred: error: 1 of {empty_folder} cannot be used"
    assert out.splitlines()[-1] == "sheet     made/sheet.png"


@pytest.mark.parametrize("option", ["--workers", "--clips", "--frames"])
def test_make_refuses_numbers_out_of_range(option, empty_folder):
    with pytest.raises(ValueError, match=f"{option} 0: must be at least 1"):
        _run("make", "moving-mnist", "--out", "o", option, 0)
    with pytest.raises(ValueError, match="--workers 99999: must be at most 1024"):
        _run("make", "moving-mnist", "--out", "o", "--workers", 99999)
    assert not list(empty_folder.iterdir())


@pytest.mark.parametrize(
    "words, message",
    [
        (["moving-mnist-smal"], "did you mean 'moving-mnist-small'"),
        (["missing.npy"], "missing.npy: no such file"),
        (["moving-mnist", "--clips", "0"], "--clips 0: must be at least 1"),
        (["moving-mnist", "--frames", "-3"], "--frames -3"),
        (["moving-mnist", "--out", "sheet.jpg"], "must end in .png"),
    ],
)
def test_wrong_words_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        _run("check", *words)
