"""What the table of a sweep says beside its numbers."""

import re

from videopred.evaluation.sweep_table import table


def row(name: str, seconds: float, device: str = "cpu (x)", **more) -> dict:
    cell = {"mean": 20.0, "stderr": 0.5}
    training = {"steps": 7, "seconds": seconds, "ms_per_step": 3.0, "loss": 1.0}
    return {
        "name": name,
        "parameters": 5,
        "fingerprint": name,
        "metrics": {"psnr": {"windows": {"1": cell, "1-20": cell, "1-30": cell}}},
        "training": training,
        "environment": {"device": device},
    } | more


def sweep(*rows: dict, seconds: float = 0.0) -> dict:
    ablation = {"name": "a", "base": "b", "question": "Q?", "budget": {"parameters": 0.0, "seconds": seconds}}
    protocol = {"name": "p", "num_clips": 2, "context": 1, "horizon": 30, "seed": 0}
    cells = [{"name": row["name"]} for row in rows]
    return {"ablation": ablation | {"cells": cells}, "protocol": protocol, "rows": list(rows)}


def test_costs_are_those_measured_side_by_side():
    data = sweep(row("one", 1), row("two", 1)) | {"costs": {"one": {"update_ms": 250.0, "frame_ms": 2.5}}}
    heads, one, two = (re.split(r"\s{2,}", line.strip()) for line in table(data).splitlines()[2:5])
    shown = dict(zip(heads, one[1:], strict=True))
    assert [shown[name] for name in ("parameters", "GFLOP/frame", "ms/update", "frames/s")] == ["5", "-", "250", "400"]
    assert shown["updates"] == "7" and shown["s trained"] == "1"
    assert [name for name in shown if shown[name] == "20.00 ± 0.50"] == ["psnr 1", "psnr 1-20", "psnr 1-30"]
    assert two[3:5] == ["-", "-"]


def test_cells_that_took_another_time_are_named():
    said = table(sweep(row("good", 95), row("fast", 80), row("slow", 150), seconds=100))
    (line,) = (line for line in said.splitlines() if "by the wall clock" in line)
    assert "fast 80 s, slow 150 s" in line and "good" not in line
    assert "by the wall clock" not in table(sweep(row("good", 95), seconds=100))
    assert "by the wall clock" not in table(sweep(row("fast", 80), row("slow", 150)))


def test_it_says_that_one_training_is_one_training():
    assert "each cell was trained once" in table(sweep(row("one", 1)))
    failed = row("one", 1, failed="diverged", metrics={})
    assert "±" not in table(sweep(failed))


def test_all_devices_are_named():
    assert "; cpu (x), cuda (y)." in table(sweep(row("one", 1), row("two", 1, "cuda (y)"), row("three", 1)))
