"""The page: whole, self-contained, with the table's numbers, curves and clips that play."""

import base64
import html
import io
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from videopred.evaluation import blocks, evaluate, report, sections
from videopred.evaluation.report import Shown
from videopred.evaluation.shown import shown

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
    clips = shown(predictor(p), p, result)
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


def test_clips_play_truth_beside_prediction():
    rng = np.random.default_rng(0)
    real, fake = rng.integers(0, 256, (2, 5, 8, 9, 1), np.uint8)
    text = report.page([], clips=[Shown("one", real, fake, 2)])
    source = re.search(r"base64,([^\"]*)", text)[1]
    picture = Image.open(io.BytesIO(base64.b64decode(source)))
    assert picture.n_frames == 5 and picture.info["loop"] == 0
    scale = 192 // 9
    for t in range(5):
        picture.seek(t)
        pixels = np.asarray(picture.convert("RGB"))
        assert (pixels[0, 0] == (report.SHOWN if t < 2 else report.PREDICTED)).all()
        body = pixels[report.LINE :]
        np.testing.assert_array_equal(body[::scale, : 9 * scale : scale, 0], real[t, ..., 0])
        np.testing.assert_array_equal(body[::scale, 9 * scale + report.GAP :: scale, 0], fake[t, ..., 0])
