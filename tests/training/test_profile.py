"""Updates by part: everything is in one row, in the right one, and training is what it was."""

import json
import time

import torch

from videopred.training import loop, profile
from videopred.training.learner import Learner


def updated(run, watch: bool):
    torch.manual_seed(0)
    predictor = run.predictor.build(run.recipe.format)
    optimizer, learner = run.training.optimizer.build(predictor), Learner(predictor, run.training)
    clips = loop.clips_of(run.recipe.build("train", run.training.clip_frames), run.training, 0, torch.device("cpu"))
    if not watch:
        loop.update(learner, optimizer, clips, run.training, 3)
        return predictor, None
    started = time.perf_counter()
    with profile.watched(predictor, learner, optimizer, torch.device("cpu")) as timeline:
        loop.update(learner, optimizer, profile._timed(clips, timeline), run.training, 3)
        timeline.begin("end")
        timeline.end()
    assert sum(timeline.spent.values()) <= time.perf_counter() - started
    assert not timeline.doing
    return predictor, timeline


def test_an_update_is_told_by_part_and_does_the_same(tiny):
    run = tiny("training.accumulate=2")
    plain, _ = updated(run, watch=False)
    watched, timeline = updated(run, watch=True)
    for p, q in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(p, q)
    named = {"data", "codec.encoder", "codec.decoder", "stack.dynamics", "stack.spatial", "stack.norm", "mix", "head"}
    assert named | {"loss", "(other forward)", "backward, clipping", "optimiser"} <= timeline.calls.keys()
    assert timeline.calls["data"] == timeline.calls["backward, clipping"] == 2 and timeline.calls["optimiser"] == 1
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in watched.modules())
    assert "compare" not in vars(watched)


def test_the_table_and_the_trace(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "STEPS", 1)
    lines = profile.profiled(tiny(), tmp_path / "run", torch.device("cpu")).splitlines()
    assert len(lines) < 45
    assert {"data", "stack.dynamics", "loss", "optimiser"} <= {line.split("  ")[0] for line in lines}
    assert any(line.startswith("aten::") for line in lines)
    events = json.loads((tmp_path / "run" / profile.TRACE).read_text())["traceEvents"]
    assert {"stack.dynamics", "backward, clipping"} <= {event.get("name") for event in events}
    assert [path.name for path in (tmp_path / "run").iterdir()] == [profile.TRACE]
