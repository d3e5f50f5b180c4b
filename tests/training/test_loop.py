"""One update, many of them, and what happens between them."""

import json
from pathlib import Path

import pytest
import torch

from videopred import config
from videopred.clip import Clip
from videopred.training import RunConfig, checkpoint, loop
from videopred.training.ema import EMA

GOLDEN = Path(__file__).with_name("debug_losses.json")


def one(run, step=3, clips=None):
    """Makes one update of a fresh model; returns it with the numbers."""
    torch.manual_seed(0)
    module = run.predictor.build(run.recipe.format)
    optimizer = run.training.optimizer.build(module)
    if clips is None:
        dataset = run.recipe.build("train", run.training.clip_frames)
        clips = loop._clips(dataset, run.training, 0, torch.device("cpu"))
    return module, loop.update(loop.Learner(module, run.training), optimizer, clips, run.training, step)


def gradient(module):
    return torch.cat([parameter.grad.flatten() for parameter in module.parameters()])


def test_the_losses_of_debug_are_what_they_were(tmp_path):
    """After a change that is meant to change them, put the numbers that the failure prints into debug_losses.json."""
    run = config.load(RunConfig, "presets", "debug", ["training.log_every=1", "training.validate_every=0"])
    loop.train(run, tmp_path, torch.device("cpu"))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    print(json.dumps([float(f"{loss:.7g}") for loss in losses]))
    assert losses == pytest.approx(json.loads(GOLDEN.read_text()), rel=1e-4)
    assert len(losses) == 20 and losses[-1] < 0.5 * losses[0]


def test_two_batches_of_four_are_one_of_eight(tiny):
    whole, numbers = one(tiny("training.batch_size=8"))
    parts, again = one(tiny("training.batch_size=4", "training.accumulate=2"))
    for name in ("loss", "l1", "l2", "gradient"):
        assert again[name] == pytest.approx(numbers[name], rel=1e-5)
    assert (gradient(parts) - gradient(whole)).abs().max() < 1e-5 * gradient(whole).abs().max()


def test_the_gradient_is_clipped_to_its_limit(tiny):
    free, numbers = one(tiny("training.clip_gradient=0.0"))
    clipped, same = one(tiny("training.clip_gradient=0.01"))
    assert numbers["gradient"] == same["gradient"] == pytest.approx(gradient(free).norm().item())
    assert gradient(clipped).norm().item() == pytest.approx(0.01, rel=1e-3)
    assert torch.allclose(
        gradient(clipped) / gradient(clipped).norm(), gradient(free) / gradient(free).norm(), atol=1e-6
    )


def test_bfloat16_is_finite_and_leaves_the_weights_float32(tiny):
    _, exact = one(tiny())
    module, rough = one(tiny("training.precision=bfloat16"))
    assert all(tensor.dtype == torch.float32 and tensor.isfinite().all() for tensor in module.state_dict().values())
    assert rough["loss"] == pytest.approx(exact["loss"], rel=0.02)
    assert rough["loss"] != exact["loss"]
    assert rough["gradient"] == pytest.approx(exact["gradient"], rel=0.1)


def test_an_update_depends_on_seed_and_step_alone(tiny):
    run = tiny("predictor.stack.dropout=0.5")
    clips = next(loop._clips(run.recipe.build("train", 6), run.training, 0, torch.device("cpu")))
    found = {}
    for name, seed, step in [("a", 0, 3), ("same", 0, 3), ("step", 0, 4), ("seed", 1, 3)]:
        settings = tiny("predictor.stack.dropout=0.5", f"training.seed={seed}")
        _, numbers = one(settings, step, iter([clips]))
        found[name] = numbers["loss"]
    assert found["a"] == found["same"]
    assert len(set(found.values())) == 3


def test_the_rate_of_the_schedule_is_used(tiny):
    run = tiny("training.optimizer.warmup_steps=4", "training.optimizer.learning_rate=1.0")
    assert one(run, step=1)[1]["learning_rate"] == 0.25
    still, _ = one(run, step=0)
    torch.manual_seed(0)
    fresh = run.predictor.build(run.recipe.format)
    assert all(torch.equal(a, b) for a, b in zip(still.parameters(), fresh.parameters(), strict=True))


def test_actions_are_dropped_for_whole_clips():
    clip = Clip(frames=torch.zeros(400, 5, 1, 1, 1), actions=torch.randint(0, 3, (400, 5)))
    dropped = loop.drop_actions(clip, 0.3, torch.Generator().manual_seed(0))
    assert clip.actions is not None and dropped.actions is not None
    gone = dropped.actions.eq(-1)
    assert torch.equal(gone.any(1), gone.all(1))
    assert gone[:, 0].double().mean().item() == pytest.approx(0.3, abs=0.05)
    assert torch.equal(dropped.actions[~gone], clip.actions[~gone])
    assert loop.drop_actions(clip, 0.0, torch.Generator()) is clip


def test_validation_sees_the_averages_in_peace_and_changes_nothing(tiny, go, tmp_path, outcome):
    run = tiny("training.validate_every=2", "training.save_every=4", "training.steps=6", "predictor.stack.dropout=0.3")
    seen = {}

    def validate(predictor, step):
        assert not predictor.training
        seen[step] = {name: tensor.clone() for name, tensor in predictor.state_dict().items()}
        torch.rand(step)
        return {"validation/psnr": 10.0 + step, "validation/energy": float("nan")}

    go(run, tmp_path / "validated", validate)
    assert list(seen) == [2, 4, 6]
    for step in (4, 6):
        saved = checkpoint.read_tensors(tmp_path / f"validated/step_0000000{step}/model.safetensors")
        assert all(torch.equal(saved[name], tensor) for name, tensor in seen[step].items())
    go(run, tmp_path / "alone")
    validated, alone = outcome(tmp_path / "validated"), outcome(tmp_path / "alone")
    scores = [line for line in validated["log"] if "loss" not in line]
    assert scores == [{"step": n, "validation/psnr": 10.0 + n, "validation/energy": None} for n in (2, 4, 6)]
    validated["log"] = [line for line in validated["log"] if "loss" in line]
    assert validated == alone


def test_a_validation_that_was_cut_short_is_made_up_for(tiny, go, tmp_path, outcome):
    run = tiny("training.validate_every=4")

    def validate(predictor, step):
        return {"score": sum(tensor.double().sum().item() for tensor in predictor.state_dict().values())}

    def interrupted(predictor, step):
        raise KeyboardInterrupt

    go(run, tmp_path / "straight", validate)
    with pytest.raises(KeyboardInterrupt):
        go(run, tmp_path / "cut", interrupted)
    assert checkpoint.steps(tmp_path / "cut")[-1].name == "step_00000004"
    go(run, tmp_path / "cut", validate)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "straight")


def test_without_an_average_the_raw_weights_predict_and_are_validated(tiny, go, tmp_path):
    kept = []
    run = tiny("training.ema=0.0", "training.validate_every=8")
    last = go(run, tmp_path, lambda predictor, step: kept.append(predictor.state_dict()) or {})
    model = checkpoint.read_tensors(last / "model.safetensors")
    raw = checkpoint.read_tensors(last / "training.safetensors")
    assert all(torch.equal(tensor, raw[f"weights.{name}"]) for name, tensor in model.items())
    assert all(torch.equal(tensor, kept[0][name]) for name, tensor in model.items())


def test_an_average_is_between_what_was_and_what_is():
    module = torch.nn.BatchNorm1d(2)
    average = EMA(module, 0.9)
    values, decays = [5.0, -1.0, 3.0], []
    expected = 1.0
    for step, value in enumerate(values, 1):
        with torch.no_grad():
            module.weight.fill_(value)
        module.num_batches_tracked += 1
        average.update(module, step)
        decays.append(min(0.9, (1 + step) / (10 + step)))
        expected = decays[-1] * expected + (1 - decays[-1]) * value
    assert decays[0] < 0.2 < decays[-1] < 0.9
    assert average.weights["weight"].tolist() == pytest.approx([expected, expected])
    assert average.weights["num_batches_tracked"].item() == 3
    assert module.weight.tolist() == [3.0, 3.0]
    average.update(module, 10**6)
    assert average.weights["weight"][0].item() == pytest.approx(0.9 * expected + 0.1 * 3.0)
