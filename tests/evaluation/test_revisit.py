"""The revisit test: which frames were seen, and that matching and errors are what they say."""

import csv
import dataclasses
import io
import json
import math

import numpy as np
import pytest
import torch

from videopred import config
from videopred.config import ConfigError
from videopred.data import ClipsConfig
from videopred.evaluation import Protocol, evaluate, table
from videopred.evaluation.revisit import Revisit, compare, seen

NEAR = Revisit(distance=64.0, angle=20.0)


def test_what_was_seen():
    context = [[0, 0, 350], [300, 0, 90]]
    ahead = {
        (0, 0, 350): True,
        (38.4, 51.2, 350): True,  # 64 away: the limit counts
        (38.5, 51.3, 350): False,
        (0, 0, 10): True,  # 20 degrees, across north
        (0, 0, 11): False,
        (0, 0, -10): True,
        (0, 0, 710): True,
        (0, 0, 90): False,  # the right place, looking where one looked elsewhere
        (300, 0, 70): True,
        (300, 0, 270): False,
    }
    got = seen(np.array([*context, *ahead], float), 2, NEAR)
    assert dict(zip(ahead, got.tolist(), strict=True)) == ahead


def test_only_the_context_counts():
    pose = np.array([[0, 0, 0], [500, 0, 0], [500, 0, 0], [0, 0, 0]], float)
    assert seen(pose, 1, NEAR).tolist() == [False, False, True]
    assert seen(pose, 2, NEAR).tolist() == [True, True]


def test_matching_takes_the_horizon_out():
    """Scores fall by 5 per frame and are 10 higher where seen; early frames are mostly seen, late ones mostly new."""
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0]], bool)
    values = 50 - 5.0 * np.arange(4) + 10 * mask
    got = compare(values, values - 20, mask)
    weights = [1, 1, 2, 0]  # of the smaller group at each frame
    want = np.average(50 - 5.0 * np.arange(4), weights=weights)
    assert (got["seen"]["mean"], got["new"]["mean"]) == pytest.approx((want + 10, want))
    assert (got["seen"]["gain"], got["new"]["gain"]) == pytest.approx((want - 10, want - 20))
    assert got["difference"]["mean"] == pytest.approx(10)
    assert (got["seen"]["frames"], got["new"]["frames"]) == (8, 4), "the last frame has no seen ones to match"
    plain = got["unmatched"]
    assert plain["seen"]["mean"] == pytest.approx(values[mask].mean())
    assert plain["new"]["mean"] == pytest.approx(values[~mask].mean())
    assert plain["seen"]["mean"] - plain["new"]["mean"] > 15
    assert (plain["seen"]["frames"], plain["new"]["frames"]) == (8, 8)


def test_errors_are_over_clips():
    """Where every clip has as many frames in a group, the group's mean is the mean of the clips' means."""
    random = np.random.default_rng(0)
    mask = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]], bool)
    values = random.normal(size=mask.shape)
    got = compare(values, 3 * values, mask)["unmatched"]
    for name, group in (("seen", mask), ("new", ~mask)):
        clips = np.array([row[part].mean() for row, part in zip(values, group, strict=True)])
        assert got[name]["mean"] == pytest.approx(clips.mean())
        assert got[name]["stderr"] == pytest.approx(clips.std(ddof=1) / math.sqrt(5))
        assert got[name]["gain_stderr"] == pytest.approx(3 * got[name]["stderr"])


def test_the_error_of_the_difference_is_paired():
    """What a clip adds to all of its frames cancels in the difference of its groups, but not in either group."""
    mask = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], bool)
    values = np.array([[5.0], [1.0], [9.0], [2.0]]) + np.where(mask, 1.0, 0.0)
    got = compare(values, values, mask)
    assert got["difference"]["mean"] == pytest.approx(1)
    assert got["difference"]["stderr"] == pytest.approx(0, abs=1e-12) and got["seen"]["stderr"] > 1


def test_a_group_of_one_clip_gives_the_difference_no_error():
    """Its mean is that clip's own number, from which it differs by nothing: 0.00 would be a lie."""
    values = np.array([[5.0, 1.0], [3.0, 4.0], [8.0, 2.0]])
    for mask, known in (([[1, 0], [0, 0], [0, 0]], False), ([[1, 0], [0, 1], [0, 0]], True)):
        apart = compare(values, values, np.array(mask, bool))["difference"]
        assert apart["mean"] is not None and (apart["stderr"] is not None) == known
    two = compare(values[:2, :1], values[:2, :1], np.array([[1], [0]], bool))
    assert two["difference"] == {"mean": 2.0, "stderr": None}


def test_rows_of_a_result(corridor, walker):
    p = corridor(revisit=NEAR)
    result = evaluate(walker(p, hears=False), p, batch_size=4)
    dataset = p.dataset()
    places = np.stack([dataset[i].pose.numpy()[:, 0] for i in p.indices])
    mask = np.array([[place in set(walk[:4]) for place in walk[4:]] for walk in places])
    assert 0 < mask.sum() < mask.size
    np.testing.assert_array_equal(result.arrays["revisit/seen"], mask)
    values = result.arrays["copy-last-frame/psnr/values"][:, 0]
    for row in result.data["rows"]:
        got = row["metrics"]["psnr"]["revisit"]
        own = result.arrays[f"{row['name']}/psnr/values"][:, 0]
        assert got == compare(own, own - values, mask)
        assert got["unmatched"]["seen"]["mean"] == pytest.approx(own[mask].mean())
        assert got["unmatched"]["new"]["gain"] == pytest.approx((own - values)[~mask].mean())
    assert result.data["rows"][0]["metrics"]["psnr"]["revisit"]["seen"]["gain"] == 0, "it copies the last frame"
    json.dumps(result.data, allow_nan=False)


def test_early_frames_can_be_left_out(corridor, walker):
    p = corridor(revisit=Revisit(distance=64.0, angle=20.0, first=4))
    result = evaluate(walker(p, hears=False), p)
    mask, own = result.arrays["revisit/seen"], result.arrays["model/psnr/values"][:, 0]
    assert mask.shape == (6, 8)
    got = result.data["rows"][0]["metrics"]["psnr"]["revisit"]
    assert got == compare(own[:, 3:], 0 * own[:, 3:], mask[:, 3:])
    assert got["unmatched"]["seen"]["frames"] == mask[:, 3:].sum()
    assert "frames 4 on" in table.render([result.data], "table")
    with pytest.raises(ValueError, match=r"revisit\.first = 9: must be at most the horizon, 8"):
        corridor(revisit=Revisit(distance=64.0, angle=20.0, first=9))


def test_clips_on_disk_are_scored_like_any(corridor, walker, tmp_path):
    """Actions of other clips and poses are read from files, and every row stands for frames in colour."""
    p = corridor(revisit=NEAR)
    dataset = p.dataset()
    for split in ("train", "test"):
        for i in range(6):
            path = tmp_path / split / "0" / f"{i}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            clip = dataset[i]
            np.savez(path, video=clip.frames.numpy(), actions=clip.actions.numpy(), pose=clip.pose.numpy())
    recipe = ClipsConfig(root=str(tmp_path), image_size=2, actions=("stay", "back", "forward"))
    made, read = (evaluate(walker(q), q, batch_size=4).data for q in (p, dataclasses.replace(p, recipe=recipe)))
    assert [row["name"] for row in read["rows"]] == [row["name"] for row in made["rows"]] and len(read["rows"]) == 6
    for a, b in zip(made["rows"][:5], read["rows"], strict=False):  # the last, the mean image, is of other clips
        assert a["metrics"] == b["metrics"]


def test_a_failed_clip_is_left_out_of_the_comparison_too(corridor, walker):
    p = corridor(revisit=NEAR)
    model = walker(p)
    exact = model.predict

    def predict(state, action=None, noise=None):
        frame, _ = exact(state, action)
        frame[2] = float("nan")
        return frame, (frame,)

    model.predict = predict
    data = evaluate(model, p).data
    model, copy = data["rows"][0], data["rows"][2]
    assert model["clips"] == 5
    frames = [sum(row["metrics"]["psnr"]["revisit"]["unmatched"][g]["frames"] for g in ("seen", "new"))
              for row in (model, copy)]  # fmt: skip
    assert frames == [5 * 8, 6 * 8]


def test_ratios_have_no_such_entry(protocol, predictor, corridor, walker):
    p = corridor(revisit=NEAR, metrics=protocol().metrics[2:])
    assert "revisit" not in evaluate(walker(p), p).data["rows"][0]["metrics"]["ink"]
    assert "revisit" not in evaluate(predictor(protocol()), protocol()).data["rows"][0]["metrics"]["psnr"]


@pytest.mark.parametrize(
    ("revisit", "group", "reason"),
    [
        (Revisit(distance=1e9, angle=180.0), "new", "every predicted frame has a pose that is in its context"),
        (Revisit(distance=0.0, angle=0.0), "seen", "no predicted frame has a pose that is in its context"),
    ],
)
def test_an_empty_group_has_a_reason(corridor, walker, monkeypatch, revisit, group, reason):
    p = corridor(revisit=revisit)
    if group == "seen":  # walk for ever in one direction
        monkeypatch.setattr("torch.randint", lambda low, high, size, generator: torch.full(size, 2))
    data = evaluate(walker(p), p).data
    test = data["rows"][0]["metrics"]["psnr"]["revisit"]
    other = {"seen": "new", "new": "seen"}[group]
    assert (test[group]["mean"], test[group]["reason"], test[group]["frames"]) == (None, reason, 0)
    assert test["unmatched"][group]["reason"] == reason and test["unmatched"][other]["mean"] == 100
    assert test[other]["mean"] is None and test[other]["reason"] == "at no horizon are there both seen and new frames"
    assert test["difference"] == {"mean": None, "stderr": None}
    text = table.render([data], "table")
    assert f"note: model: revisit, psnr: {reason}" in text


def test_tables(corridor, walker):
    p = corridor(revisit=NEAR)
    data = evaluate(walker(p), p).data
    test = data["rows"][0]["metrics"]["psnr"]["revisit"]
    text = table.render([data], "table")
    part = text[text.index("revisit, psnr:") :]
    plain = test["unmatched"]
    assert part.startswith(f"revisit, psnr: {plain['seen']['frames']} seen and {plain['new']['frames']} new frames")
    assert "within 64 units and 20 degrees" in part and "over copy-last-frame" in part
    line = next(line for line in part.splitlines() if line.startswith("model "))
    want = [f"{test[group]['mean']:.2f}" for group in ("seen", "new")]
    want += [f"{test[group]['gain']:+.2f}" for group in ("seen", "new")] + [f"{test['difference']['mean']:+.2f}"]
    assert line.split()[1::3] == want
    assert "| model | 100.00 ± 0.00 | 100.00 ± 0.00 | +" in table.render([data], "markdown")
    rows = {
        row["frames"]: row for row in csv.DictReader(io.StringIO(table.render([data], "csv"))) if row["row"] == "model"
    }
    assert float(rows["seen matched"]["mean"]) == test["seen"]["mean"]
    assert float(rows["new unmatched, over copy-last-frame"]["stderr"]) == plain["new"]["gain_stderr"]


def test_no_pose_is_refused(corridor, walker):
    p = corridor(with_pose=False, revisit=NEAR)
    with pytest.raises(ValueError, match=r"`revisit` needs the pose .* and clip test/0 has none; give a recipe"):
        evaluate(walker(p), p)


def test_in_a_protocol(corridor):
    p = corridor()
    table = config.to_dict(p)
    del table["recipe"]
    assert "revisit" not in table, "so that the hash of a protocol without it stays as it was"
    assert corridor(revisit=NEAR).hash != p.hash
    moving = table | {"recipe": {"kind": "moving_mnist"}}
    loaded = config.from_dict(Protocol, moving | {"revisit": {"distance": 64.0, "angle": 20.0}})
    assert loaded.revisit == NEAR
    with pytest.raises(ConfigError, match=r"revisit: angle = -1\.0: must be at least 0"):
        config.from_dict(Protocol, moving | {"revisit": {"distance": 64.0, "angle": -1.0}})
    with pytest.raises(ConfigError, match=r"revisit\.angel: no such key, did you mean 'angle'"):
        config.from_dict(Protocol, moving | {"revisit": {"distance": 64.0, "angel": 1.0}})
