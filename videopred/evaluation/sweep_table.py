"""The result of a sweep as a table: one row per cell with its size, what it cost and what it scored."""

from collections.abc import Sequence
from typing import Any

from videopred.evaluation.cells import aligned, pair, piped

ONCE = "note: ± is the standard error over clips; each cell was trained once, and another seed gives other numbers"
UNEQUAL = 0.1  # of the time budget


def table(data: dict[str, Any], markdown: bool = False) -> str:
    """What was asked, then one row per cell: its size, what it cost, what it scored over windows of frames.

    "ms/update" and "frames/s" of a rollout of a batch were measured of all cells side by side; "s trained" is the wall
    clock's.
    """
    ablation, rows = data["ablation"], data["rows"]
    trivial = data.get("trivial", [])
    scores = _scores(next((row for row in rows if row["metrics"]), None))
    header = ["", "parameters", "GFLOP/frame", "ms/update", "frames/s", "updates", "s trained"]
    lines = [header + [f"{metric} {window}" for metric, window in scores]]
    for row in [*rows, *trivial]:
        lines.append(
            [
                row["name"],
                *_costs(row, data.get("costs", {})),
                *(_score(row, metric, window) for metric, window in scores),
            ]
        )
    notes = [*_failures(rows), *_unequal(rows, ablation["budget"]["seconds"])]
    missing = [cell["name"] for cell in ablation["cells"] if cell["name"] not in {row["name"] for row in rows}]
    notes += [f"note: not yet run: {', '.join(missing)}"] if missing else []
    notes += [ONCE] if scores else []
    body = piped(lines) if markdown else aligned(lines)
    return "\n\n".join(part for part in (caption(data), body, "\n".join(notes)) if part)


def caption(data: dict[str, Any]) -> str:
    """The question, and size and budget in words."""
    ablation, protocol = data["ablation"], data["protocol"]
    budget = ablation["budget"]
    alike = [f"parameters equal within {budget['parameters']:.1%}"] if budget["parameters"] else []
    made = {str(row["training"]["steps"]) for row in data["rows"] if "failed" not in row}
    updates = f"{' or '.join(sorted(made))} updates each" if made else "no updates yet"
    alike += [f"updates that fill {budget['seconds']:.0f} s" if budget["seconds"] else updates]
    device = ", ".join(dict.fromkeys(row["environment"]["device"] for row in data["rows"] if "environment" in row))
    what = f"{ablation['name']}: preset {ablation['base']}, {'; '.join(alike)}; protocol {protocol['name']} with "
    what += f"{protocol['num_clips']} clips, context {protocol['context']}, horizon {protocol['horizon']}, "
    what += f"seed {protocol['seed']}"
    return " ".join(part for part in (ablation["question"], what + (f"; {device}." if device else ".")) if part)


def _failures(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [f"note: {row['name']}: not trained to the end: {row['failed']}" for row in rows if "failed" in row]


def _unequal(rows: Sequence[dict[str, Any]], budget: float) -> list[str]:
    """What the clock says of a time that was to be equal."""
    took = {row["name"]: row["training"]["seconds"] for row in rows if "failed" not in row}
    off = [f"{name} {seconds:.0f} s" for name, seconds in took.items() if abs(seconds - budget) > UNEQUAL * budget]
    if not budget or not off:
        return []
    return [
        f"note: by the wall clock not all took {budget:.0f} s, because the machine did other things beside, or others "
        f"while updates were timed: {', '.join(off)}"
    ]


def _scores(row: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Metrics and windows that are shown: of the first metric the first frame, the second window (1-20) and the whole
    horizon; of the others the second window, or the whole horizon if there is none."""
    found = []
    for number, (metric, entry) in enumerate((row or {"metrics": {}})["metrics"].items()):
        windows = list(entry.get("windows", {}))
        found += [
            (metric, window) for window in (windows[1:2] or windows if number else windows[:2] + windows[2:][-1:])
        ]
    return found


def _score(row: dict[str, Any], metric: str, window: str) -> str:
    cell = row["metrics"].get(metric, {}).get("windows", {}).get(window, {"mean": None, "stderr": None})
    return pair(cell["mean"], cell["stderr"])


def _costs(row: dict[str, Any], costs: dict[str, dict[str, float]]) -> list[str]:
    training, cost, flops = row.get("training", {}), costs.get(row.get("fingerprint", "")), row.get("flops_per_frame")
    numbers = [(row["parameters"], "{:,}"), (None if flops is None else flops / 1e9, "{:.4f}"),
               (cost and cost["update_ms"], "{:.0f}"), (cost and 1e3 / cost["frame_ms"], "{:.0f}"),
               (training.get("steps"), "{}"), (training.get("seconds"), "{:.0f}")]  # fmt: skip
    return ["-" if number is None else form.format(number) for number, form in numbers]
