"""What a bench found: one JSON object for programs, one table for people."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from videopred.bench.rounds import Row
from videopred.data.whole_file import WholeFile


def to_dict(bench: str, quick: bool, environment: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """The object of a bench file; a row's figures stand beside its other numbers, an empty note is left out.

    `roofline` is the time that a row's work would take at the machine's peaks, over the time it took.
    """
    entries = []
    for row in rows:
        entry = asdict(row)
        note, work = entry.pop("note"), entry.pop("work")
        if work and row.median_ms:
            least = sum(amount / environment["peaks"][peak] for peak, amount in work.items())
            entry["figures"] = {**entry["figures"], "roofline": 1e3 * least / row.median_ms}
        entries.append(entry | entry.pop("figures") | ({"note": note} if note else {}))
    return {"bench": bench, "quick": quick, "environment": environment, "rows": entries}


def save(data: dict[str, Any], path: Path) -> None:
    """Writes the object to a file that appears whole or not at all."""
    write(json.dumps(data, indent=1, allow_nan=False) + "\n", path)


def write(text: str, path: Path) -> None:
    with WholeFile(path) as file:
        file.temporary.write_text(text)


def table(data: dict[str, Any]) -> str:
    """The machine on one line, then a block of rows for every shape, then the notes."""
    lines = [machine(data["environment"])]
    shapes = list(dict.fromkeys(row["shape"] for row in data["rows"]))
    for shape in shapes:
        lines += ["", *_block(shape, [row for row in data["rows"] if row["shape"] == shape])]
    notes = [f"note: {row['name']}: {row['note']}" for row in data["rows"] if row.get("note")]
    return "\n".join(lines + [""] * bool(notes) + notes)


def machine(environment: dict[str, Any]) -> str:
    peaks, threads = environment["peaks"], f"{environment['threads']} thread" + "s" * (environment["threads"] != 1)
    return (
        f"{environment['cpu']}, {threads}, torch {environment['torch']}; at best "
        f"matmul {peaks['matmul_gflops']:.0f} GFLOP/s, 3x3 convolution {peaks['conv3x3_gflops']:.0f} GFLOP/s, "
        f"copy {peaks['copy_gbytes']:.1f} GB/s"
    )


def _block(shape: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    known = {"name", "shape", "median_ms", "ratio_to", "ratio", "rounds", "note"}
    figures = list(dict.fromkeys(key for row in rows for key in row if key not in known))
    cells = [[shape, "median ms", "ratio", "to", "rounds", *(key.replace("_", " ") for key in figures)]]
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        numbers = [_short(row["median_ms"]), ratio, row["ratio_to"] or "", str(row["rounds"])]
        cells.append([row["name"], *numbers, *(_short(row.get(key)) for key in figures)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    pad = [str.ljust if heading in (shape, "to") else str.rjust for heading in cells[0]]
    return ["  ".join(f(cell, w) for f, cell, w in zip(pad, line, widths, strict=True)).rstrip() for line in cells]


def _short(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
