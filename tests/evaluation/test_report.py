"""The page: whole, self-contained, with the table's numbers, curves and clips that play."""

import base64
import dataclasses
import html
import io
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from videopred import checkpoint, cli
from videopred.evaluation import Protocol, blocks, evaluate, report, sections
from videopred.evaluation.curves import ticks
from videopred.evaluation.report import Shown
from videopred.evaluation.shown import shown
from videopred.metrics import PSNRConfig

VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """Every element that is opened is closed in turn; what the page refers to."""

    def __init__(self):
        super().__init__()
        self.open, self.references, self.count = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.references += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def result(protocol, predictor):
    p = protocol(horizon=6)
    return evaluate(predictor(p), p, checkpoint={"name": "a <model>", "config": {"secret": 1}}).data


def test_the_page_needs_nothing_and_holds_the_table(result, protocol, predictor):
    p = protocol(horizon=6)
    clips = shown({"a <model>": predictor(p), "other": predictor(p)}, p, result)
    reader = Reader()
    text = report.page([result], clips=clips)
    reader.feed(text)
    assert reader.open == [] and "<script" not in text
    assert len(reader.references) == 3 and all(x.startswith("data:image/webp;base64,") for x in reader.references)
    assert reader.count["svg"] == 4 and reader.count["polyline"] == 4 * 5  # metrics, rows
    plain = re.findall(r"<td>(?:<b>)?([^<]*)", text)
    for block in blocks.blocks([result]):
        for _, cells in sections.sections(block):
            assert all(html.escape(cell, quote=False) in plain for cell in cells[1])
    assert "a &lt;model&gt;" in text and "a <model>" not in text and "secret" not in text


def test_curves_follow_the_numbers(result):
    text = report.page([result])
    entry = result["rows"][1]["metrics"]["psnr"]["per_frame"]
    line = re.findall(r'<polyline points="([^"]*)"', text)[1]
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert len(heights) == 6
    order = np.argsort(entry)
    assert all(heights[a] >= heights[b] for a, b in pairwise(order))  # higher is further up


def test_best_median_and_worst(result):
    values, ids = result["rows"][1]["metrics"]["psnr"]["per_clip"], result["rows"][1]["clip_ids"]
    chosen = report.choice({"rows": [result["rows"][1]]})
    order = [ids[i] for i in np.argsort(values)[::-1]]
    assert [*chosen.values()] == [order[0], order[2], order[4]]
    assert next(iter(chosen)).startswith(f"best by psnr ({max(values):.2f}): ")


def test_clips_play_truth_beside_predictions_in_step():
    rng = np.random.default_rng(0)
    panes = {name: rng.integers(0, 256, (5, 8, 9, 1), np.uint8) for name in ("truth", "one", "two")}
    text = report.page([], clips=[Shown("best", panes, 2)])
    assert all(f"<span>{name}</span>" in text for name in panes)
    source = re.search(r"base64,([^\"]*)", text)[1]
    picture = Image.open(io.BytesIO(base64.b64decode(source)))
    assert picture.n_frames == 5 and picture.info["loop"] == 0
    scale = 192 // 9
    for t in range(5):
        picture.seek(t)
        pixels = np.asarray(picture.convert("RGB"))
        for i, pane in enumerate(panes.values()):
            left = i * (9 * scale + report.GAP)
            line = pixels[0, left : left + 9 * scale]
            run = round(9 * scale * (t + 1) / 5)
            assert (line[:run] == (report.SHOWN if t < 2 else report.PREDICTED)).all() and (line[run:] == 0).all()
            body = pixels[report.LINE :: scale, left : left + 9 * scale : scale, 0]
            np.testing.assert_array_equal(body, pane[t, ..., 0])


def test_only_the_start_of_a_long_clip_is_shown():
    panes = {"truth": np.random.default_rng(0).integers(0, 256, (report.LONGEST + 50, 2, 2, 3), np.uint8)}
    source = re.search(r"base64,([^\"]*)", report.page([], clips=[Shown("long", panes, 2)]))[1]
    assert Image.open(io.BytesIO(base64.b64decode(source))).n_frames == report.LONGEST


def test_a_clip_that_is_two_of_these_is_shown_once(result):
    row = result["rows"][1]
    entry = row["metrics"]["psnr"]
    for n, want in ((1, ["best and median and worst"]), (2, ["best", "median and worst"])):
        few = row | {"metrics": {"psnr": entry | {"per_clip": [9.0, 8.0][:n]}}, "clip_ids": ["a", "b"][:n]}
        chosen = report.choice({"rows": [few]})
        assert [title.partition(" by psnr")[0] for title in chosen] == want
        assert [*chosen.values()] == few["clip_ids"]


def test_zero_has_no_sign():
    assert "-0" not in [f"{tick:.4g}" for tick in (*ticks(-0.02, 1.3), *ticks(-3, 0.2))]


@pytest.mark.parametrize(
    ("low", "high", "want"),
    [(1, 200, [50, 100, 150, 200]), (12.3, 23, [15, 20]), (0.21, 0.36, [0.25, 0.3, 0.35]), (3, 3, [3])],
)
def test_ticks_are_round_numbers_within(low, high, want):
    found = ticks(low, high)
    assert len(found) <= 6 and all(low - 1e-9 <= x <= high + 1e-9 for x in found)
    assert found[:1] == pytest.approx(want[:1]) and set(np.round(want, 6)) <= set(np.round(found, 6))


def test_a_table_of_results_shows_their_models(model_files, capsys):
    """By name, in step; what is not on this machine is said, and the page is there without it."""
    first, second = model_files
    assert cli.main(["table", str(first), str(second), "--report", "page.html"]) == 0
    text = Path("page.html").read_text()
    assert text.count("<figure") == 3 and text.count("<span>moving-mnist-small</span>") == 3
    err = capsys.readouterr().err
    assert "no clips of gone in the report: " in err and "<span>gone</span>" not in text
    assert "no clips of gone in the report: " in text and err.endswith("videopred: report in page.html\n")


@pytest.fixture
def model_files(empty_folder):
    """The shipped model's result on few clips, and that of a model that has gone."""
    loaded = checkpoint.load("moving-mnist-small")
    few = dataclasses.replace(
        Protocol.load("moving-mnist-small"), num_clips=3, context=3, horizon=3, metrics=(PSNRConfig(),)
    )
    of = {"name": loaded.name, "hash": loaded.hash}
    result = evaluate(loaded.predictor, few, checkpoint=of)
    return result.save("a.json"), evaluate(loaded.predictor, few, checkpoint=of | {"name": "gone"}).save("b.json")
