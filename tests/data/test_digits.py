"""The pools of digits: what was bundled, how it is split, how it is resized."""

import hashlib
import struct
from importlib.resources import files

import numpy as np
import pytest

from videopred.data import MovingMNISTConfig
from videopred.data.digits import bundled, in_test, pool, resized


def test_bundled_digits_are_the_ten_thousand_of_the_note():
    images, labels = bundled()
    folder = files("videopred.data")
    assert images.shape == (10_000, 28, 28) and images.dtype == np.uint8
    assert hashlib.sha256(images.tobytes()).hexdigest() in folder.joinpath("digits_LICENSE.md").read_text()
    assert np.bincount(labels).tolist() == [1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978]
    assert len(folder.joinpath("digits.npz").read_bytes()) < 2_500_000


def test_no_digit_is_in_both_splits_and_classes_are_balanced():
    train, test = pool("bundled", "", "train", 28), pool("bundled", "", "test", 28)
    assert (len(train), len(test)) == (8_000, 2_000)
    assert not {image.tobytes() for image in train} & {image.tobytes() for image in test}
    labels = bundled()[1]
    in_each = np.bincount(labels), np.bincount(labels[in_test(len(labels))])
    assert np.abs(in_each[0] / 5 - in_each[1]).max() < 1


def test_halved_digits_are_means_of_four_pixels():
    image = bundled()[0][:50].astype(float)
    means = (image[:, ::2, ::2] + image[:, 1::2, ::2] + image[:, ::2, 1::2] + image[:, 1::2, 1::2]) / 4
    assert np.array_equal(resized(bundled()[0][:50], 14), np.rint(means))


@pytest.mark.parametrize("size", [9, 20, 27, 28, 41, 56])
def test_resizing_keeps_brightness_centre_and_flat_areas(size):
    flat = np.full((1, 28, 28), 200, np.uint8)
    assert (resized(flat, size) == 200).all()
    images = bundled()[0][::500]
    new = resized(images, size)
    assert new.mean() == pytest.approx(images.mean(), rel=0.01)
    assert _centre(new[0]) == pytest.approx(_centre(images[0]), abs=0.005)


def _centre(image):
    """Centre of ink from left to right, 0..1."""
    columns = image.sum(0, dtype=float)
    return (columns * (np.arange(len(columns)) + 0.5)).sum() / columns.sum() / len(columns)


def _write_idx(path, images):
    path.write_bytes(struct.pack(">IIII", 2051, len(images), 28, 28) + images.tobytes())


def test_torchvision_files_are_used_by_split(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    images = bundled()[0][:5]
    for name, count in (("train", 3), ("t10k", 2)):
        _write_idx(raw / f"{name}-images-idx3-ubyte", images[:3] if name == "train" else images[3:])
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + bytes(count))
    assert np.array_equal(pool("torchvision", str(tmp_path), "train", 28), images[:3])
    assert np.array_equal(pool("torchvision", str(tmp_path), "test", 28), images[3:])
    recipe = MovingMNISTConfig(digits="torchvision", root=str(tmp_path), num_digits=1, step=0)
    seen = {recipe.build("test", 1)[i].frames.sum().item() for i in range(20)}
    assert seen == {int(image.sum()) for image in images[3:]}


def test_absent_torchvision_files_say_how_to_get_them(tmp_path):
    with pytest.raises(ValueError, match=r"no MNIST below root = .*nowhere.*download=True"):
        MovingMNISTConfig(digits="torchvision", root=str(tmp_path / "nowhere")).build("train", 4)
