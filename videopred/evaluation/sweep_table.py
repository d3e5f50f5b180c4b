"""The result of a sweep as a table: one row per cell with its size, what it cost and what it scored."""

from typing import Any

from videopred.evaluation.cells import aligned, piped


def table(data: dict[str, Any], markdown: bool = False) -> str:
    """What was asked, then one row per cell: its size, what it cost, what it scored over two windows of frames."""
    ablation, rows = data["ablation"], data["rows"]
    trivial = data.get("trivial", [])
    scores = _scores(next((row for row in rows if row["metrics"]), None))
    header = ["", "parameters", "GFLOP/frame", "ms/update", "updates", "s trained", "ms/frame"]
    lines = [header + [f"{metric} {window}" for metric, window in scores]]
    for row in [*rows, *trivial]:
        lines.append([row["name"], *_costs(row), *(_score(row, metric, window) for metric, window in scores)])
    notes = [f"note: {row['name']}: not trained to the end: {row['failed']}" for row in rows if "failed" in row]
    missing = [cell["name"] for cell in ablation["cells"] if cell["name"] not in {row["name"] for row in rows}]
    notes += [f"note: not yet run: {', '.join(missing)}"] if missing else []
    body = piped(lines) if markdown else aligned(lines)
    return "\n\n".join(part for part in (caption(data), body, "\n".join(notes)) if part)


def caption(data: dict[str, Any]) -> str:
    """The question, and size and budget in words."""
    ablation, protocol = data["ablation"], data["protocol"]
    budget = ablation["budget"]
    alike = [f"parameters equal within {budget['parameters']:.1%}"] if budget["parameters"] else []
    alike += (
        [f"updates that fill {budget['seconds']:.0f} s"] if budget["seconds"] else ["the preset's number of updates"]
    )
    device = data.get("environment", {}).get("device", "")
    what = f"{ablation['name']}: preset {ablation['base']}, {'; '.join(alike)}; protocol {protocol['name']} with "
    what += f"{protocol['num_clips']} clips, context {protocol['context']}, horizon {protocol['horizon']}"
    return " ".join(part for part in (ablation["question"], what + (f"; {device}." if device else ".")) if part)


def _scores(row: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Metrics and windows that are shown: the second window (1-20) if there is one, and the whole horizon."""
    found = []
    for metric, entry in (row["metrics"] if row else {}).items():
        windows = list(entry.get("windows", {}))
        found += [(metric, window) for window in dict.fromkeys(windows[1:2] + windows[-1:])]
    return found


def _score(row: dict[str, Any], metric: str, window: str) -> str:
    cell = row["metrics"].get(metric, {}).get("windows", {}).get(window, {"mean": None})
    if cell["mean"] is None:
        return "-"
    return f"{cell['mean']:.3f}" + ("" if cell["stderr"] is None else f" ± {cell['stderr']:.3f}")


def _costs(row: dict[str, Any]) -> list[str]:
    training = row.get("training", {})
    flops = row.get("flops_per_frame")
    numbers = [(row["parameters"], "{:,}"), (None if flops is None else flops / 1e9, "{:.4f}"),
               (training.get("ms_per_step"), "{:.0f}"), (training.get("steps"), "{}"),
               (training.get("seconds"), "{:.0f}"), (row.get("step_ms"), "{:.1f}")]  # fmt: skip
    return ["-" if number is None else form.format(number) for number, form in numbers]
