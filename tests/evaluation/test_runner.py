"""evaluate(): what is scored, over which clips, and what happens when something fails."""

import json
import math

import numpy as np
import pytest
import torch

from videopred.clip import to_float, to_uint8
from videopred.evaluation import evaluate
from videopred.metrics import PSNRConfig
from videopred.metrics.psnr import psnr

ROWS = ["model", "copy-last-frame", "mean-of-context", "blank", "mean-image"]


def truth(protocol):
    """All clips of a protocol, uint8 (n, t, h, w, c)."""
    dataset = protocol.recipe.build(protocol.split, protocol.frames)
    return torch.stack([dataset[i].frames for i in protocol.indices])


def test_a_perfect_model_is_scored_perfect(protocol, predictor):
    p = protocol()
    data = evaluate(predictor(p), p).data
    model = data["rows"][0]
    assert [row["name"] for row in data["rows"]] == ROWS
    assert {name: m["mean"] for name, m in model["metrics"].items()} == pytest.approx(
        {"psnr": 100, "ssim": 1, "ink": 1, "energy": 1}
    )
    assert model["metrics"]["psnr"]["capped_frames"] == 5 * 4
    assert model["metrics"]["psnr"]["per_frame"] == [100.0] * 4 and len(model["metrics"]["psnr"]["per_clip"]) == 5
    assert model["clip_ids"] == [f"test/{i}" for i in range(5)]
    assert (model["clips"], model["samples"], model["seed"], model["failed_clips"]) == (5, 1, 0, {})
    assert model["parameters"] == 1 and model["flops_per_frame"] == 2 * 12 * 12
    assert model["step_ms"] > 0
    assert model["frames_per_second"] == pytest.approx(model["batch_size"] * 1000 / model["step_ms"])
    assert {key: value for key, value in data["protocol"].items() if key != "data"} == p.to_dict()
    assert data["environment"]["threads"] == torch.get_num_threads()


def test_trivial_rows(protocol, predictor):
    p = protocol()
    rows = {row["name"]: row["metrics"] for row in evaluate(predictor(p), p).data["rows"]}
    clips, future = truth(p), truth(p)[:, 3:]
    last = clips[:, 2:3].expand_as(future)
    np.testing.assert_allclose(rows["copy-last-frame"]["psnr"]["per_frame"], psnr(last, future).mean(0))
    np.testing.assert_allclose(rows["blank"]["psnr"]["per_frame"], psnr(torch.zeros_like(future), future).mean(0))
    mean = clips[:, :3].double().mean(1, keepdim=True).round().byte().expand_as(future)
    np.testing.assert_allclose(rows["mean-of-context"]["psnr"]["per_frame"], psnr(mean, future).mean(0), atol=1e-3)
    assert rows["blank"]["ink"]["per_frame"] == [0.0] * 4
    train = p.recipe.build("train", p.frames)
    mean = torch.stack([train[i].frames for i in range(5)]).double().mean((0, 1)).round().byte().expand_as(future)
    np.testing.assert_allclose(rows["mean-image"]["psnr"]["per_frame"], psnr(mean, future).mean(0))


def test_windows_and_errors_are_over_clips(protocol, predictor):
    p = protocol(horizon=25)
    entry = evaluate(predictor(p), p).data["rows"][1]["metrics"]["psnr"]
    values = psnr(truth(p)[:, 2:3].expand(-1, 25, -1, -1, -1), truth(p)[:, 3:]).numpy()
    assert list(entry["windows"]) == ["1", "1-20", "1-25"]
    for window, last in (("1", 1), ("1-20", 20), ("1-25", 25)):
        clips = values[:, :last].mean(1)
        error = clips.std(ddof=1) / math.sqrt(5)
        assert entry["windows"][window] == pytest.approx({"mean": clips.mean(), "stderr": error})
    assert entry["mean"] == entry["windows"]["1-25"]["mean"]
    np.testing.assert_allclose(entry["per_frame_stderr"], values.std(0, ddof=1) / math.sqrt(5))


@pytest.mark.parametrize("size", [1, 2, 9])
def test_batches_do_not_change_numbers(protocol, predictor, size):
    p = protocol(samples=2, clips=(7, 0, 3, 8, 1))
    whole, pieces = (evaluate(predictor(p, noise=0.1), p, batch_size=b) for b in (5, size))
    assert whole.data["rows"][0]["clip_ids"] == ["test/7", "test/0", "test/3", "test/8", "test/1"]
    assert whole.arrays.keys() == pieces.arrays.keys() and whole.arrays["model/psnr/values"].shape == (5, 2, 4)
    for key in whole.arrays:
        np.testing.assert_array_equal(whole.arrays[key], pieces.arrays[key])


def test_samples_differ_and_repeat(protocol, predictor):
    p = protocol(samples=3)
    first, again = (evaluate(predictor(p, noise=0.1), p).arrays["model/psnr/values"] for _ in range(2))
    other = evaluate(predictor(p, noise=0.1), protocol(samples=3, seed=1)).arrays["model/psnr/values"]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[:, 0], first[:, 1]) and not np.array_equal(first, other)


def test_a_deterministic_model_is_rolled_out_once(protocol, predictor):
    p = protocol(samples=3)
    assert evaluate(predictor(p), p).data["rows"][0]["samples"] == 1
    with pytest.raises(ValueError, match="samples = 2: this model is deterministic"):
        evaluate(predictor(p), p, samples=2)


def test_actions_lead_to_the_frames_they_are_stored_with(protocol, predictor):
    p = protocol(num_actions=3)
    assert evaluate(predictor(p), p).data["rows"][0]["metrics"]["psnr"]["mean"] == 100
    masked, model = protocol(num_actions=3, actions="masked"), predictor(p)
    assert evaluate(model, masked).data["rows"][0]["metrics"]["psnr"]["mean"] < 30
    assert all((clip.actions == -1).all() for clip in model.observed)


def test_the_model_sees_the_context_only(protocol, predictor):
    p = protocol()
    model = predictor(p)
    evaluate(model, p)
    assert torch.equal(torch.cat([clip.frames for clip in model.observed]), truth(p)[:, :3])


def test_truncation_goes_for_the_true_frames_too(protocol, predictor):
    p = protocol(quantise="truncate")
    rows = evaluate(predictor(p), p).data["rows"]
    clips = to_uint8(to_float(truth(p)), "truncate")
    assert not torch.equal(clips, truth(p))
    assert rows[0]["metrics"]["psnr"]["mean"] == 100
    want = psnr(clips[:, 2:3].expand(-1, 4, -1, -1, -1), clips[:, 3:])
    np.testing.assert_allclose(rows[1]["metrics"]["psnr"]["per_frame"], want.mean(0))


def test_groups(protocol, predictor):
    p = protocol(group_size=2)
    entry = evaluate(predictor(p), p).data["rows"][1]["metrics"]["psnr"]
    groups = [np.mean(entry["per_clip"][i : i + 2]) for i in (0, 2, 4)]
    assert (entry["group_mean"], entry["group_std"]) == pytest.approx((np.mean(groups), np.std(groups)))
    one = evaluate(predictor(p), p, num_clips=2).data["rows"][1]["metrics"]["psnr"]
    assert one["group_mean"] == pytest.approx(one["mean"]) and one["group_std"] is None


def break_clips(model, broken, frame):
    """Makes the model give NaN in a pixel of the clips numbered `broken`, at one frame (counted from 1)."""
    exact = model.predict

    def predict(state, action=None, noise=None):
        predicted, (newest, count) = exact(state, action, noise)
        if int(count[0]) == frame:
            predicted = predicted.clone()
            predicted[broken, :, 5, 5] = torch.nan
        return predicted, (newest, count)

    model.predict = predict
    return model


def test_a_broken_clip_is_named_and_the_rest_kept(protocol, predictor):
    p = protocol()
    result = evaluate(break_clips(predictor(p, noise=0.1), [1, 3], frame=2), p)
    model, copy = result.data["rows"][:2]
    assert model["failed_clips"] == {"test/1": 2, "test/3": 2} and model["clip_ids"] == ["test/0", "test/2", "test/4"]
    assert model["clips"] == 3 and copy["clips"] == 5
    whole = evaluate(predictor(p, noise=0.1), p).arrays["model/psnr/values"]
    np.testing.assert_array_equal(result.arrays["model/psnr/values"], whole[[0, 2, 4]])


def test_nothing_but_broken_clips_leaves_a_reason(protocol, predictor):
    p = protocol()
    data = evaluate(break_clips(predictor(p), slice(None), frame=1), p).data
    assert data["rows"][0]["metrics"]["psnr"] == {
        "mean": None,
        "stderr": None,
        "reason": "every clip has a predicted frame that is not finite",
    }
    assert data["rows"][1]["metrics"]["psnr"]["mean"] > 0
    json.dumps(data, allow_nan=False)


def test_a_metric_that_refuses_does_not_lose_the_others(protocol, predictor):
    p = protocol(size=10)
    for row in evaluate(predictor(p), p).data["rows"]:
        assert row["metrics"]["ssim"]["mean"] is None and "these are 10 x 10" in row["metrics"]["ssim"]["reason"]
        assert row["metrics"]["psnr"]["mean"] is not None


def test_without_training_clips_only_the_mean_image_is_missing(protocol, predictor):
    p = protocol(train_clips=0)
    rows = evaluate(predictor(p), p).data["rows"]
    assert [row["metrics"]["psnr"]["mean"] is None for row in rows] == [False, False, False, False, True]
    assert rows[4]["metrics"]["psnr"]["reason"] == "slide has no training clips"


def test_a_single_clip_has_no_error_and_no_nan(protocol, predictor):
    p = protocol()
    data = evaluate(predictor(p), p, num_clips=1).data
    assert data["rows"][0]["metrics"]["psnr"]["stderr"] is None
    assert data["protocol"]["hash"] != p.hash and data["protocol"]["num_clips"] == 1
    json.dumps(data, allow_nan=False)


def test_what_does_not_fit_is_refused(protocol, predictor):
    p = protocol()
    with pytest.raises(
        ValueError, match=r"takes clip 19 of recipe 'slide', whose test split has clips 0\.\.8; ask for fewer"
    ):
        evaluate(predictor(p), p, num_clips=20)
    with pytest.raises(ValueError, match="takes frames of 12 x 12 x 1, protocol 'sliding' gives 16 x 16 x 1"):
        evaluate(predictor(p), protocol(size=16))
    with pytest.raises(ValueError, match="knows 3 actions, recipe 'slide' of protocol 'sliding' has 0"):
        evaluate(predictor(protocol(num_actions=3)), p)
    with pytest.raises(ValueError, match="num_clips = 0: must be at least 1"):
        evaluate(predictor(p), p, num_clips=0)
    with pytest.raises(ValueError, match="batch_size = 0: must be at least 1"):
        evaluate(predictor(p), p, batch_size=0)


def test_the_caller_finds_everything_as_it_was(protocol, predictor):
    p = protocol()
    model = predictor(p).train()

    def interrupted(*_):
        raise KeyboardInterrupt

    evaluate(model, p)
    assert model.training and torch.is_grad_enabled()
    model.predict = interrupted
    with pytest.raises(KeyboardInterrupt):
        evaluate(model, p)
    assert model.training and torch.is_grad_enabled()


def test_saved_clips(protocol, predictor, tmp_path):
    p = protocol(samples=2, num_actions=3, quantise="truncate", metrics=(PSNRConfig(),))
    result = evaluate(predictor(p, noise=0.1), p, batch_size=3, save_clips=tmp_path / "clips")
    files = [np.load(tmp_path / "clips" / f"data_{i}.npz") for i in range(4)]  # 2 batches x 2 samples
    assert sorted(path.name for path in (tmp_path / "clips").iterdir()) == [f"data_{i}.npz" for i in range(4)]
    scores = np.empty((5, 2, 4))
    for file in files:
        real, fake, context = file["real"], file["fake"], int(file["context"])
        assert real.dtype == fake.dtype == np.uint8 and file["actions"].shape == (len(real), 7)
        np.testing.assert_array_equal(real[:, :context], fake[:, :context])
        rows = [int(name.removeprefix("test/")) for name in file["clip_ids"]]
        scores[rows, int(file["sample"])] = psnr(*(torch.from_numpy(x[:, context:]) for x in (fake, real)))
    np.testing.assert_array_equal(scores, result.arrays["model/psnr/values"])
    with pytest.raises(ValueError, match="already holds data_"):
        evaluate(predictor(p, noise=0.1), p, save_clips=tmp_path / "clips")
    with pytest.raises(ValueError, match=r"/proc/data_0\.npz: cannot be written"):  # not after the first batch
        evaluate(predictor(p, noise=0.1), p, save_clips="/proc")
