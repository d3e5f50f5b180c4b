"""Results as tables for people (text, markdown) and for programs (CSV). Results of one protocol share a block.

A block says what was done, then for every metric the means over windows of the horizon (frames counted from 1 after the
context) with standard errors over clips, and by how much a model beats the best trivial prediction, and itself under
shuffled actions; where the protocol has a revisit test, its table; then the costs, and notes.
"""

import csv
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from videopred import config
from videopred.evaluation import revisit
from videopred.evaluation.cells import Table, aligned, digits, pair, piped


@dataclass(frozen=True)
class Block:
    """Rows under one protocol: `models` first, then the trivial ones; each as in a result's `rows`.

    A model under shuffled actions is a row of `models` too, right behind its own.
    """

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
    """Results grouped by protocol; models of equal name are told apart by `labels` (one per result), or by a number.

    Raises ValueError if the results are of more than one protocol, unless `across_protocols`.
    """
    found: dict[tuple[str, str], Block] = {}
    for result, told in zip(results, _names(results, labels), strict=True):
        own, *others = result["rows"]
        models = [own, *(row for row in others if row.get("role") == "shuffled actions")]
        trivial = [row for row in others if row.get("role") != "shuffled actions"]
        models = [row | {"name": told + row["name"].removeprefix(own["name"])} for row in models]
        devices = [result["environment"]["device"]] * len(models)
        empty = Block(result["protocol"], [], trivial, [])
        block = found.setdefault(ground(result), empty)
        found[ground(result)] = replace(block, models=[*block.models, *models], devices=[*block.devices, *devices])
    if len(found) > 1 and not across_protocols:
        first, second, *_ = (block.protocol for block in found.values())
        differing = [line for line in config.difference(first, second) if not line.startswith(("name:", "hash:"))]
        raise ValueError(
            f"results of different protocols cannot share a table ({first['name']} and {second['name']}; "
            f"{'; '.join(differing[:3])}); --across-protocols prints one table for each"
        )
    return list(found.values())


def ground(result: dict[str, Any]) -> tuple[str, str]:
    """What two results must have alike to share a table: the protocol's hash, and that of the true clips.

    The second is "" in files of older versions, whose first one holds the name of the data's folder.
    """
    return result["protocol"]["hash"], result["protocol"].get("data", "")


def _names(results: Sequence[dict[str, Any]], labels: Sequence[str]) -> list[str]:
    """What each result's model is called in its block: never as another row is, or one would hide the other."""
    own = [(ground(result), result["rows"][0]["name"]) for result in results]
    taken = {(key, row["name"]) for result, (key, _) in zip(results, own, strict=True) for row in result["rows"][1:]}
    found = []
    for i, (key, name) in enumerate(own):
        if labels and (own.count((key, name)) > 1 or (key, name) in taken):
            name = f"{name} [{labels[i]}]"
        numbered = (f"{name} [{number}]" if number > 1 else name for number in itertools.count(1))
        found.append(next(name for name in numbered if (key, name) not in taken))
        taken.add((key, found[-1]))
    return found


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
    """One line per row, metric and window, and per group of a revisit test."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    costs = ["parameters", "flops_per_frame", "step_ms", "frames_per_second"]
    writer.writerow(
        ["protocol", "protocol_hash", "row", "clips", "samples", "metric", "frames", "mean", "stderr", *costs]
    )
    for block in blocks:
        for row in block.rows:
            for metric, entry in row["metrics"].items():
                start = [block.protocol["name"], block.protocol["hash"], row["name"], row["clips"], row["samples"]]
                for frames, *numbers in _lines(entry):
                    numbers += [row[cost] for cost in costs]
                    writer.writerow([*start, metric, frames, *("" if x is None else x for x in numbers)])
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


def _document(block: Block, heading: str, render) -> str:
    parts = [heading.format(block.description)]
    parts += [
        f"{heading.format(title)}\n{render(table)}" if title else render(table) for title, table in sections(block)
    ]
    said = notes(block)
    return "\n\n".join(parts + ["\n".join(said)] * bool(said))


def sections(block: Block) -> list[tuple[str, Table]]:
    """The tables of a block, each with its title: of every metric, of revisit tests, and, without one, of costs."""
    metrics = block.rows[0]["metrics"]
    tested = [metric for metric in metrics if any("revisit" in row["metrics"][metric] for row in block.rows)]
    found = [_metric(block, metric) for metric in metrics]
    found += [revisit.table(block.rows, metric, block.protocol["revisit"]) for metric in tested]
    costs = _costs(block)
    return found + [("", costs)] * (len(costs) > 1)


def _metric(block: Block, metric: str) -> tuple[str, Table]:
    entries = _entries(block, metric)
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
        cells = [pair(entry["windows"][w]["mean"], entry["windows"][w]["stderr"]) for w in windows]
        if ratio:
            finite = [x for x in entry["per_frame"] if x is not None]
            cells += [f"{f(finite):.3f}" if finite else "-" for f in (min, max)]
        cells += [pair(entry["group_mean"], entry["group_std"])] if grouped else []
        table.append([name, *cells])
    if not ratio:
        table += _gains(block, metric, windows, len(header))
    if floor := known.get("floor"):
        among = f"true clips, {known['floor_clips']} against {known['floor_clips']}"
        table.append([among, pair(floor, None), *[""] * (len(header) - 2)])
    unit = f" ({known['unit']})" if known["unit"] else ""
    good = {"one": "1 is right", "higher": "higher is better", "lower": "lower is better"}[known["better"]]
    what = "of all clips together" if not known["per_frame"] else "mean ± standard error over clips"
    return f"{metric}{unit}, {good}; {what}", table


def _entries(block: Block, metric: str) -> dict[str, dict[str, Any]]:
    """What each row has of a metric; where several samples were drawn, behind it the best of each clip."""
    found = {}
    for row in block.rows:
        entry = found[row["name"]] = row["metrics"][metric]
        if best := entry.get("best_of"):
            found[f"{row['name']}, best of {best['samples']}"] = best
    return found


def _gains(block: Block, metric: str, windows: list[str], width: int) -> Table:
    """By how much each model beats the best trivial row, and itself under shuffled actions, window by window."""
    table: Table = []
    for own in block.models:
        if own.get("role") == "shuffled actions":
            continue
        misled = [row for row in block.models if row["name"] == f"{own['name']} (shuffled actions)"]
        label = f": {own['name']}" if sum(row.get("role") != "shuffled actions" for row in block.models) > 1 else ""
        table.append([f"over best trivial{label}", *_gain(own, block.trivial, metric, windows, width - 1)])
        if misled:
            table.append([f"over shuffled actions{label}", *_gain(own, misled, metric, windows, width - 1)])
    return table


def _gain(own: dict, rivals: list[dict], metric: str, windows: list[str], width: int) -> list[str]:
    """A row less the best of others in each window; negative where it is worse, - where they are of other clips."""
    entry = own["metrics"][metric]
    others = [row["metrics"][metric] for row in rivals if row["clip_ids"] == own["clip_ids"]]
    others = [other for other in others if "windows" in other]
    if "windows" not in entry or not others:
        return ["-"] * width
    sign = -1 if entry["better"] == "lower" else 1
    cells = []
    for w in windows:
        gain = sign * entry["windows"][w]["mean"] - max(sign * other["windows"][w]["mean"] for other in others)
        cells.append(f"{gain:+.{digits(entry['windows'][w]['mean'])}f}")
    return cells + [""] * (width - len(cells))


def _costs(block: Block) -> Table:
    table = [["", "parameters", "GFLOP/frame", "ms/step", "batch", "frames/s", "device"]]
    for row, device in zip(block.models, block.devices, strict=True):
        if row["step_ms"] is None:  # frames from a file
            continue
        cost = [f"{row['parameters']:,}", f"{row['flops_per_frame'] / 1e9:.4g}", f"{row['step_ms']:.3g}"]
        table.append([row["name"], *cost, str(row["batch_size"]), f"{row['frames_per_second']:.4g}", device])
    return table


def notes(block: Block) -> list[str]:
    """What must be said about numbers of a block: one line each."""
    notes = _shared_notes(block)
    for row in block.rows:
        notes += [f"warning: {row['name']}: {text}" for text in row.get("warnings", [])]
        if row["failed_clips"]:
            clips = ", ".join(f"{clip} (from frame {frame})" for clip, frame in list(row["failed_clips"].items())[:5])
            more = f" and {len(row['failed_clips']) - 5} more" if len(row["failed_clips"]) > 5 else ""
            notes.append(
                f"note: {row['name']}: {len(row['failed_clips'])} clip(s) left out, a frame is not finite: "
                f"{clips}{more}; not comparable with rows of all clips"
            )
        for metric, entry in row["metrics"].items():
            test = entry.get("revisit", {})
            for reason in dict.fromkeys(test[group].get("reason") for group in ("seen", "new") if test):
                notes += [f"note: {row['name']}: revisit, {metric}: {reason}"] * bool(reason)
            if entry.get("capped_frames"):
                notes.append(f"note: {row['name']}: {entry['capped_frames']} frame(s) at the cap of {metric}")
    return notes


def _shared_notes(block: Block) -> list[str]:
    """What is said of a metric, once for all rows it is said of; whose names are left out if that is every row."""
    said: dict[str, list[str]] = {}
    for row in block.rows:
        for metric, entry in row["metrics"].items():
            if entry.get("reason"):
                said.setdefault(f"{metric} not computed: {entry['reason']}", []).append(row["name"])
            if entry.get("warning"):
                said.setdefault(f"{metric}: {entry['warning']}", []).append(row["name"])
    every = len(block.rows)
    return [f"note: {'' if len(names) == every else ', '.join(names) + ': '}{text}" for text, names in said.items()]
