"""What the table of a sweep says beside its numbers."""

from videopred.evaluation.sweep_table import table


def row(name: str, seconds: float, device: str = "cpu (x)", **more) -> dict:
    cell = {"mean": 20.0, "stderr": 0.5}
    training = {"steps": 7, "seconds": seconds, "ms_per_step": 3.0, "loss": 1.0}
    return {
        "name": name,
        "parameters": 5,
        "frames_per_second": 400.0,
        "step_ms": 40.0,
        "metrics": {"psnr": {"windows": {"1-30": cell}}},
        "training": training,
        "environment": {"device": device},
    } | more


def sweep(*rows: dict, seconds: float = 0.0) -> dict:
    ablation = {"name": "a", "base": "b", "question": "Q?", "budget": {"parameters": 0.0, "seconds": seconds}}
    protocol = {"name": "p", "num_clips": 2, "context": 1, "horizon": 30}
    cells = [{"name": row["name"]} for row in rows]
    return {"ablation": ablation | {"cells": cells}, "protocol": protocol, "rows": list(rows)}


def test_a_frame_has_its_share_of_the_time_of_a_batch():
    heads, cells = (line.split() for line in table(sweep(row("one", 1))).splitlines()[2:4])
    assert heads[-4:-2] == ["trained", "ms/frame"] and cells[6] == "2.50"


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
