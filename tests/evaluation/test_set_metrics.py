"""Metrics of a whole set of clips in a result: with their floor, their groups, or the reason why there is none."""

import json

import numpy as np
import pytest
import torch

from videopred.evaluation import evaluate, table
from videopred.metrics import FVDConfig, PSNRConfig
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
    assert "fvd, lower is better; of all clips together" in text
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
