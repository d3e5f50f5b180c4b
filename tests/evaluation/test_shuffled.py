"""The row of shuffled actions: whose actions they are, what they score, and when there is no such row."""

import csv
import io

import numpy as np
import pytest

from videopred.clip import stack
from videopred.evaluation import evaluate, shuffled, table

ROW = "model (shuffled actions)"


def walks(protocol):
    """Actions and places of all clips of a corridor protocol, (clip, frame)."""
    dataset = protocol.dataset()
    clips = [dataset[i] for i in protocol.indices]
    actions = np.stack([clip.actions.numpy() for clip in clips])
    return actions, np.stack([clip.pose.numpy()[:, 0] / 128 for clip in clips])


def test_everyone_gets_the_actions_of_somebody_else(corridor):
    p = corridor(clips=(5, 0, 3, 2, 4, 1))
    givers = shuffled.donors(p)
    assert sorted(givers) == [0, 1, 2, 3, 4, 5] and all(a != b for a, b in zip(givers, p.indices, strict=True))
    assert givers == shuffled.donors(p)
    assert any(shuffled.donors(corridor(seed=seed)) != shuffled.donors(corridor()) for seed in (1, 2, 3))
    for num_clips in (2, 3, 5):
        few = shuffled.donors(corridor(num_clips=num_clips))
        assert sorted(few) == list(range(num_clips)) and all(a != b for b, a in enumerate(few))


def test_a_model_that_hears_goes_where_the_others_went(corridor, walker):
    p = corridor()
    data = evaluate(walker(p), p, batch_size=4).data
    model, misled = data["rows"][:2]
    assert [row["name"] for row in data["rows"][:3]] == ["model", ROW, "copy-last-frame"]
    assert [row["role"] for row in data["rows"]] == ["model", "shuffled actions", *["trivial"] * 4]
    assert model["metrics"]["psnr"]["mean"] == 100
    actions, places = walks(p)
    lent = actions[shuffled.donors(p)][:, 4:]
    went = places[:, 3:4] + np.cumsum(np.array([0, -1, 1])[lent], 1)
    off = np.abs(went - places[:, 4:]) * 10 / 255
    want = np.where(off == 0, 100, -20 * np.log10(np.maximum(off, 1e-9)))
    np.testing.assert_allclose(misled["metrics"]["psnr"]["per_clip"], want.mean(1), rtol=1e-6)
    assert misled["metrics"]["psnr"]["mean"] < 60, "or this test could not tell"
    assert misled["step_ms"] > 0 and misled["clip_ids"] == model["clip_ids"]


@pytest.mark.parametrize("size", [1, 4])
def test_batches_do_not_change_it(corridor, walker, size):
    p = corridor()
    whole, pieces = (evaluate(walker(p), p, batch_size=b).arrays[f"{ROW}/psnr/values"] for b in (6, size))
    np.testing.assert_array_equal(whole, pieces)


def test_a_model_that_does_not_hear_scores_the_same(corridor, walker):
    p = corridor(horizon=24)
    data = evaluate(walker(p, hears=False), p).data
    model, misled = data["rows"][:2]
    assert model["metrics"] == misled["metrics"]
    line = next(line for line in table.render([data], "table").splitlines() if line.startswith("over shuffled actions"))
    assert line.split()[3:] == ["+0.00"] * 4


def test_the_context_keeps_its_own_actions(corridor):
    p = corridor()
    dataset = p.dataset()
    clip, other = dataset[1], dataset[4]
    lent = shuffled.lend(stack([clip]), dataset, [4], 4)
    assert lent.actions[0, :4].tolist() == clip.actions[:4].tolist()
    assert lent.actions[0, 4:].tolist() == other.actions[4:].tolist() != clip.actions[4:].tolist()
    assert lent.frames[0].equal(clip.frames)


def test_the_table_says_what_hearing_is_worth(corridor, walker):
    p = corridor(horizon=24)
    data = evaluate(walker(p), p).data
    text = table.render([data], "table")
    header = next(line for line in text.splitlines() if "frame 1" in line)
    assert header.split() == ["frame", "1", "1-20", "5-20", "1-24"]
    line = next(line for line in text.splitlines() if line.startswith("over shuffled actions"))
    windows = [row["metrics"]["psnr"]["windows"]["5-20"]["mean"] for row in data["rows"][:2]]
    np.testing.assert_allclose(windows[1], evaluate(walker(p), p).arrays[f"{ROW}/psnr/values"][:, 0, 4:20].mean())
    assert line.split()[5] == f"{windows[0] - windows[1]:+.2f}"
    costs = [line for line in text.splitlines() if line.startswith(ROW) and "cpu" in line]
    assert len(costs) == 1, "it has its line among the costs"
    assert text.count("over best trivial") == 1, "and no line for itself against the trivial rows"
    rows = list(csv.DictReader(io.StringIO(table.render([data], "csv"))))
    assert [row["row"] for row in rows if row["frames"] == "5-20"][:2] == ["model", ROW]


def test_two_models_share_a_table(corridor, walker):
    p = corridor()
    results = [evaluate(walker(p, hears), p, checkpoint={"name": "walker"}).data for hears in (True, False)]
    text = table.render(results, "table", ["good", "deaf"])
    for label in ("good", "deaf"):
        assert f"walker [{label}] (shuffled actions) " in text
        assert f"over shuffled actions: walker [{label}] " in text
    deaf = next(line for line in text.splitlines() if line.startswith("over shuffled actions: walker [deaf]"))
    assert deaf.split()[-1] == "+0.00"


@pytest.mark.parametrize("change", [{"num_clips": 1}, {"actions": "masked"}])
def test_no_row_where_it_would_say_nothing(corridor, walker, change):
    p = corridor(**change)
    names = [row["name"] for row in evaluate(walker(p, hears=False), p).data["rows"]]
    assert names == ["model", "copy-last-frame", "mean-of-context", "blank", "mean-image"]


def test_no_row_for_a_model_that_takes_no_actions(corridor, walker):
    p = corridor()
    model = walker(p, hears=False)
    model.format = type(model.format)(3, 2, 2)
    model.predict = lambda state, action=None, noise=None: (state[0], state)
    assert ROW not in [row["name"] for row in evaluate(model, p).data["rows"]]
