"""Tables: the numbers of the results, in every format, and never of two protocols at once."""

import csv
import io
import json
import re

import numpy as np
import pytest
import torch

from videopred.evaluation import blocks, bootstrap, evaluate, sections, table


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


def test_a_mean_that_is_undefined_has_no_gain(results):
    data = results[0]
    window = next(iter(data["rows"][0]["metrics"]["psnr"]["windows"]))
    data["rows"][1]["metrics"]["psnr"]["windows"][window]["mean"] = None
    others = [row["metrics"]["psnr"]["windows"][window]["mean"] for row in data["rows"][2:]]
    best = data["rows"][0]["metrics"]["psnr"]["windows"][window]["mean"] - max(others)
    assert cells(table.render([data], "table"), "over best trivial")[0][3] == f"{best:+.2f}"
    data["rows"][0]["metrics"]["psnr"]["windows"][window]["mean"] = None
    assert cells(table.render([data], "table"), "over best trivial")[0][3] == "-"


def test_models_share_the_trivial_rows(results):
    text = table.render(results, "table")
    assert [len(cells(text, name)) for name in ("good", "dim", "blank")] == [6, 6, 4]  # 4 metrics; models' costs, time
    assert len(cells(text, "over best trivial: good")) == 2  # ink and energy have no better way than 1
    same = table.render([results[0], results[0]], "table", ["one", "two"])
    assert len(cells(same, "good [one]")) == len(cells(same, "good [two]")) == 6


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
        block = blocks.blocks(named, labels)[0]
        assert [row["name"] for row in block.models] == want
        shown = sections._entries(block, "psnr")
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
    assert lines[psnr + 1] == "|---|---|---|---|" and lines[psnr + 2].startswith("| good | **100.00 ± 0.00** |")
    assert lines[0].startswith("**sliding (")


def test_the_best_of_every_column_is_bold(results):
    """Ties too; higher, lower or nearest to 1; not in a row that lacks clips, nor if there is only one."""
    text = table.render(results, "markdown")
    for metric, better in (("psnr", max), ("ssim", max), ("ink", lambda means: min(means, key=lambda x: abs(x - 1)))):
        part = text.split(f"**{metric}")[1].split("\n\n**")[0]
        means = {row["name"]: row["metrics"][metric]["mean"] for result in results for row in result["rows"]}
        lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
        bold = {line[0] for line in lines if line[3:] and line[3].startswith("**")}
        assert bold == {name for name, mean in means.items() if mean == better(means.values())}
    lower = {"psnr": results[0]["rows"][0]["metrics"]["psnr"] | {"better": "lower"}}
    rows = [row | {"metrics": {"psnr": row["metrics"]["psnr"] | {"better": "lower"}}} for row in results[1]["rows"]]
    assert "| good | 100.00" in table.render(
        [results[1] | {"rows": [rows[0] | {"name": "good", "metrics": lower}, *rows[1:]]}], "markdown"
    )
    few = results[1]["rows"][0] | {"clips": 4}
    assert "| dim | **" not in table.render([results[1] | {"rows": [few, *results[1]["rows"][1:]]}], "markdown")
    assert "| good | 100.00" in table.render([results[0] | {"rows": results[0]["rows"][:1]}], "markdown")


def test_latex_is_balanced_and_escaped(results):
    model = results[0]["rows"][0] | {"name": r"50%_of\it & {more}~^#$ <b>"}
    text = table.render([results[0] | {"rows": [model, *results[0]["rows"][1:]]}], "latex")
    plain = re.sub(r"\\[&%$#_{}\\]", "", text)  # without escaped signs and ends of lines
    assert plain.count("{") == plain.count("}") and plain.count("$") % 2 == 0
    assert not set("%#~<>±") & set(plain)
    for words in ("table", "tabular"):
        assert text.count(rf"\begin{{{words}}}") == text.count(rf"\end{{{words}}}") == 5
    for part in text.split(r"\begin{tabular}")[1:]:
        columns, body = re.match(r"{(l r*)}(.*?)\\end{tabular}".replace(" ", ""), part, re.DOTALL).groups()
        lines = [line for line in body.split("\n") if line and line != r"\hline"]
        assert all(line.endswith(r" \\") and len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1 for line in lines)
    assert r"$\mathbf{100.00 \pm 0.00}$" in text
    assert (
        r"50\%\_of\textbackslash{}it \& \{more\}\textasciitilde{}\textasciicircum{}\#\$ \textless{}b\textgreater{}"
        in text
    )


def test_differences_to_a_row(results):
    text = table.render(results, "table", against="dim")
    own, other = (result["rows"][0]["metrics"]["psnr"]["per_clip"] for result in results)
    title = "psnr, less that of dim: 95% interval, paired bootstrap over clips, 10,000 resamples, seed 0"
    line = cells(text[text.index(title) :], "good")[0]
    assert line[1] == f"{np.mean(own) - np.mean(other):+.2f}" and line[-3:] == ["5", "of", "5"]
    assert float(line[2]) <= float(line[1]) <= float(line[3])
    assert "ink, less that of" not in text
    rows = list(csv.DictReader(io.StringIO(table.render(results, "csv", against="dim"))))
    told = {(row["row"], row["metric"]): row for row in rows if row["difference"]}
    assert len(told) == 2 * 5 and told["good", "psnr"]["frames"] == "1-22"
    assert float(told["good", "psnr"]["difference"]) == pytest.approx(np.mean(own) - np.mean(other))
    assert (told["good", "psnr"]["clips_better"], told["good", "psnr"]["clips_compared"]) == ("5", "5")
    assert all(row["data"] == results[0]["protocol"]["data"] for row in rows)
    with pytest.raises(
        ValueError, match=r"--against 'best': protocol 'sliding' has no such row; it has good, dim, copy"
    ):
        table.render(results, "table", against="best")


def test_the_interval_covers_as_often_as_it_says():
    """And is the t interval's width for many clips; unpaired clips and clips without a number do not count."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(100):
        values = random.normal(1, 1, 40)
        shared = random.normal(0, 10, 40)  # what clips have in common cancels
        entries = [{"better": "higher", "per_clip": list(x)} for x in (values + shared, shared)]
        ids = [str(i) for i in range(40)]
        found = bootstrap.difference(entries[0], ids, entries[1], ids)
        covered += found.low <= 1 <= found.high
        assert (found.high - found.low) / 2 == pytest.approx(1.96 * values.std() / np.sqrt(40), rel=0.06)
    assert 86 <= covered <= 100
    entries[0]["per_clip"][3] = None
    apart = bootstrap.difference(entries[0], ids, entries[1], ["x", *ids[1:]])
    assert apart.clips == 38 and apart.better == (np.delete(values, [0, 3]) > 0).sum()
    assert bootstrap.difference(entries[0], ids[:2], entries[1], ids[1:]) is None


def test_time_is_split_by_part(results):
    line = cells(table.render(results[:1], "table"), "good")[-1]
    seconds = results[0]["seconds"]
    spent = [*(value for part, value in seconds.items() if part != "metrics"), *seconds["metrics"].values()]
    assert line == ["good", *(f"{value:.1f}" for value in [*spent, sum(spent)])]
    old = {key: value for key, value in results[0].items() if key != "seconds"}
    assert "time of evaluation" not in table.render([old], "table")
    for form in ("markdown", "latex"):  # for papers, which the machine's seconds do not concern
        assert "time of evaluation" not in table.render(results, form)


def test_a_result_of_an_older_version_is_shown(results):
    old = [result | {"protocol": {k: v for k, v in result["protocol"].items() if k != "data"}} for result in results]
    assert len(cells(table.render(old, "table"), "dim")) == 6
    with pytest.raises(ValueError, match="data: "):
        table.render([results[0], old[1]], "table")


def test_csv_and_json_hold_full_numbers(results):
    rows = list(csv.DictReader(io.StringIO(table.render(results, "csv"))))
    assert len(rows) == 6 * 4 * 3  # rows, metrics, windows
    dim = next(row for row in rows if (row["row"], row["metric"], row["frames"]) == ("dim", "ssim", "1-22"))
    entry = results[1]["rows"][0]["metrics"]["ssim"]
    assert (float(dim["mean"]), float(dim["stderr"])) == (entry["mean"], entry["stderr"])
    assert int(dim["flops_per_frame"]) == 288 and dim["data"] == results[1]["protocol"]["data"]
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
