"""What a bench found: one JSON object for programs, one table for people."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from videopred.bench.rounds import Row


def to_dict(bench: str, quick: bool, environment: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """The object of a bench file; a row's figures stand beside its other numbers, an empty note is left out."""
    entries = []
    for row in rows:
        entry = asdict(row)
        note = entry.pop("note")
        entries.append(entry | entry.pop("figures") | ({"note": note} if note else {}))
    return {"bench": bench, "quick": quick, "environment": environment, "rows": entries}


def require_writable(path: Path) -> None:
    """Raises ValueError unless `save` can write `path`: to be asked before the work, not after it."""
    try:
        temporary = _temporary(path)
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise ValueError(f"--json {path}: cannot be written: {error.strerror}; its folder must exist") from error


def save(data: dict[str, Any], path: Path) -> None:
    """Writes the object to a file that appears whole or not at all."""
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    temporary = _temporary(path)
    try:
        temporary.write_text(text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def table(data: dict[str, Any]) -> str:
    """The machine on one line, then a block of rows for every shape, then the notes."""
    lines = [machine(data["environment"])]
    shapes = list(dict.fromkeys(row["shape"] for row in data["rows"]))
    for shape in shapes:
        lines += ["", *_block(shape, [row for row in data["rows"] if row["shape"] == shape])]
    notes = [f"note: {row['name']}: {row['note']}" for row in data["rows"] if row.get("note")]
    return "\n".join(lines + [""] * bool(notes) + notes)


def machine(environment: dict[str, Any]) -> str:
    peaks = environment["peaks"]
    return (
        f"{environment['cpu']}, {environment['threads']} thread(s), torch {environment['torch']}; at best "
        f"matmul {peaks['matmul_gflops']:.0f} GFLOP/s, 3x3 convolution {peaks['conv3x3_gflops']:.0f} GFLOP/s, "
        f"copy {peaks['copy_gbytes']:.1f} GB/s"
    )


def _block(shape: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    known = {"name", "shape", "median_ms", "ratio_to", "ratio", "rounds", "note"}
    figures = list(dict.fromkeys(key for row in rows for key in row if key not in known))
    cells = [[shape, "median ms", "ratio", "to", "rounds", *(key.replace("_", " ") for key in figures)]]
    for row in rows:
        numbers = [_short(row["median_ms"]), _short(row["ratio"]), row["ratio_to"] or "", str(row["rounds"])]
        cells.append([row["name"], *numbers, *(_short(row.get(key)) for key in figures)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = (0, 3)
    return [
        "  ".join(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))).rstrip()
        for line in cells
    ]


def _short(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")
