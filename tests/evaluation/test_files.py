"""Clips that lie in files: the numbers of a rollout come back, and what cannot be scored is named."""

import json

import av
import numpy as np
import pytest
import torch
from PIL import Image

from videopred import cli
from videopred.clip import to_float
from videopred.evaluation import blocks, evaluate, evaluate_files, table
from videopred.evaluation.shown import shown_files
from videopred.metrics import FVDConfig, PSNRConfig

PROTOCOL = """
num_clips = 3
context = 2
horizon = 3
recipe = "moving-mnist-small"
metrics = [{ kind = "psnr" }, { kind = "ssim" }]
"""


@pytest.fixture
def written(tmp_path):
    """Writes arrays by name and gives the path."""

    def write(name, **arrays):
        path = tmp_path / name
        np.save(path, arrays["video"]) if name.endswith(".npy") else np.savez(path, **arrays)
        return path

    return write


def videos(n=3, t=5, channels=1, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, t, 12, 14, channels), np.uint8)


def test_what_a_rollout_saved_scores_as_the_rollout_did(protocol, predictor, tmp_path):
    """Samples, ids and the trivial rows included; quantised once, not twice."""
    for quantise in ("round", "truncate"):
        p, folder = protocol(samples=2, quantise=quantise), tmp_path / quantise
        direct = evaluate(predictor(p, noise=0.1), p, batch_size=3, save_clips=folder)
        stored = evaluate_files(folder, folder, p, name="model")
        for key in stored.arrays:
            np.testing.assert_array_equal(stored.arrays[key], direct.arrays[key])
        rows = [row["name"] for row in direct.data["rows"] if row["name"] != "mean-image"]
        assert [row["name"] for row in stored.data["rows"]] == rows
        assert stored.data["rows"][0]["samples"] == 2 and stored.data["rows"][0]["warnings"] == []
        assert blocks.ground(stored.data) == blocks.ground(direct.data)
        text = table.render([direct.data, stored.data], "table", ["rolled out", "stored"])
        assert "model [rolled out]" in text and "model [stored]" in text


def test_tables_only_of_the_same_true_clips(protocol, written):
    p = protocol(context=2, horizon=3)
    real, other = written("real.npz", real=videos()), written("other.npz", real=videos(seed=9))
    first, second = (evaluate_files(written(f"{i}.npz", fake=videos(seed=i)), real, p).data for i in (1, 2))
    assert blocks.ground(first) == blocks.ground(second)
    assert "over best trivial: 1" in table.render([first, second], "table")
    with pytest.raises(ValueError, match="data: "):
        table.render([first, evaluate_files(written("3.npz", fake=videos(seed=3)), other, p).data], "table")


def test_predictions_of_the_same_true_clips_pair_whatever_files_are_called(protocol, written):
    """Rows of other clips are not left out in silence."""
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    both, other = written("both.npz", real=videos(), fake=videos(seed=1)), written("other.npy", video=videos())
    first, second = evaluate_files(both, both, p).data, evaluate_files(written("2.npy", video=videos(seed=2)), other, p)
    text = table.render([first, second.data], "table", against="both")
    line = next(line for line in text.splitlines() if line.startswith("2 ") and line.endswith("of 3"))
    apart = np.subtract(*(x["rows"][0]["metrics"]["psnr"]["per_clip"] for x in (second.data, first)))
    assert f"{apart.mean():+.4f}" in line or f"{apart.mean():+.2f}" in line
    assert "in common" not in text
    named = written("named.npz", real=videos(), fake=videos(seed=3), clip_ids=["a", "b", "c"])
    third = evaluate_files(named, named, p).data
    assert third["rows"][0]["clip_ids"] == ["a", "b", "c"]
    text = table.render([first, third], "table", against="both")
    assert "note: named: fewer than 2 clips in common with both" in text


def test_true_clips_that_come_again_keep_the_names_of_predictions(protocol, written):
    """Their targets are samples of one clip, as `--save-clips` writes them; the predictions say nothing of samples."""
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    real = written("real.npz", real=videos(n=2)[[0, 0, 1, 1]], clip_ids=["a", "a", "b", "b"], sample=[0, 1, 0, 1])
    row = evaluate_files(written("fake.npz", fake=videos(n=4, seed=1)), real, p).data["rows"][0]
    assert row["clip_ids"] == [f"fake.npz/{i}" for i in range(4)] and row["samples"] == 1
    fake = written("fake.npz", fake=videos(n=4, seed=1), clip_ids=["x", "x", "y", "y"], sample=[0, 1, 0, 1])
    row = evaluate_files(fake, written("real.npy", video=videos(n=2)[[0, 0, 1, 1]]), p).data["rows"][0]
    assert row["clip_ids"] == ["0", "2"] and row["samples"] == 2


def test_floats_in_one_file_and_the_horizon_alone(protocol, written):
    """Floats are brought to uint8 as the protocol says; without context there are no trivial rows."""
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(), FVDConfig(context="in")))
    real, fake = videos(), videos(seed=1)
    want = evaluate_files(written("a.npz", fake=fake), written("b.npz", real=real), p)
    pair = written("pair.npz", real=real / 255, fake=fake.astype(np.float32) / 255)
    np.testing.assert_array_equal(
        evaluate_files(pair, pair, p).arrays["pair/psnr/values"], want.arrays["a/psnr/values"]
    )
    alone = evaluate_files(written("c.npy", video=fake[:, 2:]), written("d.npy", video=real[:, 2:]), p)
    np.testing.assert_array_equal(alone.arrays["c/psnr/values"], want.arrays["a/psnr/values"])
    assert len(alone.data["rows"]) == 1
    mixed = evaluate_files(written("c.npy", video=fake[:, 2:]), written("b.npz", real=real), p)
    np.testing.assert_array_equal(mixed.arrays["c/psnr/values"], want.arrays["a/psnr/values"])


def test_videos_are_lossy_and_said_to_be(protocol, tmp_path, written):
    frames = videos(n=1, t=5, channels=3)[0].repeat(4, 1).repeat(4, 2)
    with av.open(str(tmp_path / "clip.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 56, 48, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    data = evaluate_files(tmp_path / "clip.mp4", written("real.npz", real=frames[None]), p).data
    assert data["rows"][0]["metrics"]["psnr"]["mean"] < 100
    assert data["rows"][0]["warnings"] == ["predictions are lossy (clip.mp4): scores include what its codec lost"]
    assert "warning: clip: predictions are lossy" in table.render([data], "table")


def test_pictures_in_jpeg_are_lossy_and_said_to_be(protocol, tmp_path, written):
    """As the folder that is given, or as a clip in it."""
    frames = videos(n=1, channels=3)
    for suffix in ("jpg", "png"):
        (tmp_path / suffix / "clip").mkdir(parents=True)
        for i, frame in enumerate(frames[0]):
            Image.fromarray(frame).save(tmp_path / suffix / "clip" / f"{i}.{suffix}")
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    real = written("real.npz", real=frames)
    for path in (tmp_path / "jpg", tmp_path / "jpg" / "clip"):
        row = evaluate_files(path, real, p).data["rows"][0]
        assert row["warnings"] == ["predictions are lossy (0.jpg): scores include what its codec lost"]
    row = evaluate_files(tmp_path / "png", real, p).data["rows"][0]
    assert row["warnings"] == [] and row["metrics"]["psnr"]["mean"] == 100


def test_kept_parts_are_of_one_name(protocol, written, tmp_path):
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    pair = written("pair.npz", real=videos(), fake=videos(seed=1))
    first, other = (evaluate_files(pair, pair, p, name=name, keep=tmp_path / "keep") for name in ("one", "two"))
    assert other.data["rows"][0]["name"] == "two"
    assert other.data["rows"][0]["metrics"] == first.data["rows"][0]["metrics"]


def test_a_clip_that_is_not_finite_is_named_and_the_rest_kept(protocol, written):
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    fake = videos(seed=1) / 255
    real = written("real.npz", real=videos())
    whole = evaluate_files(written("whole.npz", fake=fake), real, p).arrays["whole/psnr/values"]
    fake[1, 3, 5, 5] = np.nan
    result = evaluate_files(written("fake.npz", fake=fake), real, p)
    assert result.data["rows"][0]["failed_clips"] == {"1": 2}
    np.testing.assert_array_equal(result.arrays["fake/psnr/values"], whole[[0, 2]])


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (videos(n=2), "holds 2 clips, .*real.npz holds 3"),
        (videos(t=4), "clip fake.npz/0: 4 predicted and 5 true frames; protocol 'sliding' needs 5"),
        (videos(channels=3), "clip fake.npz/0: predictions are 12 x 14 x 3, targets are 12 x 14 x 1"),
        (videos() / 127.5 - 1, r"clip fake.npz/0: predictions range over \[-1, 1\]"),
        (videos().astype(np.float32), r"range over \[0, 255\]; must be uint8, or floating in \[0, 1\]"),
        (videos(channels=4), "predictions have 4 channels; must be 1 or 3"),
    ],
)
def test_what_does_not_fit_is_refused(protocol, written, fake, message):
    p = protocol(context=2, horizon=3)
    with pytest.raises(ValueError, match=message):
        evaluate_files(written("fake.npz", fake=fake), written("real.npz", real=videos()), p)


def test_the_command(written, empty_folder, capsys):
    (empty_folder / "mine.toml").write_text(PROTOCOL)
    fake, real = written("fake.npz", fake=videos(seed=1)), written("real.npz", real=videos())
    assert cli.main(["eval", "--predictions", str(fake), "--targets", str(real), "mine.toml"]) == 0
    out = capsys.readouterr().out
    data = json.loads((empty_folder / "eval/results/fake-mine.json").read_text())
    assert f"{data['rows'][0]['metrics']['psnr']['mean']:.2f}" in out and "copy-last-frame" in out
    assert data["checkpoint"] == {"name": "fake", "predictions": str(fake), "targets": str(real)}
    for wrong in (["mine.toml"], ["x", "mine.toml", "--predictions", str(fake)], ["--targets", str(real), "mine.toml"]):
        assert cli.main(["eval", *wrong]) == 2
        assert "give CHECKPOINT PROTOCOL, or --predictions PATH --targets PATH" in capsys.readouterr().err
    for option in (["--clips", "2"], ["--batch-size", "2"]):
        assert cli.main(["eval", "--predictions", str(fake), "--targets", str(real), "mine.toml", *option]) == 2
        assert "files are scored as they are" in capsys.readouterr().err
    if not torch.cuda.is_available():  # where the metrics are computed
        wrong = ["eval", "--predictions", str(fake), "--targets", str(real), "mine.toml", "--device", "cuda"]
        assert cli.main(wrong) == 2 and "torch finds no GPU here" in capsys.readouterr().err
    assert cli.main(["eval", "--predictions", "no.npz", "--targets", str(real), "mine.toml"]) == 2
    assert "no.npz: no such file" in capsys.readouterr().err


def test_the_horizon_of_floats_is_what_models_give(protocol, written):
    """A frame as a model gives it, in [0, 1] in place of [-1, 1], comes to the same uint8."""
    real = videos()
    floats = to_float(torch.from_numpy(real)).movedim(-3, -1).add(1).div(2).numpy()
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    data = evaluate_files(written("fake.npz", fake=floats), written("real.npz", real=real), p).data
    assert data["rows"][0]["metrics"]["psnr"]["mean"] == 100


def test_predictions_called_as_a_trivial_row_are_not_taken_for_it(protocol, written):
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    real = written("real.npz", real=videos())
    want = evaluate_files(written("mine.npz", fake=videos(seed=1)), real, p)
    rows = evaluate_files(written("blank.npz", fake=videos(seed=1)), real, p).data["rows"]
    assert [row["name"] for row in rows[:2]] == ["blank (model)", "copy-last-frame"]
    assert rows[0]["metrics"] == want.data["rows"][0]["metrics"]


def test_a_folder_without_a_name_gives_the_row_one(protocol, written, tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    written("inside/a.npz", real=videos(), fake=videos())
    monkeypatch.chdir(tmp_path / "inside")
    assert evaluate_files(".", ".", protocol(context=2, horizon=3)).data["rows"][0]["name"] == "inside"


def test_an_array_that_is_not_compressed_is_not_read_past_damage(protocol, written):
    path = written("pair.npz", real=videos(), fake=videos(seed=1))
    content = bytearray(path.read_bytes())
    content[600] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"pair\.npz: damaged: real\.npy is not what was written"):
        evaluate_files(path, path, protocol(context=2, horizon=3))


@pytest.mark.parametrize("kind", [">f4", np.longdouble])
def test_floats_of_any_width_and_byte_order(protocol, written, kind):
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    plain, other = (
        written(f"{i}.npz", real=videos(), fake=(videos(seed=1) / 255).astype(k)) for i, k in ((1, float), (2, kind))
    )
    want, got = (evaluate_files(path, path, p, name="x").arrays["x/psnr/values"] for path in (plain, other))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("fake", "real", "message"),
    [
        ({"clip_ids": ["a", "b"]}, {}, "fake.npz: its clip_ids has 2 values for 3 clips"),
        ({"clip_ids": np.array([], "U1")}, {}, "its clip_ids has 0 values for 3 clips"),
        ({"clip_ids": ["a", "b", "a"]}, {}, "fake.npz: sample 0 of clip a comes twice"),
        ({"clip_ids": ["a", "b", "c"]}, {"clip_ids": ["b", "c", "a"]}, "say clip a where targets say clip b"),
        ({"sample": np.nan}, {}, "fake.npz: its sample is nan; must be a whole number"),
        ({"sample": "x"}, {}, "its sample is 'x'; must be a whole number"),
        ({"sample": 1}, {}, r"clip fake.npz/0 has 1 sample\(s\), one is number 1, .*; must be as many of every clip"),
        ({"clip_ids": ["a", "a", "b"], "sample": [0, 1, 0]}, {}, r"clip b has 1 sample\(s\)"),
        ({"context": 3}, {}, r"clip fake.npz/0: was predicted after 3 frames, .*protocol 'sliding' has context 2"),
        ({"context": [2, 3]}, {}, "its context has 2 values for 1 clips"),
    ],
)  # fmt: skip
def test_what_a_file_says_of_its_clips_must_fit(protocol, written, fake, real, message):
    """Scores of other clips, of fewer predicted frames or of one clip twice would be wrong without a word."""
    fake, real = written("fake.npz", fake=videos(seed=1), **fake), written("real.npz", real=videos(), **real)
    with pytest.raises(ValueError, match=message):
        evaluate_files(fake, real, protocol(context=2, horizon=3))


def test_a_report_shows_the_clips(protocol, written):
    """With the context where the targets have it, without where not; those of a result alone cannot be had."""
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),), quantise="truncate")
    fake, real = videos(seed=1), videos()
    for name, context in (("whole", 2), ("alone", 0)):
        files = [written(f"{name}{side}.npy", video=x[:, 2 - context :] / 255) for side, x in ((0, fake), (1, real))]
        result = evaluate_files(*files, p, name="mine").data
        clips = shown_files(*files, p, result)
        best = np.argmax(result["rows"][0]["metrics"]["psnr"]["per_clip"])
        assert len(clips) == 3 and clips[0].context == context and clips[0].title.endswith(f": {best}")
        truth, mine = clips[0].panes["truth"].astype(int), clips[0].panes["mine"].astype(int)
        assert (truth[:context] == mine[:context]).all() and len(truth) == len(mine) == 3 + context
        assert abs(truth - real[best, 2 - context :]).max() <= 1
        assert abs(mine[context:] - fake[best, 2:]).max() <= 1


def test_a_report_by_the_commands(written, empty_folder, capsys):
    (empty_folder / "mine.toml").write_text(PROTOCOL)
    fake, real = written("fake.npz", fake=videos(seed=1)), written("real.npz", real=videos())
    words = ["eval", "--predictions", str(fake), "--targets", str(real), "mine.toml", "--report", "page.html"]
    assert cli.main([*words, "--name", "a/b"]) == 0
    assert capsys.readouterr().err.endswith("videopred: report in page.html\n")
    page = (empty_folder / "page.html").read_text()
    assert page.count("<figure") == 3 and "<span>a/b</span>" in page
    path = "eval/results/a-b-mine.json"
    assert json.loads((empty_folder / path).read_text())["rows"][0]["name"] == "a/b"
    assert cli.main(["table", path, "--report", "table.html"]) == 0
    why = "no clips of a/b in the report: they were predicted elsewhere"
    assert why in capsys.readouterr().err and why in (empty_folder / "table.html").read_text()
    assert cli.main(["eval", "x", "mine.toml", "--name", "y"]) == 2
    assert "--name is for --predictions" in capsys.readouterr().err


def test_what_will_not_be_computed_is_said_before_the_work(protocol, written, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("VIDEOPRED_HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("videopred.evaluation.files.collect", lambda *_: pytest.fail(capsys.readouterr().err))
    pair = written("pair.npz", real=videos(), fake=videos(seed=1))
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(), FVDConfig()))
    with pytest.raises(
        pytest.fail.Exception, match="fvd will not be computed: weights missing: run `videopred weights"
    ):
        evaluate_files(pair, pair, p, progress=True)


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((3, 5, 12, 14), r"x\[\.\.\., None\]"),
        ((1, 5, 12, 14), r"x\[\.\.\., None\]"),
        ((5, 3, 12, 14), r"np\.moveaxis\(x, -3, -1\)"),
        ((3, 5, 1, 12, 14), r"np\.moveaxis\(x, -3, -1\)"),
        ((2, 3, 5, 12, 14), r"np\.moveaxis\(x, -4, -1\)"),
    ],
)
def test_arrays_of_another_shape_have_a_hint(protocol, written, shape, hint):
    path = written("a.npy", video=np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match=rf"a\.npy: frames have shape .*{hint}"):
        evaluate_files(path, path, protocol(context=2, horizon=3))


def test_a_default_name_is_not_taken_from_other_files(written, empty_folder, capsys):
    (empty_folder / "mine.toml").write_text(PROTOCOL)
    (empty_folder / "b").mkdir()
    real = written("real.npz", real=videos())
    for folder, code in (("", 0), ("", 0), ("b/", 2)):
        fake = np.savez(empty_folder / folder / "fake.npz", fake=videos(seed=1)) or f"{folder}fake.npz"
        assert cli.main(["eval", "--predictions", fake, "--targets", str(real), "mine.toml"]) == code
    assert "holds the result of predictions fake.npz against" in capsys.readouterr().err


def test_more_than_ten_saved_files_come_in_the_order_they_were_made(protocol, predictor, tmp_path):
    p = protocol(
        num_clips=9, samples=2, group_size=4, metrics=(PSNRConfig(),)
    )  # data_10 is of clip 5, data_2 of clip 1
    direct = evaluate(predictor(p, noise=0.1), p, batch_size=1, save_clips=tmp_path / "clips")
    stored = evaluate_files(tmp_path / "clips", tmp_path / "clips", p, name="model")
    assert stored.data["rows"][0]["clip_ids"] == direct.data["rows"][0]["clip_ids"]
    assert stored.data["rows"][0]["metrics"] == direct.data["rows"][0]["metrics"]  # groups included
    assert blocks.ground(stored.data) == blocks.ground(direct.data)


def test_names_need_not_be_text(written, empty_folder):
    """Of files that are scored, of results whose rows they tell apart, and in a report."""
    (empty_folder / "mine.toml").write_text(PROTOCOL)
    fake, real = written("a\udcfe.npz", fake=videos(seed=1)), written("real.npz", real=videos())
    outs = [str(empty_folder / f"{i}\udcff.json") for i in range(2)]
    for out in outs:
        assert cli.main(["eval", "--predictions", str(fake), "--targets", str(real), "mine.toml", "--out", out]) == 0
    assert cli.main(["table", *outs, "--report", "page.html"]) == 0
    page = (empty_folder / "page.html").read_text()
    assert "a\\udcfe [0\\udcff]" in page and "a\\udcfe [1\\udcff]" in page
