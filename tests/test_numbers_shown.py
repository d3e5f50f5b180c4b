"""The numbers that our pages show of models are those of the result files that they link to.

A table belongs to the result file that was linked last before it. Tables over windows of frames and those of the
revisit test are read as `METRIC, ROW`; of sentences, those about costs; of what was aimed at and reached, kinds below.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from videopred.evaluation import revisit, sweep_table
from videopred.evaluation.cells import pair

ROOT = Path(__file__).parents[1]
PAGES = [page for page in (ROOT / name / "README.md" for name in ("", "checkpoints", "eval")) if page.is_file()]
LINK = re.compile(r"\(((?:(?:\.\./)?eval/)?results/[\w.-]+\.json)\)")
COST = "{parameters:,} parameters, {gflop:.3f} GFLOP per predicted frame, {step_ms:.0f} ms per step for a batch of "
COST += "{batch_size} clips ({frames_per_second:.0f} frames/s)"


def tables(page: Path):
    """(result, table) of every Markdown table that follows a link to a result; and the results themselves."""
    found, data = [], None
    for paragraph in page.read_text().split("\n\n"):
        for link in LINK.findall(paragraph):
            read = json.loads((page.parent / link).read_text())
            data = read if "rows" in read and isinstance(read.get("protocol"), dict) else None  # not a benchmark
        if paragraph.startswith("#"):
            data = None
        if data is not None and paragraph.startswith("|"):
            lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in paragraph.splitlines()]
            found.append((data, [lines[0], *lines[2:]]))
    return found


def row_of(data, words: str):
    """The row that a page means by "model", "the same, shuffled actions" or its name."""
    roles = {"model": "model", "the same, shuffled actions": "shuffled actions"}
    if words == "model":
        return data["rows"][0]
    return next(row for row in data["rows"] if words in (row["name"],) or row.get("role") == roles.get(words))


def expected(data, header: list[str], label: str) -> list[str]:
    metric, _, words = label.partition(", ")
    metric, row = metric.lower(), row_of(data, words)
    if header[1:3] == ["seen", "new"]:
        return revisit.table([row], metric, data["protocol"]["revisit"])[1][1][1:]
    windows = row["metrics"][metric]["windows"]
    cells = [windows[column.removeprefix("frame ")] for column in header[1:]]
    return [pair(cell["mean"], cell["stderr"]) for cell in cells]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_scores(page):
    shown = [(data, table) for data, table in tables(page) if table[0][1] in ("frame 1", "1-16", "seen")]
    for data, (header, *rows) in shown:
        for label, *cells in rows:
            assert cells == expected(data, header, label), f"{data['protocol']['name']}: {label}"
    if page == ROOT / "README.md":
        assert len(shown) >= 3


def test_tables_of_sweeps():
    """As `videopred sweep NAME --format markdown` prints them, and each ablation has one."""
    shown = [(data, table) for data, table in tables(ROOT / "eval/README.md") if "ablation" in data]
    for data, table in shown:
        lines = [line for line in sweep_table.table(data, markdown=True).splitlines() if line.startswith("| ")]
        assert table == [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(shown) == len(list((ROOT / "eval/ablations").glob("*.toml")))


def test_costs():
    text = " ".join((ROOT / "README.md").read_text().split())
    sentences = re.findall(r"[\d,]+ parameters, [\d.]+ GFLOP per predicted frame.*?frames/s\)", text)
    models = [data["rows"][0] for data, table in tables(ROOT / "README.md") if table[0][1].startswith("frame")]
    assert sentences == [COST.format(**row, gflop=row["flops_per_frame"] / 1e9) for row in models]


# What a row is called -> the numbers that stand in its last cell, of a result.
REACHED = {
    r"(\w+), frame 1": lambda data, metric: [mean(data, 0, metric, "1")],
    r"(\w+), mean of ([\d-]+)": lambda data, metric, window: [mean(data, 0, metric, window)],
    r"(\w+), mean of ([\d-]+), over the best trivial row.*": lambda data, metric, window: [
        mean(data, 0, metric, window) - max(mean(data, i, metric, window) for i in range(1, len(data["rows"])))
    ],
    r"(\w+) ([\d-]+) over shuffled actions": lambda data, metric, window: [
        mean(data, 0, metric, window) - mean(data, 1, metric, window)
    ],
    r"(ink), every frame to (\d+)": lambda data, metric, last: [
        function(curve(data["rows"][0], metric)[: int(last)]) for function in (np.min, np.max)
    ],
    r"(energy), every frame to (\d+) / (\d+)": lambda data, metric, *lasts: [
        curve(data["rows"][0], metric)[: int(last)].min() for last in lasts
    ],
    r"(\w+) over ([a-z-]+), every frame to (\d+)": lambda data, metric, other, last: [
        (curve(data["rows"][0], metric) - curve(row_of(data, other), metric))[: int(last)].min()
    ],
}


def mean(data, row: int, metric: str, window: str) -> float:
    return data["rows"][row]["metrics"][metric.lower()]["windows"][window]["mean"]


def curve(row, metric: str) -> np.ndarray:
    return np.array(row["metrics"][metric.lower()]["per_frame"])


def test_what_was_reached():
    """Numbers as they are printed: rounded to so many places; what was not reached says how far below."""
    read = 0
    for data, (header, *rows) in tables(ROOT / "checkpoints/README.md"):
        for label, _, cell in rows if header[1] == "aimed at" else ():
            rule = next(((m, what) for pattern, what in REACHED.items() if (m := re.fullmatch(pattern, label))), None)
            if rule is None:
                continue
            numbers, read = rule[1](data, *rule[0].groups()), read + 1
            if below := re.search(r"(\d+) frames \(([\d, ]+)\) lie up to ([\d.]+) below", cell):
                gap = curve(data["rows"][0], rule[0][1]) - curve(row_of(data, rule[0][2]), rule[0][1])
                assert [int(x) for x in below[2].split(", ")] == [i + 1 for i in np.nonzero(gap < 0)[0]]
                assert int(below[1]) == (gap < 0).sum() and f"{-gap.min():.{len(below[3]) - 2}f}" == below[3]
                continue
            printed = re.findall(r"\d+\.\d+", cell)
            assert printed == [f"{x:.{len(p) - p.index('.') - 1}f}" for x, p in zip(numbers, printed, strict=True)], (
                label
            )
    assert read >= 10
