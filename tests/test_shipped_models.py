"""A shipped model gives the numbers that are recorded for it."""

import dataclasses
from pathlib import Path

import pytest

from videopred import checkpoint
from videopred.evaluation import Protocol, evaluate, result
from videopred.making import make, plan_for

ROOT = Path(__file__).parents[1]
FRAMES = 20
PROTOCOLS = {"doom-maze-vq-small": "doom-maze-small"}  # of the others the name is also the protocol's
MODELS = sorted(path.parent.name for path in (ROOT / "checkpoints").glob("*/model.safetensors"))


@pytest.mark.parametrize("name", MODELS)
def test_the_recorded_numbers_come_out_again(name, tmp_path):
    scored_by = PROTOCOLS.get(name, name)
    recorded = result.read(ROOT / "eval" / "results" / f"{name}-{scored_by}.json")
    loaded = checkpoint.load_either(name)
    assert recorded["checkpoint"]["hash"] == loaded.hash
    assert recorded["checkpoint"]["step"] == loaded.step
    protocol = dataclasses.replace(Protocol.load(scored_by), horizon=FRAMES, revisit=None)  # cut short
    try:
        protocol.dataset()
    except ValueError:  # nobody has recorded them here; nor are there training clips, so no mean image
        protocol = dataclasses.replace(protocol, recipe=made(protocol, tmp_path))
    again = evaluate(loaded.predictor, protocol, batch_size=64, checkpoint={"name": name}).data["rows"]
    rows = {row["name"]: row for row in again}
    for was in recorded["rows"]:
        row = rows[was["name"]]
        for metric, tolerance in {"psnr": 0.05, "ssim": 0.005, "ink": 0.02, "energy": 0.02}.items():
            if metric not in was["metrics"] or (row["metrics"][metric]["mean"] is None and row["name"] == "mean-image"):
                continue
            now, then = (r["metrics"][metric]["windows"][f"1-{FRAMES}"]["mean"] for r in (row, was))
            assert now == pytest.approx(then, abs=tolerance), (row["name"], metric)


def made(protocol: Protocol, folder: Path):
    """The protocol's recipe, its clips recorded as its maker says but no longer than needed."""
    try:
        plan = plan_for(protocol.recipe.name, clips=1, folder=folder)
    except ValueError as error:  # the engine is not installed
        pytest.skip(str(error))
    counts = {"train": 0, "test": protocol.num_clips}
    make(dataclasses.replace(plan, source=dataclasses.replace(plan.source, frames=protocol.frames), counts=counts))
    return dataclasses.replace(protocol.recipe, root=str(folder))
