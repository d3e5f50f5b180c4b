"""A tokenizer under a protocol: frames from their own tokens, and codes counted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from videopred import cli, config, saved
from videopred.clip import stack, to_uint8
from videopred.codecs.vqgan import VQGANConfig
from videopred.data import MovingMNISTConfig
from videopred.evaluation import Protocol, evaluate
from videopred.evaluation.table import render
from videopred.metrics import PSNRConfig, SSIMConfig
from videopred.nn.quantize import spread
from videopred.training import RunConfig, TrainingConfig
from videopred.training.loop import train
from videopred.training.tokenizer import TokenizerConfig

CODEC = VQGANConfig(
    width=4, multipliers=(1, 2), num_blocks=1, attention=(), num_groups=2, latent_channels=4, code_width=4, num_codes=16
)
RECIPE = MovingMNISTConfig(digit_size=7, image_size=16, train_clips=4, test_clips=3, name="digits")


@pytest.fixture
def protocol():
    return Protocol(
        recipe=RECIPE, num_clips=3, context=2, horizon=4, metrics=(PSNRConfig(), SSIMConfig()), name="digits"
    )


@pytest.fixture
def codec():
    torch.manual_seed(0)
    return CODEC.build(1, 16, 16).eval()


def test_the_row_is_of_each_frame_from_its_own_tokens(codec, protocol):
    data = evaluate(codec, protocol, batch_size=2).data
    row, *trivial = data["rows"]
    assert (row["role"], row["clips"], row["samples"]) == ("reconstruction", 3, 1)
    assert {other["role"] for other in trivial} == {"trivial"}
    dataset = protocol.dataset()
    true = stack([dataset[i] for i in range(3)]).slice(2, 6)
    ids = codec.tokenize(true.pixels())
    painted = to_uint8(codec.decode(codec.embed(ids)))
    want = PSNRConfig().build()
    want.update(painted, true.frames, true.id)
    np.testing.assert_allclose(row["metrics"]["psnr"]["per_frame"], want.compute().per_frame, atol=1e-3)
    perplexity, usage = spread(ids, 16)
    assert row["codes"] == {
        "num_codes": 16,
        "usage": usage.item(),
        "perplexity": pytest.approx(perplexity.item()),
        "tokens": 3 * 4 * 8 * 8,
    }
    assert row["parameters"] == sum(p.numel() for p in codec.parameters())
    assert row["flops_per_frame"] > 2 * row["parameters"]


def test_the_table_tells_of_the_codes(codec, protocol):
    text = render([evaluate(codec, protocol).data], "table")
    assert "of 16 codes are used, perplexity" in text and "(768 tokens)" in text


def test_a_protocol_of_other_frames_and_more_samples_are_refused(codec, protocol):
    with pytest.raises(ValueError, match="16 x 16 x 1"):
        evaluate(codec, replace(protocol, recipe=replace(RECIPE, image_size=32)))
    with pytest.raises(ValueError, match="samples = 2: this model is deterministic"):
        evaluate(codec, protocol, samples=2)


def test_the_commands_take_a_tokenizers_run(protocol, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(saved, "SHIPPED", tmp_path / "none")
    part = TokenizerConfig(codec=CODEC, perceptual_weight=0.0, adversarial_weight=0.0)
    run = RunConfig(part, TrainingConfig(steps=2, batch_size=2, clip_frames=2), RECIPE, "digits")
    train(run, tmp_path / "run", torch.device("cpu"))
    (tmp_path / "digits.toml").write_text(config.dumps(protocol))
    assert cli.main(["eval", "run", "digits.toml", "--report", "page.html"]) == 0
    assert "codes are used" in capsys.readouterr().out
    assert "<html" in (tmp_path / "page.html").read_text()
    assert cli.main(["show", "run"]) == 0
    parts = {line.split()[1]: line.split()[2:] for line in capsys.readouterr().out.splitlines() if line[:1] == "#"}
    assert {"encoder", "decoder"} <= parts.keys() and "critic" not in parts
    assert int(parts["total"][1].replace(",", "")) > 2 * int(parts["total"][0].replace(",", ""))
    assert cli.main(["rollout", "run", "--out", "x.png"]) == 2
    assert "is a tokenizer, which predicts nothing" in capsys.readouterr().err
