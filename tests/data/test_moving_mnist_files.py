"""The two public layouts: right files give their pixels, wrong ones are refused by name."""

import zipfile

import numpy as np
import pytest

from videopred.data import MovingMNISTFilesConfig

RNG = np.random.default_rng(0)
CLIPS = RNG.integers(0, 256, (3, 12, 8, 8, 1)).astype(np.uint8)  # n t h w c


def _recipe(root):
    return MovingMNISTFilesConfig(root=str(root), image_size=8)


def _tree(root, arrays, split="test", save=np.savez, key="data"):
    for i, array in enumerate(arrays):
        folder = root / split / str(i % 2)
        folder.mkdir(parents=True, exist_ok=True)
        save(folder / f"{i:03}.npz", **{key: array})
    return root


def test_npy_has_time_first(tmp_path):
    np.save(tmp_path / "seq.npy", CLIPS[..., 0].swapaxes(0, 1))
    dataset = _recipe(tmp_path / "seq.npy").build("test", 10)
    assert len(dataset) == 3 and dataset.max_frames == 12
    assert np.array_equal(dataset[2].frames, CLIPS[2, :10])
    assert dataset[2].id == "test/2"
    with pytest.raises(ValueError, match=r"seq.npy: .* test clips only"):
        _recipe(tmp_path / "seq.npy").build("train", 10)


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((12, 3, 8, 8), np.float32), "is float32"),
        (np.zeros((12, 3, 8, 9), np.uint8), r"\(12, 3, 8, 9\); must be uint8 \(t, n, 8, 8\)"),
        (np.zeros((12, 8, 8), np.uint8), r"\(12, 8, 8\)"),
        (np.zeros((12, 0, 8, 8), np.uint8), "it holds no clip"),
        (np.zeros((9, 3, 8, 8), np.uint8), "has clips of 9 frames; 10 are asked for"),
        (np.array([None]), "not a readable .npy file"),
    ],
)
def test_wrong_npy_is_refused_by_name(tmp_path, array, message):
    np.save(tmp_path / "seq.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=f"seq.npy: .*{message}"):
        _recipe(tmp_path / "seq.npy").build("test", 10)


def test_damaged_npy_is_refused_by_name(tmp_path):
    np.save(tmp_path / "whole.npy", np.zeros((12, 3, 8, 8), np.uint8))
    for name, content in (("empty", b""), ("text", b"hello"), ("cut", (tmp_path / "whole.npy").read_bytes()[:500])):
        (tmp_path / f"{name}.npy").write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}.npy: not a readable"):
            _recipe(tmp_path / f"{name}.npy").build("test", 10)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.dtype(">f4")])
def test_tree_of_single_clips(tmp_path, save, dtype):
    dataset = _recipe(_tree(tmp_path, CLIPS.astype(dtype), save=save)).build("test", 10)
    assert len(dataset) == 3 and dataset.max_frames == 12
    for i, source in enumerate((0, 2, 1)):  # files 0 and 2 lie in folder 0
        assert np.array_equal(dataset[i].frames, CLIPS[source, :10])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_tree_of_files_with_several_clips(tmp_path, save):
    arrays = [CLIPS[:1].astype(np.float32), CLIPS[0], CLIPS[1:].astype(np.float32)]  # in order: files 0, 2 and 1
    dataset = _recipe(_tree(tmp_path, arrays, split="train", save=save)).build("train", 12)
    assert [dataset[i].id for i in range(4)] == ["train/0", "train/1", "train/2", "train/3"]
    for i, source in enumerate((0, 1, 2, 0)):
        assert np.array_equal(dataset[i].frames, CLIPS[source])


def test_float_clips_are_rounded(tmp_path):
    values = np.full((1, 12, 8, 8, 1), 99.6, np.float32)
    assert (_recipe(_tree(tmp_path, values)).build("test", 1)[0].frames == 100).all()


@pytest.mark.parametrize(
    "array, message",
    [
        (CLIPS[0].astype(np.int32), "dtype of data is int32; must be uint8, or float"),
        (CLIPS[0, :, :7], r"shape \(12, 7, 8, 1\); must be \(t, 8, 8, 1\)"),
        (CLIPS[0, ..., 0], r"shape \(12, 8, 8\)"),
        (CLIPS[0, :9], "has clips of 9 frames; 10 are asked for"),
        (CLIPS[:0], "holds no clip"),
        (np.asfortranarray(CLIPS[0]), "Fortran order"),
        (np.array([None, {}]), "pickled objects"),
    ],
)
def test_wrong_arrays_are_refused_when_built(tmp_path, array, message):
    with pytest.raises(ValueError, match=f"000.npz: .*{message}"):
        _recipe(_tree(tmp_path, [array])).build("test", 10)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x: x / 255, r"0\.0\.\.1\.0, as if .* must be 0..255"),
        (lambda x: x - 128, r"-128.0..127.0; must be 0..255"),
        (lambda x: x * 2, "must be 0..255"),
        (lambda x: x * np.nan, "nan"),
    ],
)
def test_wrong_ranges_are_refused_when_read(tmp_path, change, message):
    clip = CLIPS[:1].astype(np.float32)
    clip[0, 0, 0, :2, 0] = 0, 255
    with pytest.raises(ValueError, match=f"000.npz: values of data lie in .*{message}"):
        _recipe(_tree(tmp_path, change(clip))).build("test", 10)[0]


def test_black_float_clips_are_fine(tmp_path):
    assert _recipe(_tree(tmp_path, np.zeros((1, 12, 8, 8, 1), np.float32))).build("test", 10)[0].frames.max() == 0


def test_wrong_key_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"000.npz: has no key 'data'; its keys are: video"):
        _recipe(_tree(tmp_path, CLIPS[:1], key="video")).build("test", 10)


def test_damaged_npz_are_refused_by_name(tmp_path):
    path = _tree(tmp_path, CLIPS[:1]) / "test/0/000.npz"
    content = path.read_bytes()
    for damaged in (b"", b"hello", content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"000.npz: damaged, or not an .npz file"):
            _recipe(tmp_path).build("test", 10)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.npy", b"no array")
    with pytest.raises(ValueError, match=r"000.npz: damaged: data has no array header"):
        _recipe(tmp_path).build("test", 10)
    np.save(tmp_path / "data.npy", CLIPS[0])
    with zipfile.ZipFile(path, "w") as archive:  # the header promises more than there is
        archive.writestr("data.npy", (tmp_path / "data.npy").read_bytes()[:300])
    with pytest.raises(ValueError, match=r"000.npz: damaged: it ends within clip 0"):
        _recipe(tmp_path).build("test", 10)[0]


def test_encrypted_npz_and_sizes_below_0_are_refused_by_name(tmp_path):
    [path] = _tree(tmp_path, CLIPS[:1]).glob("test/*/*.npz")
    whole = path.read_bytes()
    entry = whole.index(b"PK\x01\x02")
    locked = bytearray(whole)
    locked[6] |= 1  # the flag "encrypted", before the array and in the table at the end
    locked[entry + 8] |= 1
    for content, message in ((bytes(locked), "is encrypted"), (whole.replace(b"(12, 8", b"(-2, 8"), r"shape \(-2, 8")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path.name}: .*{message}"):
            _recipe(tmp_path).build("test", 5)


def test_corrupt_compressed_values_are_refused_by_name(tmp_path):
    path = _tree(tmp_path, CLIPS[:1], save=np.savez_compressed) / "test/0/000.npz"
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"000.npz: damaged"):
        _recipe(tmp_path).build("test", 12)[0]


def test_missing_places_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no clips at train/"):
        _recipe(_tree(tmp_path, CLIPS)).build("train", 10)
    with pytest.raises(ValueError, match=r"nowhere'.*must be an .npy file or a folder"):
        _recipe(tmp_path / "nowhere").build("test", 10)
