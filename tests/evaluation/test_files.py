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


def test_more_than_ten_files_keep_their_order(protocol, predictor, tmp_path):
    """data_2 stands before data_10, so that groups and the hash of the data are those of the rollout."""
    p = protocol(samples=2, group_size=4, num_clips=6, metrics=(PSNRConfig(),))
    direct = evaluate(predictor(p, noise=0.1), p, batch_size=1, save_clips=tmp_path)  # data_0 to data_11
    stored = evaluate_files(tmp_path, tmp_path, p, name="model")
    assert stored.data["rows"][0]["clip_ids"] == direct.data["rows"][0]["clip_ids"]
    assert blocks.ground(stored.data) == blocks.ground(direct.data)
    assert stored.data["rows"][0]["metrics"] == direct.data["rows"][0]["metrics"]


def test_files_that_are_named_like_a_trivial_row_keep_their_numbers(protocol, written):
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    pair = written("blank.npz", real=videos(), fake=videos())
    data = evaluate_files(pair, pair, p).data
    scores = {row["name"]: row["metrics"]["psnr"]["mean"] for row in data["rows"]}
    assert scores["blank (model)"] == 100 and scores["blank"] < 10


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
    assert result.data["rows"][0]["failed_clips"] == {"fake.npz/1": 2}
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


def test_clips_that_are_named_must_meet_their_own(protocol, written):
    p, ids = protocol(context=2, horizon=3, metrics=(PSNRConfig(),)), np.array(["a", "b", "c"])
    fake = written("fake.npz", fake=videos(), clip_ids=ids)
    assert evaluate_files(fake, written("real.npz", real=videos(), clip_ids=ids), p).data["rows"][0]["clips"] == 3
    with pytest.raises(ValueError, match="clip b of predictions meets clip c of targets; both must be in the same"):
        evaluate_files(fake, written("other.npz", real=videos()[[0, 2, 1]], clip_ids=ids[[0, 2, 1]]), p)


def test_without_the_first_samples_no_one_could_tell_whose_clips_they_are(protocol, written):
    p = protocol(context=2, horizon=3, metrics=(PSNRConfig(),))
    pair = written("pair.npz", real=videos(), fake=videos(), sample=1)
    with pytest.raises(ValueError, match=r"the first sample \(0\) of a clip is missing"):
        evaluate_files(pair, pair, p)


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
