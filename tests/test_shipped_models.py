"""A shipped model gives the numbers that are recorded for it."""

import dataclasses
from pathlib import Path

import pytest

from videopred import checkpoint
from videopred.evaluation import Protocol, evaluate, result

ROOT = Path(__file__).parents[1]
FRAMES = 20
MODELS = sorted(path.parent.name for path in (ROOT / "checkpoints").glob("*/model.safetensors"))


@pytest.mark.parametrize("name", MODELS)
def test_the_recorded_numbers_come_out_again(name):
    recorded = result.read(ROOT / "eval" / "results" / f"{name}-{name}.json")
    loaded = checkpoint.load(name)
    assert recorded["checkpoint"]["hash"] == loaded.hash
    assert recorded["checkpoint"]["step"] == loaded.step
    protocol = dataclasses.replace(Protocol.load(name), horizon=FRAMES)  # the same clips, cut short
    again = evaluate(loaded.predictor, protocol, batch_size=64, checkpoint={"name": name}).data["rows"]
    rows = {row["name"]: row for row in again}
    for was in recorded["rows"]:
        row = rows[was["name"]]
        for metric, tolerance in {"psnr": 0.05, "ssim": 0.005, "ink": 0.02, "energy": 0.02}.items():
            now, then = (r["metrics"][metric]["windows"][f"1-{FRAMES}"]["mean"] for r in (row, was))
            assert now == pytest.approx(then, abs=tolerance), (row["name"], metric)
