"""Tables: the numbers of the results, in every format, and never of two protocols at once."""

import csv
import io
import json

import pytest
import torch

from videopred.evaluation import evaluate, table


@pytest.fixture
def results(protocol, predictor):
    """Two models, one of which adds a constant grey, under one protocol."""
    p = protocol(horizon=22)
    good, dim = predictor(p), predictor(p)
    with torch.no_grad():
        dim.mix.weight.mul_(0.9)
    return [evaluate(model, p, checkpoint={"name": name}).data for name, model in (("good", good), ("dim", dim))]


def cells(text: str, row: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(row + " ")]


def test_screen(results):
    text = table.render(results[:1], "table")
    first = results[0]["rows"][1]["metrics"]["psnr"]["windows"]
    want = [f"{first[w][key]:.2f}" for w in ("1", "1-20", "1-22") for key in ("mean", "stderr")]
    assert [cell for cell in cells(text, "copy-last-frame")[0] if cell != "±"] == ["copy-last-frame", *want]
    best = max(row["metrics"]["psnr"]["mean"] for row in results[0]["rows"][1:])
    assert cells(text, "over best trivial")[0][-1] == f"{100 - best:+.2f}"
    assert "5 clips, context 3, horizon 22" in text and results[0]["protocol"]["hash"] in text
    assert "note: good: 110 frame(s) at the cap of psnr" in text


def test_models_share_the_trivial_rows(results):
    text = table.render(results, "table")
    assert [len(cells(text, name)) for name in ("good", "dim", "blank")] == [5, 5, 4]  # 4 metrics; models' costs too
    assert len(cells(text, "over best trivial: good")) == 2  # ink and energy have no better way than 1
    same = table.render([results[0], results[0]], "table", ["one", "two"])
    assert len(cells(same, "good [one]")) == len(cells(same, "good [two]")) == 5


def test_no_row_hides_another(results):
    """As many rows as were given, whatever the files and the models are called; each with its own number."""
    good, dim = (result["rows"][0]["metrics"]["psnr"]["mean"] for result in results)
    for names, labels, want in (
        (["m", "m"], ["a", "a"], ["m [a]", "m [a] [2]"]),
        (["m", "m"], (), ["m", "m [2]"]),
        (["m [b]", "m"], ["a", "b"], ["m [b]", "m"]),
        (["blank", "mean-image"], ["a", "b"], ["blank [a]", "mean-image [b]"]),
        (["blank", "blank"], (), ["blank [2]", "blank [3]"]),
    ):
        named = [
            result | {"rows": [result["rows"][0] | {"name": name}, *result["rows"][1:]]}
            for result, name in zip(results, names, strict=True)
        ]
        block = table.blocks(named, labels)[0]
        assert [row["name"] for row in block.models] == want
        shown = table._entries(block, "psnr")
        assert len(shown) == 6 and [shown[name]["mean"] for name in want] == [good, dim]


def test_a_model_named_like_a_trivial_row_keeps_its_numbers(protocol, predictor):
    p = protocol()
    result = evaluate(predictor(p), p, checkpoint={"name": "blank"})
    assert [row["name"] for row in result.data["rows"]].count("blank") == 1
    assert result.data["rows"][0]["name"] == "blank (model)"
    assert (result.arrays["blank (model)/psnr/values"] == 100).all()
    assert (result.arrays["blank/psnr/values"] < 100).all()


def test_no_gain_over_rows_of_other_clips(results):
    """A model that fails at hard clips is not better than a prediction that is scored on them."""
    model, *others = results[0]["rows"]
    failed = model | {"clip_ids": model["clip_ids"][:-1], "failed_clips": {model["clip_ids"][-1]: 2}}
    text = table.render([results[0] | {"rows": [failed, *others]}], "table")
    assert all(line[3:] == ["-"] * 3 for line in cells(text, "over best trivial"))
    assert "(from frame 2); not comparable with rows of all clips" in text


def test_markdown(results):
    lines = table.render(results, "markdown").splitlines()
    psnr = lines.index("|  | frame 1 | 1-20 | 1-22 |")
    assert lines[psnr + 1] == "|---|---|---|---|" and lines[psnr + 2].startswith("| good | 100.00 ± 0.00 |")
    assert lines[0].startswith("**sliding (")


def test_csv_and_json_hold_full_numbers(results):
    rows = list(csv.DictReader(io.StringIO(table.render(results, "csv"))))
    assert len(rows) == 6 * 4 * 3  # rows, metrics, windows
    dim = next(row for row in rows if (row["row"], row["metric"], row["frames"]) == ("dim", "ssim", "1-22"))
    entry = results[1]["rows"][0]["metrics"]["ssim"]
    assert (float(dim["mean"]), float(dim["stderr"])) == (entry["mean"], entry["stderr"])
    assert int(dim["flops_per_frame"]) == 288
    assert json.loads(table.render(results, "json")) == results
    assert json.loads(table.render(results[:1], "json")) == results[0]


def test_protocols_do_not_share_a_table(results, protocol, predictor):
    p = protocol(horizon=22, seed=3)
    other = evaluate(predictor(p), p).data
    with pytest.raises(ValueError, match=r"seed: 0 -> 3.*--across-protocols"):
        table.render([*results, other], "table")
    text = table.render([*results, other], "table", across_protocols=True)
    assert text.count("recipe slide") == 2


def test_what_is_missing_is_shown_as_missing(protocol, predictor):
    p = protocol(size=10, train_clips=0)
    text = table.render([evaluate(predictor(p), p).data], "table")
    assert ["mean-image", "-", "-"] in cells(text, "mean-image")
    assert "note: mean-image: psnr not computed: slide has no training clips" in text
    assert (
        "note: model, copy-last-frame, mean-of-context, blank: ssim not computed: SSIM needs frames of at least 11 x 11"
        in text
    )
