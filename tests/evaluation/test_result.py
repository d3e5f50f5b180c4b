"""Result files: complete, without NaN, written whole or not at all."""

import json
import resource

import numpy as np
import pytest

from videopred.evaluation import evaluate
from videopred.evaluation.result import Result, plain, read, require_writable, write


def test_what_is_written_is_what_was_measured(protocol, predictor, tmp_path):
    p = protocol()
    result = evaluate(predictor(p), p, checkpoint={"name": "slider", "hash": "abc", "step": 7, "config": {"a": 1}})
    path = result.save(tmp_path / "new" / "slider.json")
    data = read(path)
    assert data == result.data and set(data) == {"protocol", "checkpoint", "environment", "seconds", "rows"}
    assert data["checkpoint"] == {"name": "slider", "hash": "abc", "step": 7, "config": {"a": 1}}
    assert data["rows"][0]["name"] == "slider"
    with np.load(path.with_suffix(".npz")) as arrays:
        assert sorted(arrays) == sorted(result.arrays)
        for row in data["rows"]:
            values = arrays[f"{row['name']}/ssim/values"]
            assert values.shape == (row["clips"], row["samples"], 4)
            np.testing.assert_array_equal(values.mean((1, 2)), row["metrics"]["ssim"]["per_clip"])
            ink = arrays[f"{row['name']}/ink/predicted"].sum((0, 1)) / arrays[f"{row['name']}/ink/true"].sum((0, 1))
            np.testing.assert_allclose(ink, row["metrics"]["ink"]["per_frame"])
    assert sorted(path.name for path in path.parent.iterdir()) == ["slider.json", "slider.npz"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")

    def fill(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, fill)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_pair(protocol, predictor, tmp_path):
    p = protocol()
    result = evaluate(predictor(p), p)
    path = result.save(tmp_path / "r.json")
    before = {name: (tmp_path / name).read_bytes() for name in ("r.json", "r.npz")}
    sizes = sorted(len(data) for data in before.values())
    other = Result(result.data | {"checkpoint": {"name": "x"}}, {k: v * 2 for k, v in result.arrays.items()})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (100, sum(sizes) // 2):  # neither file fits; only the smaller one does
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large") as error:
                other.save(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert error.value.filename == str(path)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_what_is_not_quite_a_result_is_named(protocol, predictor, tmp_path):
    p = protocol()
    path, cell = evaluate(predictor(p), p).save(tmp_path / "r.json"), {"mean": 1.0, "stderr": None}
    for keys, value, message in (
        (["rows"], [], "it has no rows"),
        (["rows"], [3], r"rows\[0\] is not a table"),
        (["rows"], {"a": 1}, "it has no rows"),
        (["rows", 0, "metrics"], None, r"rows\[0\] has no metrics"),
        (["rows", 1, "metrics"], {"psnr": {}}, r"rows\[1\].metrics has no ssim"),
        (["rows", 0, "metrics", "psnr"], {}, "psnr has no mean"),
        (["rows", 0, "metrics", "psnr", "windows", "1"], 3, "psnr.windows.1 is not a table"),
        (["rows", 0, "step_ms"], "fast", "has no step_ms"),
        (["rows", 0, "frames_per_second"], None, "has no frames_per_second"),
        (["protocol", "hash"], 5, "protocol has no hash"),
        (["environment"], "cpu", "it has no environment"),
        (["protocol", "recipe"], {}, "protocol.recipe has no kind"),
        (["protocol", "data"], [], "protocol has no data"),
        (["protocol", "metrics"], [3], "protocol.metrics is not a list, or an item is of another type"),
        (["seconds"], None, "seconds is not a table"),
        (["seconds", "data"], "long", "seconds has no data, or of another type"),
        (["rows", 0, "clip_ids", 0], [], r"rows\[0\].clip_ids is not a list, or an item"),
        (["rows", 0, "warnings"], 3, "warnings is not a list"),
        (["rows", 0, "metrics", "psnr", "windows"], {}, "psnr has no windows"),
        (["rows", 1, "metrics", "psnr", "windows"], {"1-3": cell}, "rows do not have psnr over the same windows"),
        (["rows", 0, "metrics", "psnr", "better"], "more", "better = 'more', not one of higher, lower, one"),
        (["rows", 0, "metrics", "psnr", "per_frame", 0], "x", "psnr.per_frame is not a list"),
        (["rows", 0, "metrics", "psnr", "per_frame_stderr"], [1.0], "another count of frames or clips"),
        (["rows", 0, "metrics", "psnr", "per_clip"], [1.0], "another count of frames or clips"),
        (["rows", 0, "metrics", "psnr", "group_mean"], 1.0, "psnr has no group_std"),
        (["rows", 0, "metrics", "psnr", "best_of"], {"samples": 2, "windows": {}}, "best_of has no mean"),
        (["rows", 0, "metrics", "psnr", "revisit"], {"seen": {}}, "revisit has no difference"),
        (["rows", 0, "codes"], {"usage": 0.5}, "codes has no perplexity"),
    ):
        data = part = json.loads(path.read_text())
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        (tmp_path / "other.json").write_text(json.dumps(data))
        with pytest.raises(ValueError, match=f"other.json: not a result .*{message}"):
            read(tmp_path / "other.json")


def test_nan_becomes_null():
    assert plain(np.array([[1.0, np.nan], [np.inf, 2.0]])) == [[1.0, None], [None, 2.0]]
    assert json.dumps(plain(np.float32(0.5)), allow_nan=False) == "0.5"


def test_bad_places_and_files(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.json"):
        require_writable(tmp_path / "result.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written: what should be its folder is a file"):
        require_writable(tmp_path / "file" / "result.json")
    for name, text, message in (
        ("empty.json", "", "not JSON"),
        ("list.json", "[1]", "not a result"),
        ("deep.json", "[" * 100_000, "not JSON"),
        ("nan.json", '{"protocol": NaN}', "not JSON .*it holds NaN; what is undefined must be null"),
        ("other.json", '{"protocol": {}}', "not a result"),
        ("missing.json", None, "cannot be read: No such file"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=f"{name}: {message}"):
            read(tmp_path / name)
