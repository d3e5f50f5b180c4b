"""Metrics of a whole set of clips in a result: with their floor, their groups, or the reason why there is none."""

import csv
import io
import json

import numpy as np
import pytest
import torch

from videopred.evaluation import evaluate, table
from videopred.evaluation.schema import check
from videopred.metrics import DiversityConfig, FVDConfig, PSNRConfig, PSNROfMeanConfig
from videopred.metrics.features import Network
from videopred.metrics.frechet import frechet_distance


@pytest.fixture
def lengths(monkeypatch):
    """FVD looks at the first and the last frame of a clip; the lengths of the clips that it saw."""
    seen = []

    def ends(frames):
        seen.append(len(frames))
        return frames[[0, -1], :2, 0, 0].flatten().double() / 255

    network = Network(ends, {"name": "stand-in"})
    monkeypatch.setattr(FVDConfig, "network", lambda self: network)
    return seen


def features(clips):
    return clips[:, [0, -1]][:, :, :2, 0, 0].flatten(1).double().numpy() / 255


def truth(protocol):
    dataset = protocol.recipe.build(protocol.split, protocol.frames)
    return torch.stack([dataset[i].frames for i in protocol.indices])


def test_without_weights_the_table_says_so_and_the_rest_is_there(protocol, predictor, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VIDEOPRED_HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    p = protocol(metrics=(PSNRConfig(), FVDConfig()))
    data = evaluate(predictor(p), p, progress=True).data
    assert "videopred: fvd will not be computed: weights missing" in capsys.readouterr().err
    for row in data["rows"]:
        assert row["metrics"]["psnr"]["mean"] > 0 and row["metrics"]["fvd"]["mean"] is None
    text = table.render([data], "table")
    assert text.count("note: fvd not computed: weights missing: run `videopred weights fetch i3d_pretrained_400`") == 1
    json.dumps(data, allow_nan=False)


def test_context_in_or_out(protocol, predictor, lengths):
    p = protocol(metrics=(FVDConfig(context="in"), FVDConfig(frames=2)))
    model, copy, *_ = evaluate(predictor(p), p).data["rows"]
    assert sorted(set(lengths)) == [2, 7]
    assert model["metrics"]["fvd"]["mean"] == pytest.approx(0, abs=1e-12)
    clips = truth(p)
    last = clips[:, 2:3].expand(-1, 4, -1, -1, -1)
    whole = frechet_distance(features(torch.cat([clips[:, :3], last], 1)), features(clips))
    assert copy["metrics"]["fvd"]["mean"] == pytest.approx(whole)
    two = frechet_distance(features(last[:, :2]), features(clips[:, 3:5]))
    assert copy["metrics"]["fvd-2f"]["mean"] == pytest.approx(two) and copy["metrics"]["fvd-2f"]["frames_used"] == 2


def test_floor_between_halves_or_groups(protocol, predictor, lengths):
    p = protocol(metrics=(FVDConfig(),))
    rows = features(truth(p)[:, 3:])
    entry = evaluate(predictor(p), p).data["rows"][1]["metrics"]["fvd"]
    assert entry["floor"] == pytest.approx(frechet_distance(rows[[0, 2]], rows[[1, 3]])) and entry["floor_clips"] == 2
    p = protocol(metrics=(FVDConfig(),), group_size=2, num_clips=4)
    data = evaluate(predictor(p), p).data
    entry = data["rows"][1]["metrics"]["fvd"]
    assert entry["floor"] == pytest.approx(frechet_distance(rows[:2], rows[2:4]))
    fake = features(truth(p)[:, 2:3].expand(-1, 4, -1, -1, -1))
    groups = [frechet_distance(fake[i : i + 2], rows[i : i + 2]) for i in (0, 2)]
    assert (entry["group_mean"], entry["group_std"]) == pytest.approx((np.mean(groups), np.std(groups)))
    text = table.render([data], "table")
    settings = "covariance n-1, context out, weights i3d_pretrained_400, batch_norm tensorflow"
    assert f"fvd, lower is better; of all clips together ({settings})" in text
    assert "groups of 2 ± std" in text
    line = next(line for line in text.splitlines() if line.startswith("true clips, 2 against 2"))
    assert line.split()[-1] == f"{entry['floor']:.3f}"
    assert text.count("note: fvd: 4 clips are few: below 256") == 1


def test_one_clip_has_a_reason(protocol, predictor, lengths):
    p = protocol(metrics=(PSNRConfig(), FVDConfig()), num_clips=1)
    data = evaluate(predictor(p), p).data
    assert "at least 2 clips" in data["rows"][0]["metrics"]["fvd"]["reason"]
    assert data["rows"][0]["metrics"]["psnr"]["mean"] == 100
    json.dumps(data, allow_nan=False)


def test_best_of_samples_stands_beside_their_mean(protocol, predictor):
    p = protocol(samples=3, metrics=(PSNRConfig(),))
    result = evaluate(predictor(p, noise=0.1), p)
    values = result.arrays["model/psnr/values"]  # (clip, sample, frame)
    entry = result.data["rows"][0]["metrics"]["psnr"]
    best = [clip[clip.mean(1).argmax()] for clip in values]
    assert entry["mean"] == pytest.approx(values.mean()) and entry["best_of"]["samples"] == 3
    assert entry["best_of"]["mean"] == pytest.approx(np.mean(best)) and entry["best_of"]["mean"] > entry["mean"]
    np.testing.assert_allclose(entry["best_of"]["per_frame"], np.mean(best, 0))
    assert "best_of" not in result.data["rows"][1]["metrics"]["psnr"]
    assert any(line.startswith("model, best of 3") for line in table.render([result.data], "table").splitlines())


@pytest.mark.parametrize("covariance", ["n-1", "n"])
def test_a_last_group_of_one_clip_does_not_lose_the_distance_of_all(protocol, predictor, lengths, covariance):
    p = protocol(metrics=(FVDConfig(covariance=covariance),), group_size=2)  # of 5 clips
    data = evaluate(predictor(p), p).data
    entry = data["rows"][1]["metrics"]["fvd"]
    rows, fake = features(truth(p)[:, 3:]), features(truth(p)[:, 2:3].expand(-1, 4, -1, -1, -1))
    assert entry["mean"] == pytest.approx(frechet_distance(fake, rows, covariance)) and "reason" not in entry
    assert entry["group_mean"] is None and "one of 3 groups has 1 clip(s): " in entry["group_reason"]
    assert entry["floor"] == pytest.approx(frechet_distance(rows[:2], rows[2:4], covariance))
    assert entry["floor_clips"] == 2
    assert table.render([data], "table").count("note: fvd: no mean over groups: one of 3 groups has 1 clip(s)") == 1


def test_the_floor_is_of_whole_groups(protocol, predictor, lengths):
    """A short last group has a distance of its own kind, which a mean of floors must not hold."""
    p = protocol(metrics=(FVDConfig(),), group_size=3, num_clips=8)
    entry = evaluate(predictor(p), p).data["rows"][1]["metrics"]["fvd"]
    rows = features(truth(p)[:, 3:])
    assert entry["floor"] == pytest.approx(frechet_distance(rows[:3], rows[3:6])) and entry["floor_clips"] == 3
    assert entry["group_mean"] > 0


def test_a_floor_of_zero_is_shown(protocol, predictor, lengths):
    p = protocol(metrics=(FVDConfig(),))
    data = evaluate(predictor(p), p).data
    for row in data["rows"]:
        row["metrics"]["fvd"]["floor"] = 0.0
    line = next(x for x in table.render([data], "table").splitlines() if x.startswith("true clips, 2 against 2"))
    assert line.split()[-1] == "0.000"


def test_the_column_tells_which_frames_were_looked_at(protocol, predictor, lengths):
    p = protocol(metrics=(FVDConfig(frames=2), FVDConfig(context="in", frames=6), FVDConfig(context="in")))
    metrics = evaluate(predictor(p), p).data["rows"][1]["metrics"]
    assert {name: list(entry["windows"]) for name, entry in metrics.items()} == {
        "fvd-2f": ["1-2"],
        "fvd-6f": ["1-3"],  # three true ones stand before them
        "fvd": ["1-4"],
    }


def test_clips_without_a_predicted_frame_are_no_prediction(protocol):
    for metric in (FVDConfig(context="in", frames=3), FVDConfig(context="in", frames=8)):
        with pytest.raises(ValueError, match=r"fvd-[38]f, frames = [38]: must be 4 to 7; its clips are 3 true and 4"):
            protocol(metrics=(metric,))
    with pytest.raises(ValueError, match="frames = 5: must be 1 to 4"):
        protocol(metrics=(FVDConfig(frames=5),))


def test_samples_and_groups_together(protocol, predictor):
    """The best of samples has no mean over groups, and the table is there all the same, in every format."""
    p = protocol(samples=2, group_size=2, metrics=(PSNRConfig(), PSNROfMeanConfig()))
    result = evaluate(predictor(p, noise=0.1), p)
    lines = table.render([result.data], "table").splitlines()
    for metric in ("psnr", "psnr_of_mean_mse"):
        start = next(i for i, line in enumerate(lines) if line.startswith(f"{metric} (dB)"))
        best = next(line for line in lines[start:] if line.startswith("model, best of 2"))
        entry = result.data["rows"][0]["metrics"][metric]
        assert f"{entry['best_of']['mean']:.2f} ± " in best and best.endswith(" -") and entry["group_mean"] > 0
    mse = result.arrays["model/psnr_of_mean_mse/mse"].mean(2).min(1)  # (clip,)
    assert entry["best_of"]["mean"] == pytest.approx(np.mean(-10 * np.log10(mse)))
    told = csv.DictReader(io.StringIO(table.render([result.data], "csv")))
    best = next(line for line in told if (line["row"], line["metric"]) == ("model, best of 2", "psnr_of_mean_mse"))
    assert float(best["mean"]) == entry["best_of"]["windows"]["1"]["mean"] and best["frames"] == "1"


def test_more_diversity_is_not_better(protocol, predictor):
    """White noise has the most: no row is best, none gains, and the ratio that tells is said."""
    p = protocol(samples=2, metrics=(DiversityConfig(), PSNRConfig()))
    data = [evaluate(predictor(p, noise=x), p, checkpoint={"name": name}).data for name, x in (("a", 0.1), ("b", 0.3))]
    ratio = data[0]["rows"][0]["metrics"]["diversity"]["ratio_to_error"]
    text = table.render(data, "markdown", against="b")
    assert f"note: a: diversity is {ratio:.2f} of the squared error; 1 is right" in text
    part = text.split("**diversity")[1].split("\n\n**")[0]
    assert part.startswith(", neither more nor less is better") and "over best trivial" not in part
    assert "**" not in part.split("\n", 1)[1] and "diversity, less that of" not in text
    for result in data:
        check(result)  # as it is read from a file
