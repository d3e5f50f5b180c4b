"""Ablations: one preset, changed cell by cell, each cell trained and scored under one budget and one protocol.

A file of `eval/ablations/` is an `Ablation`. A sweep goes through its cells in order and rewrites one result file after
each, whole or not at all. A cell that is in the file already is not run again, as long as everything that decides its
numbers is the same (its `fingerprint`); a cell whose training was cut short goes on in its own run folder, which is
named after the cell and its settings: under other settings, or in another time, it is trained anew.

This floor knows neither training nor evaluation: both are handed in, as `Work`.
"""

import hashlib
import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videopred import config
from videopred.data.whole_file import WholeFile, require_writable

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One row: the preset under these overrides, `key.path=value` as `videopred train` takes them."""

    name: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """What all cells have alike; 0 turns one off.

    parameters : largest share by which a cell's number of parameters may differ from the first cell's
    seconds    : of training; each cell makes as many updates as fill them by the wall clock, where updates of all cells
                 are timed in turns before the first is trained (0: as the preset says)
    """

    parameters: float = 0.0
    seconds: float = 0.0

    def __post_init__(self):
        config.at_least(self, parameters=0, seconds=0)


@dataclass(frozen=True)
class Ablation:
    """
    base      : a preset's name
    overrides : of every cell, before its own
    protocol  : a protocol's name
    clips     : of the protocol, the first so many (0: all)
    question  : what the table is to answer, in a sentence
    """

    base: str
    protocol: str
    cells: tuple[Cell, ...]
    question: str = ""
    overrides: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)
    clips: int = 0
    name: str = ""

    def __post_init__(self):
        config.at_least(self, clips=0)
        names = [slug(cell.name) for cell in self.cells]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"cells: {names}: must be at least one, and none of the same name")
        if "" in names:
            name = self.cells[names.index("")].name
            raise ValueError(f"cells: name = {name!r}: must have a letter a-z or a digit; its run folder is named so")


@dataclass(frozen=True)
class Work:
    """What a sweep is made of.

    load(overrides)         -> a run's configuration. Raises ConfigError
    parameters(run)         -> their number
    costs(runs)             -> of each "update_ms", the mean over a whole training, and "frame_ms", the share of a clip
                               in a step of a rollout of a batch; measured side by side
    train(run, folder)      -> a checkpoint; goes on from what the folder holds. Raises Failed
    evaluate(checkpoint)    -> a result as `videopred eval` writes it, the model's row first
    protocol                -> that result's `protocol`
    """

    load: Callable[[Sequence[str]], Any]
    parameters: Callable[[Any], int]
    costs: Callable[[Sequence[Any]], list[dict[str, float]]]
    train: Callable[[Any, Path], Path]
    evaluate: Callable[[Path], dict[str, Any]]
    protocol: dict[str, Any]


class Failed(Exception):
    """A cell that cannot be trained and would not be better for trying again; the message says why."""


def sweep(ablation: Ablation, work: Work, folder: Path, out: Path) -> dict[str, Any]:
    """Runs the cells that `out` lacks and returns what it holds then. Cells are trained in folders below `folder`.

    Raises ConfigError, before any training, if a cell cannot be loaded or breaks the budget.
    """
    require_writable(out)
    old = read(out)
    if old and (other := old["ablation"].get("name")) != ablation.name:
        raise ValueError(f"{out}: holds the ablation {other!r}, this is {ablation.name!r}; give another --out")
    runs = [load(cell, ablation, work) for cell in ablation.cells]
    counts = [work.parameters(run) for run in runs]
    check_parameters(ablation, counts)
    marks = [fingerprint(run, ablation, work.protocol) for run in runs]
    rows = {row["fingerprint"]: row for row in old.get("rows", []) if "fingerprint" in row}
    same = old.get("protocol", {}).get("hash") == work.protocol["hash"]
    shared = {key: old[key] for key in ("costs", "environment", "trivial") if key in old and same}
    cells = [
        {"name": cell.name, "overrides": list(cell.overrides), "fingerprint": mark, "parameters": count}
        for cell, mark, count in zip(ablation.cells, marks, counts, strict=True)
    ]
    if not set(marks) <= shared.get("costs", {}).keys():
        say(f"timing {len(runs)} cells side by side")
        shared["costs"] = dict(zip(marks, work.costs(runs), strict=True))

    def keep() -> None:
        done = [rows[about["fingerprint"]] | about for about in cells if about["fingerprint"] in rows]
        save(assemble(ablation, work, shared, done), out)

    keep()
    for number, (cell, run, mark) in enumerate(zip(ablation.cells, runs, marks, strict=True), 1):
        if mark in rows:
            continue
        say(f"cell {number} of {len(runs)}: {cell.name}")
        place = folder / f"{slug(cell.name)}-{hashed(settings(run, ablation))[:8]}"
        if ablation.budget.seconds:
            filling = round(ablation.budget.seconds / shared["costs"][mark]["update_ms"] * 1e3)
            run = replace(run, training=replace(run.training, steps=begun(place) or max(1, filling)))
        rows[mark], result = run_cell(run, work, place)
        if result:
            trivial = [row for row in result["rows"] if row["role"] == "trivial"]
            shared |= {"environment": result["environment"], "trivial": trivial}
        keep()
    return read(out)


def load(cell: Cell, ablation: Ablation, work: Work) -> Any:
    try:
        return work.load([*ablation.overrides, *cell.overrides])
    except ValueError as error:
        raise config.ConfigError(f"cell {cell.name!r}: {error}") from error


def check_parameters(ablation: Ablation, counts: Sequence[int]) -> None:
    """Raises ConfigError that names the first cell whose number of parameters is out of the budget."""
    share, first = ablation.budget.parameters, counts[0]
    for cell, count in zip(ablation.cells, counts, strict=True):
        if share and abs(count - first) > share * first:
            low, high = round(first * (1 - share)), round(first * (1 + share))
            raise config.ConfigError(
                f"cell {cell.name!r} has {count:,} parameters: the budget allows {low:,} to {high:,} "
                f"({share:.1%} around {ablation.cells[0].name!r}); change its width"
            )


def run_cell(run: Any, work: Work, folder: Path) -> tuple[Row, dict[str, Any] | None]:
    """Trains and scores one cell: its row, and the whole result of its evaluation (None if it failed)."""
    try:
        checkpoint = work.train(run, folder)
    except Failed as failure:
        return {"metrics": {}, "failed": str(failure), "training": trained(folder)}, None
    result = work.evaluate(checkpoint)
    made = {"training": trained(folder), "checkpoint": result["checkpoint"], "environment": result["environment"]}
    return result["rows"][0] | made, result


def begun(folder: Path) -> int:
    """The number of updates that a cell's training began with, 0 if it has not."""
    path = folder / "config.toml"
    return config.parse(path)["training"]["steps"] if path.is_file() else 0


def trained(folder: Path) -> dict[str, Any]:
    """Steps, seconds and last loss of a run, from its log. Time spent saving and validating is left out."""
    path, seconds, last, each, loss = folder / "metrics.jsonl", 0.0, 0, [], None
    for line in path.read_text().splitlines() if path.is_file() else ():
        entry = json.loads(line)
        if "ms_per_step" in entry:
            seconds += (entry["step"] - last) * entry["ms_per_step"] / 1e3
            each.append(entry["ms_per_step"])
            last, loss = entry["step"], entry["loss"]
    return {"steps": last, "seconds": seconds, "ms_per_step": statistics.median(each) if each else None, "loss": loss}


def settings(run: Any, ablation: Ablation) -> Row:
    """All that decides a cell's training: its configuration, and its time, if that decides the number of steps."""
    table = config.to_dict(run)
    del table["name"]
    if ablation.budget.seconds:
        table["training"]["steps"] = f"as many as take {ablation.budget.seconds} s"
    return table


def fingerprint(run: Any, ablation: Ablation, protocol: dict[str, Any]) -> str:
    """16 hex digits over all that decides a cell's numbers: its training and the protocol."""
    return hashed(settings(run, ablation), protocol["hash"])


def hashed(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def assemble(ablation: Ablation, work: Work, shared: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """The object of a result file. `rows` are the cells that are done; `trivial` is what needs no model."""
    return {"ablation": config.to_dict(ablation), "protocol": work.protocol} | shared | {"rows": list(rows)}


def read(path: Path) -> dict[str, Any]:
    """The object of a sweep's result file, {} if there is none yet. Raises ValueError if it is something else."""
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error}); move it away, or give another --out") from error
    rows, tables = (data.get("rows"), ("ablation", "protocol")) if isinstance(data, dict) else (None, ())
    whole = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not whole or not all(isinstance(data.get(key), dict) for key in tables):
        raise ValueError(f"{path}: not the result of a sweep; move it away, or give another --out")
    return data


def save(data: dict[str, Any], path: Path) -> None:
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    with WholeFile(path) as file:
        file.temporary.write_text(text, encoding="utf-8")


def slug(name: str) -> str:
    """A cell's name as a folder's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def say(text: str) -> None:
    print(f"videopred: {text}", file=sys.stderr, flush=True)
