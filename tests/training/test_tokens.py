"""Runs of predictors on a frozen codec: where its weights come from, what is refused, resuming, loading."""

import dataclasses

import numpy as np
import pytest
import torch

from videopred import checkpoint, cli, config, saved, tokenizer
from videopred.clip import Clip, stack
from videopred.evaluation import Protocol, evaluate
from videopred.making.encode import encode
from videopred.metrics.diversity import DiversityConfig
from videopred.metrics.psnr import PSNRConfig
from videopred.rollout import noise_for, rollout
from videopred.training import RunConfig
from videopred.training.feeding import ClosedLoopConfig, ScheduledSamplingConfig
from videopred.training.start import start

SHAPE = """
kind = "vqgan"
width = 4
multipliers = [1]
num_blocks = 1
attention = []
num_groups = 2
patch = 4
latent_channels = 4
code_width = 4
num_codes = 8
"""
TRAINING = """
[training]
steps = 4
batch_size = 2
clip_frames = 5
save_every = 2
log_every = 1
"""
CODEC = f"""
recipe = "moving-mnist-small"
[predictor]
kind = "tokenizer"
perceptual_weight = 0.0
adversarial_weight = 0.0
[predictor.codec]{SHAPE}{TRAINING}"""
PREDICTOR = """
recipe = "moving-mnist-small"
[predictor]
kind = "{kind}"
{more}
[predictor.codec]
kind = "resnet"
encoder_widths = [4, 4]
decoder_widths = [4, 4]
num_groups = 2
[predictor.stack]
width = 4
depth = 1
dynamics = {{ kind = "convs5", num_states = 2 }}
spatial = {{ kind = "resnet", num_groups = 2 }}
[predictor.tokenizer]
checkpoint = "{checkpoint}"
[predictor.tokenizer.codec]""" + SHAPE + TRAINING  # fmt: skip
MORE = {
    "token": "drop_loss = 0.5",
    "teco": "drop_loss = 0.5\nlatent_width = 4\nnum_codes = 6\ncode_width = 2\n"
    "prior = { vocab_width = 4, token_width = 4, mlp_width = 4, num_heads = 1, depth = 1, draft_steps = 2, "
    "revise_steps = 2, revisions = 1 }",
}


@pytest.fixture(scope="session")
def codec(tmp_path_factory, go):
    """The run folder of a codec that was trained for a moment."""
    folder = tmp_path_factory.mktemp("codec")
    (folder / "codec.toml").write_text(CODEC)
    go(config.load(RunConfig, "presets", str(folder / "codec.toml")), folder / "run")
    return folder / "run"


@pytest.fixture
def preset(tmp_path, codec):
    """Makes the configuration of a run on that codec, or on another one."""

    def of(kind: str, *overrides: str, checkpoint: str | None = None) -> RunConfig:
        path = tmp_path / f"{kind}.toml"
        named = str(codec) if checkpoint is None else checkpoint
        path.write_text(PREDICTOR.format(kind=kind, more=MORE[kind], checkpoint=named))
        return config.load(RunConfig, "presets", str(path), overrides)

    return of


@pytest.mark.parametrize("kind", ["token", "teco"])
def test_a_run_holds_its_codec_and_needs_no_other(kind, preset, codec, go, outcome, tmp_path):
    """Trained, resumed, loaded with the codec's folder out of reach, evaluated with several samples."""
    run = preset(kind)
    go(run, tmp_path / "whole")
    go(preset(kind, "training.steps=4"), tmp_path / "whole")  # there is nothing left to do
    trained = saved.read_tensors(saved.resolve(str(codec)) / saved.MODEL)
    hidden = codec.rename(codec.with_name("away"))
    try:
        loaded = checkpoint.load(str(tmp_path / "whole"))
    finally:
        hidden.rename(codec)
    weights = loaded.predictor.state_dict()
    assert all(torch.equal(weights[f"tokenizer.codec.{name}"], tensor) for name, tensor in trained.items())
    assert loaded.config["predictor"]["tokenizer"]["hash"] == saved.digest(saved.resolve(str(codec)))
    assert not any(name.startswith("tokenizer") for name, _ in loaded.predictor.named_parameters())
    protocol = Protocol(
        name="two",
        recipe=loaded.recipe,
        num_clips=2,
        context=2,
        horizon=3,
        samples=2,
        metrics=(PSNRConfig(), DiversityConfig()),
    )
    together, alone = (evaluate(loaded.predictor, protocol, batch_size=size) for size in (2, 1))
    row = together.data["rows"][0]
    assert row["samples"] == 2 and row["metrics"]["psnr"]["best_of"]["mean"] >= row["metrics"]["psnr"]["mean"]
    assert row["metrics"]["diversity"]["mean"] > 0
    assert "ask for --samples 2" in together.data["rows"][1]["metrics"]["diversity"]["reason"]
    one_by_one = alone.data["rows"][0]["metrics"]["psnr"]["per_clip"]
    assert row["metrics"]["psnr"]["per_clip"] == pytest.approx(one_by_one, rel=1e-4)  # a pixel may round otherwise


@pytest.mark.parametrize("kind", ["token", "teco"])
def test_resumed_it_is_the_same(kind, preset, go, outcome, tmp_path):
    go(preset(kind), tmp_path / "whole")
    go(preset(kind), tmp_path / "parted")
    for folder in (tmp_path / "parted").glob("step_00000004"):
        folder.rename(tmp_path / "dropped")
    go(preset(kind), tmp_path / "parted")
    assert outcome(tmp_path / "parted") == outcome(tmp_path / "whole")


def test_samples_differ_and_are_the_same_again(preset, go, tmp_path):
    go(preset("teco"), tmp_path / "run")
    predictor = checkpoint.load(str(tmp_path / "run")).predictor
    clip = stack([preset("teco").recipe.build("test", 3)[i] for i in range(2)])

    def roll(sample: int, ids: tuple[str, ...]) -> torch.Tensor:
        kept = [clip.id.index(name) for name in ids]
        state = predictor.observe(Clip(frames=clip.frames[kept]))
        frames = rollout(predictor, state, noise=lambda i: noise_for(predictor, 0, ids, sample, i))
        return torch.stack([next(frames) for _ in range(4)], 1)

    first = roll(0, clip.id)
    assert torch.equal(roll(0, clip.id), first) and not torch.equal(roll(1, clip.id), first)
    assert torch.allclose(roll(0, clip.id[::-1])[1], first[0], atol=1e-5)


def test_a_trained_model_draws_as_it_is_told_to(preset):
    """Other settings of drawing, the same weights; what cannot be set names what can."""
    run, predictor = start(preset("teco"))
    loaded = checkpoint.Loaded(predictor.eval(), run.recipe, "teco", 0, "", config.to_dict(run))
    changed = checkpoint.resample(loaded, ["predictor.prior.revisions=0", "predictor.prior.temperature=1e-6"])
    assert changed.predictor.prior.calls == 2 and changed.predictor.noise_shape() == (1 + 2 * 16,)
    settings = changed.config["predictor"]["prior"]
    assert (settings["revisions"], settings["temperature"], settings["draft_steps"]) == (0, 1e-6, 2)
    assert loaded.config["predictor"]["prior"]["revisions"] == 1, "what was there stays"
    clip = stack([run.recipe.build("test", 3)[0]])
    state, calls = predictor.observe(clip), []
    predictor.prior.blocks[0].register_forward_hook(lambda *_: calls.append(1))
    codes = [predictor.predict(state, None, torch.zeros(1, 33))[1][0] for _ in range(2)]
    assert len(calls) == 4 and torch.equal(*codes)
    for text in "predictor.prior.depth=2", "predictor.temperature=1", "revisions=0":
        with pytest.raises(ValueError, match=r"this model draws by predictor.prior.temperature, .*\.revisions"):
            checkpoint.resample(loaded, [text])
    with pytest.raises(ValueError, match="draft_steps = 0: must be at least 1"):
        checkpoint.resample(loaded, ["predictor.prior.draft_steps=0"])
    with pytest.raises(ValueError, match=r"predictor\.prior\.revisions = 'few'"):
        checkpoint.resample(loaded, ["predictor.prior.revisions=few"])
    token, of_tokens = start(preset("token"))
    plain = checkpoint.Loaded(of_tokens, token.recipe, "token", 0, "", config.to_dict(token))
    assert checkpoint.resample(plain, ["predictor.temperature=0.5"]).predictor.config.temperature == 0.5


def test_tokens_are_as_good_as_their_frames(preset):
    """A clip of tokens gives the loss of the clip of frames that they were made of."""
    run, predictor = start(preset("token"))
    clip = stack([run.recipe.build("train", 5)[i] for i in range(2)])
    noise = torch.randn(2, 5, *predictor.noise_shape())
    tokens = Clip(tokens=predictor.tokenizer.tokens(clip).to(torch.uint16))
    assert torch.equal(predictor(tokens, noise=noise)[0], predictor(clip, noise=noise)[0])
    wrong = predictor.tokenizer.tokens(clip)
    with pytest.raises(ValueError, match=r"lie in 0\.\.8: this model's codec has 0\.\.7"):
        predictor(Clip(tokens=wrong.sub(wrong.min()).index_fill(1, torch.tensor([1]), 8)), noise=noise)
    with pytest.raises(ValueError, match=r"grid of \(8, 4\): this model's codec gives \(8, 8\)"):
        predictor(Clip(tokens=wrong[..., :4]), noise=noise)


def test_trained_on_tokens_it_is_shown_and_scored_on_their_frames(preset, codec, tmp_path, capsys, monkeypatch):
    """By the command line: encode, train with validation, roll out."""
    monkeypatch.chdir(tmp_path)
    original = preset("token").recipe
    tokens = encode(original, tokenizer.load(str(codec)), tmp_path / "tokens", num_clips=4, frames=8).folder
    preset("token")  # writes the file
    words = ["validate_every=2", "validation_clips=2", "context=2", "horizon=3", "steps=2"]
    settings = [f"recipe={tokens / 'recipe.toml'}", *(f"training.{word}" for word in words)]
    assert cli.main(["train", "token.toml", *settings, "--out", "run"]) == 0
    assert (tmp_path / "run" / "strip_00000002.png").is_file()
    assert cli.main(["rollout", "run", "--out", "out.npz", "--context", "2", "--horizon", "3", "--samples", "2"]) == 0
    capsys.readouterr()
    with np.load("out.npz") as made:
        assert np.array_equal(made["real"][0], original.build("test", 5)[0].frames)
    (tokens / "encoded.json").unlink()
    assert cli.main(["rollout", "run", "--out", "out.npz"]) == 2
    assert "give a recipe of frames" in capsys.readouterr().err


def test_a_codec_that_does_not_fit_is_refused(preset, codec, tmp_path):
    for run, error, message in (
        (preset("token", checkpoint=""), ValueError, "checkpoint = '': a codec must be trained first"),
        (preset("token", checkpoint=str(tmp_path / "none")), FileNotFoundError, "none: no such checkpoint"),
        (preset("token", "recipe.image_size=64"), ValueError, "has frames of 64x64 and 1 channels; the codec"),
        (preset("token", "predictor.tokenizer.codec.num_codes=16"), ValueError, r"codec.num_codes: 16 -> 8"),
        (preset("token", f"predictor.tokenizer.hash={'0' * 64}"), ValueError, f"hash = '{'0' * 64}': the codec"),
    ):
        with pytest.raises(error, match=message):
            start(run)
    of_tokens = dataclasses.replace(preset("token").recipe.format, codec="f" * 64)
    foreign = type("Foreign", (), {"format": of_tokens, "name": "foreign"})()
    with pytest.raises(ValueError, match="holds tokens of a codec with hash ffffffffffff"):
        start(dataclasses.replace(preset("token"), recipe=foreign))


@pytest.mark.parametrize("feeding", [ScheduledSamplingConfig(), ClosedLoopConfig()])
def test_feeding_of_pixels_is_refused(preset, feeding):
    run = preset("teco")
    training = dataclasses.replace(run.training, feeding=feeding, clip_frames=60)
    with pytest.raises(ValueError, match="feeds pixels back, and predictor"):
        dataclasses.replace(run, training=training)
