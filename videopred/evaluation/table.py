"""Results as tables for people (text, markdown, LaTeX) and for programs (CSV). Results of one protocol share a block.

A block says what was done, then for every metric the means over windows of the horizon (frames counted from 1 after the
context) with standard errors over clips, and by how much a model beats the best trivial prediction, and itself under
shuffled actions; where the protocol has a revisit test, its table; then the costs, and notes. The best of each column
is bold where there is bold type.
"""

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from videopred.evaluation import revisit
from videopred.evaluation.blocks import Block, blocks
from videopred.evaluation.cells import aligned, escaped, piped, tabular
from videopred.evaluation.sections import differences, named, notes, sections


def render(results: Sequence[dict[str, Any]], format: str, labels: Sequence[str] = (), **options: Any) -> str:
    """Results as "table", "markdown", "latex", "csv" or "json" (the object itself, or a list of several).

    labels, options : as `blocks` takes them
    """
    grouped = blocks(results, labels, **options)
    if format == "json":
        return json.dumps(results[0] if len(results) == 1 else list(results), indent=1, allow_nan=False)
    return {"table": text, "markdown": markdown, "latex": latex, "csv": comma_separated}[format](grouped)


def text(blocks: Sequence[Block]) -> str:
    """Aligned columns for a screen."""
    return "\n\n".join(_document(block, "{}", aligned, timed=True) for block in blocks)


def markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(_document(block, "**{}**\n", piped) for block in blocks)


def latex(blocks: Sequence[Block]) -> str:
    """Tables with captions, to be read by a document of any class."""
    parts = []
    for block in blocks:
        parts.append(rf"\paragraph{{{escaped(block.description)}}}")
        for title, table in sections(block, timed=False):
            caption = [rf"\caption{{{escaped(title or 'cost')}}}"]
            parts.append("\n".join([r"\begin{table}", r"\centering", *caption, tabular(table), r"\end{table}"]))
        parts += [rf"\noindent {escaped(note)}" for note in notes(block)]
    return "\n\n".join(parts)


def comma_separated(blocks: Sequence[Block]) -> str:
    """One line per row (and best of its samples), metric and window, and per group of a revisit test."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    costs = ["parameters", "flops_per_frame", "step_ms", "frames_per_second"]
    compared = (
        ["against", "difference", "low", "high", "clips_better", "clips_compared"]
        if any(block.against for block in blocks)
        else []
    )
    head = ["protocol", "protocol_hash", "row", "clips", "samples", "metric", "frames", "mean", "stderr"]
    writer.writerow([*head, *costs, *compared, "data"])
    for block in blocks:
        apart = {metric: differences(block, metric) for metric in block.rows[0]["metrics"]}
        for row in block.rows:
            entries = [(name, x, y) for x in row["metrics"] for name, y in named(row, x).items()]
            for name, metric, entry in entries:
                start = [block.protocol["name"], block.protocol["hash"], name, row["clips"], row["samples"]]
                whole, found = list(entry.get("windows", {}))[-1:], apart[metric].get(name)
                for frames, *numbers in _lines(entry):
                    numbers += [row[cost] for cost in costs]
                    if compared:
                        told = [block.against, *dataclasses.astuple(found)] if found else []
                        numbers += told if told and [frames] == whole else [""] * len(compared)
                    numbers = ["" if x is None else x for x in [*numbers, block.protocol.get("data")]]
                    writer.writerow([*start, metric, frames, *numbers])
    return out.getvalue().rstrip("\n")


def _lines(entry: dict[str, Any]) -> Iterator[tuple[str, float | None, float | None]]:
    """Of a metric: (frames, mean, standard error)."""
    for frames, cell in entry.get("windows", {"": entry}).items():
        yield frames, cell["mean"], cell["stderr"]
    test = entry.get("revisit", {})
    for words, groups in ((" matched", test), (" unmatched", test.get("unmatched", {}))):
        for group in ("seen", "new") if groups else ():
            cell = groups[group]
            yield group + words, cell["mean"], cell["stderr"]
            yield f"{group}{words}, over {revisit.BASELINE}", cell["gain"], cell["gain_stderr"]


def _document(block: Block, heading: str, render, timed: bool = False) -> str:
    parts = [heading.format(block.description)]
    parts += [
        f"{heading.format(title)}\n{render(table)}" if title else render(table)
        for title, table in sections(block, timed)
    ]
    said = notes(block)
    return "\n\n".join(parts + ["\n".join(said)] * bool(said))
