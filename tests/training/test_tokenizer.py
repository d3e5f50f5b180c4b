"""Training a tokenizer: two players' gradients, codes that come alive, and a run that goes on bit for bit."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from videopred import checkpoint, config, tokenizer
from videopred.clip import Format
from videopred.codecs.vqgan import VQGANConfig
from videopred.commands.train import validation
from videopred.data.loader import batches
from videopred.training import loop
from videopred.training.adversary import PatchCritic, adaptive_weight
from videopred.training.tokenizer import TokenizerConfig

CODEC = VQGANConfig(
    width=4, multipliers=(1, 2), num_blocks=1, attention=(), num_groups=2, latent_channels=4, code_width=4, num_codes=16
)


@pytest.fixture
def run(tiny):
    """A tiny run of a tokenizer on moving digits, whose critic is heard from the sixth update on."""
    base = tiny("training.steps=12", "training.save_every=5", "training.clip_frames=3", "training.ema=0.9",
                "training.accumulate=2")  # fmt: skip
    part = TokenizerConfig(codec=CODEC, perceptual_weight=0.0, adversarial_start=6, critic_width=4, critic_depth=2)
    return replace(base, predictor=part, name="tiny-tokenizer")


def clips(run, number: int = 1):
    read = batches(run.recipe.build("train", run.training.clip_frames), run.training.batch_size, 0)
    return [next(read) for _ in range(number)]


def test_a_run_that_was_stopped_goes_on_bit_for_bit(run, go, tmp_path, outcome, monkeypatch):
    go(run, tmp_path / "straight")
    update = loop.update

    def stopped(predictor, optimizer, given, settings, step):
        if step == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(predictor, optimizer, given, settings, step)

    monkeypatch.setattr(loop, "update", stopped)
    with pytest.raises(loop.Interrupted):
        go(run, tmp_path / "stopped")
    monkeypatch.setattr(loop, "update", update)
    torch.manual_seed(99)
    go(run, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")


def test_what_is_kept_is_the_codec_and_loads_frozen(run, go, tmp_path):
    go(run, tmp_path)
    trained = tokenizer.load(str(tmp_path))
    assert trained.step == 12 and trained.config == config.to_dict(run)
    assert {type(part).__name__ for part in trained.codec.modules()} & {"PatchCritic"} == set()
    assert not any(p.requires_grad for p in trained.codec.parameters())
    assert not trained.codec.training
    assert checkpoint.load_either(str(tmp_path)).hash == trained.hash
    with pytest.raises(ValueError, match="is a tokenizer, which predicts nothing"):
        checkpoint.load(str(tmp_path))


def test_the_loss_falls_and_all_codes_come_alive(run, go, tmp_path, outcome):
    longer = replace(run, predictor=replace(run.predictor, adversarial_weight=0.0), training=replace(
        run.training, steps=60, save_every=60, accumulate=1, ema=0.0))  # fmt: skip
    go(longer, tmp_path)
    log = outcome(tmp_path)["log"]
    assert log[-1]["l1"] < 0.5 * log[0]["l1"]
    assert tokenizer.load(str(tmp_path)).codec.codebook.used.min() > 0


def test_each_player_has_the_gradient_of_its_own_loss(run):
    torch.manual_seed(0)
    model = replace(run.predictor, adversarial_start=0).build(run.recipe.format).double()
    [clip] = clips(run)
    loss, metrics, _ = model(clip)
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters()}
    true = clip.pixels(torch.float64)
    quantised = model.codec.quantize(model.codec.features(true))
    painted, true = model.codec.decode(quantised.vectors).flatten(0, 1), true.flatten(0, 1)
    l1, fooled = (painted - true).abs().mean(), -model.critic(painted).mean()
    weight = adaptive_weight(l1, fooled, model.codec.decoder.head.weight)
    assert 0 < weight < 1e4
    painter = l1 + quantised.commitment + quantised.codebook + 0.8 * weight * fooled
    critic = (torch.relu(1 - model.critic(true)).mean() + torch.relu(1 + model.critic(painted.detach())).mean()) / 2
    for part, own in ((model.codec, painter), (model.critic, critic)):
        named = dict(part.named_parameters())
        gradients = torch.autograd.grad(own, list(named.values()), retain_graph=True)
        prefix = "codec." if part is model.codec else "critic."
        for name, gradient in zip(named, gradients, strict=True):
            torch.testing.assert_close(found[prefix + name], gradient)
    assert metrics["critic"].item() == pytest.approx(critic.item())


def test_the_critic_is_not_heard_before_its_start(run):
    model = run.predictor.build(run.recipe.format)
    loss, metrics, _ = model(clips(run)[0])
    loss.backward()
    assert "fooled" not in metrics
    assert all(p.grad is None for p in model.critic.parameters())
    model.updates += 6
    assert "fooled" in model(clips(run)[0])[1]


def test_a_critic_judges_each_frame_by_itself():
    critic, x = PatchCritic(3, 4, 2).double(), torch.randn(3, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(critic(x)[1:], critic(x[1:]))


def test_a_collapse_is_told_once_and_early(run, capsys):
    part = replace(run.predictor, codec=replace(CODEC, num_codes=400, restart_below=0.0), adversarial_weight=0.0)
    model = part.build(Format(1, 16, 16))
    for _ in range(450):
        model.seen = [(torch.zeros(400, 4), torch.zeros(400, dtype=torch.int64))]
        model.settle(torch.Generator().manual_seed(0))
    told = capsys.readouterr().err
    assert told.count("the codebook is collapsing") == 1
    assert "of 400 codes" in told


def test_few_vectors_an_update_are_no_collapse(run, capsys):
    part = replace(run.predictor, codec=replace(CODEC, num_codes=4096, restart_below=0.0), adversarial_weight=0.0)
    model = part.build(Format(1, 16, 16))
    for step in range(450):
        model.seen = [(torch.zeros(64, 4), torch.arange(64) + 64 * (step % 64))]  # all codes, evenly
        model.settle(torch.Generator().manual_seed(0))
    assert "collapsing" not in capsys.readouterr().err


def test_frames_too_small_for_the_critic_or_the_network_are_refused_at_the_start(run):
    for depth, side in (3, 23), (1, 5), (2, 11):
        critic = PatchCritic(1, 4, depth)
        assert critic(torch.zeros(1, 1, side + 1, side + 9)).numel()
        with pytest.raises(ValueError, match=f"critic_depth = {depth}: needs frames of at least {side + 1} pixels"):
            replace(run.predictor, critic_depth=depth).build(Format(1, side + 9, side))
        with pytest.raises(RuntimeError):
            critic(torch.zeros(1, 1, side, side))
    with pytest.raises(ValueError, match="perceptual_net = 'alex': needs frames of at least 31 pixels"):
        replace(run.predictor, perceptual_weight=1.0, perceptual_net="alex").build(Format(1, 30, 32))


def test_without_the_networks_weights_it_says_so_once_and_goes_on(run, capsys, monkeypatch):
    def missing(net):
        raise ValueError("vgg16 is not on this machine")

    monkeypatch.setattr("videopred.training.tokenizer.differentiable", missing)
    model = replace(run.predictor, perceptual_weight=1.0).build(run.recipe.format)
    for _ in range(2):
        assert "perceptual" not in model(clips(run)[0])[1]
    assert capsys.readouterr().err == (
        "videopred: training goes on without the perceptual loss: vgg16 is not on this machine\n"
    )


def test_with_them_the_perceptual_loss_counts(run, monkeypatch):
    monkeypatch.setattr("videopred.training.tokenizer.differentiable", lambda net: lambda x, y: (x - y).square().mean())
    parts = [replace(run.predictor, perceptual_weight=weight, adversarial_weight=0.0) for weight in (0.0, 2.0)]
    losses = []
    for part in parts:
        torch.manual_seed(0)
        loss, metrics, _ = part.build(run.recipe.format)(clips(run)[0])
        losses.append(loss.item())
    assert losses[1] - losses[0] == pytest.approx(2 * metrics["perceptual"].item(), rel=1e-4)


def test_a_codec_without_training_is_refused(run, tmp_path):
    from safetensors.torch import save_file

    codec = run.predictor.codec.build(1, 16, 16)
    save_file(codec.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.toml").write_text(config.dumps(run))
    with pytest.raises(ValueError, match="none of its codes has ever been used"):
        tokenizer.load(str(tmp_path))


def test_a_preset_that_was_not_trained_and_a_predictor_are_no_codecs(tmp_path, go, tiny, monkeypatch):
    monkeypatch.setattr("videopred.saved.SHIPPED", tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="has not been trained; run `videopred train doom-maze-vq-small`"):
        tokenizer.load("doom-maze-vq-small")
    go(tiny("training.steps=1"), tmp_path / "pixel")
    with pytest.raises(ValueError, match="is a predictor, not a tokenizer"):
        tokenizer.load(str(tmp_path / "pixel"))


def test_bfloat16_trains_both_and_keeps_the_codebook_in_float32(run, go, tmp_path, outcome):
    part = replace(run.predictor, adversarial_start=1)
    go(replace(run, predictor=part, training=replace(run.training, steps=3, precision="bfloat16")), tmp_path)
    lines = outcome(tmp_path)["log"]
    assert {"fooled", "critic"} <= lines[-1].keys()
    codec = tokenizer.load(str(tmp_path)).codec
    assert all(tensor.dtype == torch.float32 for tensor in codec.state_dict().values())
    straight = checkpoint.read_tensors(max(tmp_path.glob("step_*")) / "training.safetensors")
    assert straight["weights.updates"] == 3


def test_validation_draws_reconstructions_and_logs_their_scores(run, go, tmp_path, outcome):
    settings = replace(run.training, steps=2, validate_every=2, validation_clips=2, context=1, horizon=3)
    run = replace(run, training=settings)
    go(run, tmp_path, validation(run, tmp_path))
    [scores] = [line for line in outcome(tmp_path)["log"] if "loss" not in line]
    assert scores["validation/psnr/1-3"] > 0 and "validation/ssim/1-3" in scores
    assert 0 < scores["validation/usage"] <= 1 <= scores["validation/perplexity"] <= 16
    assert (tmp_path / "strip_00000002.png").stat().st_size > 100
