"""Results as tables for people (text, markdown) and for programs (CSV). Results of one protocol share a block.

A block says what was done, then for every metric the means over windows of the horizon (frames counted from 1 after the
context) with standard errors over clips, and what the best trivial prediction is beaten by; then the costs, and notes.
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from videopred import config

Table = list[list[str]]  # the first row is the header


@dataclass(frozen=True)
class Block:
    """Rows under one protocol: `models` first, then the trivial ones; each as in a result's `rows`."""

    protocol: dict[str, Any]
    models: list[dict[str, Any]]
    trivial: list[dict[str, Any]]
    devices: list[str]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [*self.models, *self.trivial]

    @property
    def description(self) -> str:
        p = self.protocol
        recipe = p["recipe"].get("name") or p["recipe"]["kind"]
        numbers = f"{p['num_clips']} clips, context {p['context']}, horizon {p['horizon']}, {p['samples']} sample(s)"
        return f"{p['name']} ({p['hash']}): recipe {recipe}, {p['split']} split, {numbers}, {p['quantise']}"


def blocks(
    results: Sequence[dict[str, Any]], labels: Sequence[str] = (), *, across_protocols: bool = False
) -> list[Block]:
    """Results grouped by protocol; models of equal name are told apart by `labels` (one per result).

    Raises ValueError if the results are of more than one protocol, unless `across_protocols`.
    """
    found: dict[str, Block] = {}
    names = [result["rows"][0]["name"] for result in results]
    for i, result in enumerate(results):
        model, *trivial = result["rows"]
        if names.count(names[i]) > 1 and labels:
            model = model | {"name": f"{names[i]} [{labels[i]}]"}
        device = result["environment"]["device"]
        empty = Block(result["protocol"], [], trivial, [])
        block = found.setdefault(result["protocol"]["hash"], empty)
        found[result["protocol"]["hash"]] = replace(
            block, models=[*block.models, model], devices=[*block.devices, device]
        )
    if len(found) > 1 and not across_protocols:
        first, second, *_ = (block.protocol for block in found.values())
        differing = [line for line in config.difference(first, second) if not line.startswith(("name:", "hash:"))]
        raise ValueError(
            f"results of different protocols cannot share a table ({first['name']} and {second['name']}; "
            f"{'; '.join(differing[:3])}); --across-protocols prints one table for each"
        )
    return list(found.values())


def render(
    results: Sequence[dict[str, Any]], format: str, labels: Sequence[str] = (), *, across_protocols=False
) -> str:
    """Results as "table", "markdown", "csv" or "json" (the object itself, or a list of several); see `blocks`."""
    grouped = blocks(results, labels, across_protocols=across_protocols)
    if format == "json":
        return json.dumps(results[0] if len(results) == 1 else list(results), indent=1, allow_nan=False)
    return {"table": text, "markdown": markdown, "csv": comma_separated}[format](grouped)


def text(blocks: Sequence[Block]) -> str:
    """Aligned columns for a screen."""
    return "\n\n".join(_document(block, "{}", aligned) for block in blocks)


def markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(_document(block, "**{}**\n", piped) for block in blocks)


def comma_separated(blocks: Sequence[Block]) -> str:
    """One line per row, metric and window."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    costs = ["parameters", "flops_per_frame", "step_ms", "frames_per_second"]
    writer.writerow(
        ["protocol", "protocol_hash", "row", "clips", "samples", "metric", "frames", "mean", "stderr", *costs]
    )
    for block in blocks:
        for row in block.rows:
            for metric, entry in row["metrics"].items():
                for frames, cell in entry.get("windows", {"": entry}).items():
                    start = [block.protocol["name"], block.protocol["hash"], row["name"], row["clips"], row["samples"]]
                    numbers = [cell["mean"], cell["stderr"], *(row[cost] for cost in costs)]
                    writer.writerow([*start, metric, frames, *("" if x is None else x for x in numbers)])
    return out.getvalue().rstrip("\n")


def _document(block: Block, heading: str, render) -> str:
    parts = [heading.format(block.description)]
    for metric in block.rows[0]["metrics"]:
        title, table = _metric(block, metric)
        parts.append(f"{heading.format(title)}\n{render(table)}")
    parts.append(render(_costs(block)))
    notes = _notes(block)
    return "\n\n".join(parts + ["\n".join(notes)] * bool(notes))


def _metric(block: Block, metric: str) -> tuple[str, Table]:
    entries = {row["name"]: row["metrics"][metric] for row in block.rows}
    known = next((entry for entry in entries.values() if "windows" in entry), None)
    if known is None:
        return metric, [["", "mean"], *([name, "-"] for name in entries)]
    windows, grouped = list(known["windows"]), any("group_mean" in entry for entry in entries.values())
    ratio = known["better"] == "one"
    header = ["", *(f"frame {w}" if "-" not in w else w for w in windows)]
    header += ["lowest", "highest"] if ratio else []
    header += [f"groups of {block.protocol['group_size']}"] if grouped else []
    table = [header]
    for name, entry in entries.items():
        if "windows" not in entry:
            table.append([name, *["-"] * (len(header) - 1)])
            continue
        cells = [_pair(entry["windows"][w]["mean"], entry["windows"][w]["stderr"]) for w in windows]
        if ratio:
            finite = [x for x in entry["per_frame"] if x is not None]
            cells += [f"{f(finite):.3f}" if finite else "-" for f in (min, max)]
        cells += [_pair(entry["group_mean"], entry["group_std"])] if grouped else []
        table.append([name, *cells])
    if not ratio:
        table += [_gain(block, row, metric, windows, len(header)) for row in block.models]
    unit = f" ({known['unit']})" if known["unit"] else ""
    good = {"one": "1 is right", "higher": "higher is better", "lower": "lower is better"}[known["better"]]
    return f"{metric}{unit}, {good}; mean ± standard error over clips", table


def _gain(block: Block, row: dict[str, Any], metric: str, windows: list[str], width: int) -> list[str]:
    """By how much a model beats the best trivial row, window by window; negative where it does not."""
    name = "over best trivial" + (f": {row['name']}" if len(block.models) > 1 else "")
    own = row["metrics"][metric]
    rivals = [other["metrics"][metric] for other in block.trivial if "windows" in other["metrics"][metric]]
    if "windows" not in own or not rivals:
        return [name, *["-"] * (width - 1)]
    sign = -1 if own["better"] == "lower" else 1
    cells = []
    for w in windows:
        gain = sign * own["windows"][w]["mean"] - max(sign * rival["windows"][w]["mean"] for rival in rivals)
        cells.append(f"{gain:+.{_digits(own['windows'][w]['mean'])}f}")
    return [name, *cells, *[""] * (width - 1 - len(cells))]


def _costs(block: Block) -> Table:
    table = [["", "parameters", "GFLOP/frame", "ms/step", "batch", "frames/s", "device"]]
    for row, device in zip(block.models, block.devices, strict=True):
        cost = [f"{row['parameters']:,}", f"{row['flops_per_frame'] / 1e9:.4g}", f"{row['step_ms']:.3g}"]
        table.append([row["name"], *cost, str(row["batch_size"]), f"{row['frames_per_second']:.4g}", device])
    return table


def _notes(block: Block) -> list[str]:
    notes = []
    for row in block.rows:
        if row["failed_clips"]:
            clips = ", ".join(f"{clip} (from frame {frame})" for clip, frame in list(row["failed_clips"].items())[:5])
            more = f" and {len(row['failed_clips']) - 5} more" if len(row["failed_clips"]) > 5 else ""
            notes.append(
                f"note: {row['name']}: {len(row['failed_clips'])} clip(s) left out, a frame is not finite: "
                f"{clips}{more}"
            )
        for metric, entry in row["metrics"].items():
            if entry.get("reason"):
                notes.append(f"note: {row['name']}: {metric} not computed: {entry['reason']}")
            if entry.get("capped_frames"):
                notes.append(f"note: {row['name']}: {entry['capped_frames']} frame(s) at the cap of {metric}")
    return notes


def _pair(mean: float | None, error: float | None) -> str:
    if mean is None:
        return "-"
    digits = _digits(mean)
    return f"{mean:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def _digits(mean: float) -> int:
    return 2 if abs(mean) >= 2 else 3


def aligned(table: Table) -> str:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [
        [cell.ljust(widths[0]) if i == 0 else cell.rjust(widths[i]) for i, cell in enumerate(row)] for row in table
    ]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def piped(table: Table) -> str:
    lines = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([lines[0], f"|{'---|' * len(table[0])}", *lines[1:]])
