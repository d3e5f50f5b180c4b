"""VQGAN's encoder, decoder and quantiser, and TECO's codebook, against the golden arrays, in float64."""

import math
import re

import pytest
import torch
from torch import nn

from videopred.codecs.vqgan import Decoder, Encoder, VQGANConfig
from videopred.nn.quantize import AveragedCodebook, Codebook, CosineCodebook, spread

RENAMED = [  # the files' names, ours
    (r"\b(conv_in)\.", "stem."),
    (r"\bmid\.block_1\.", "middle.0."),
    (r"\bmid\.attn_1\.", "middle.1."),
    (r"\bmid\.block_2\.", "middle.2."),
    (r"\bnorm_out\.", "norm."),
    (r"\bconv_out\.", "head."),
    (r"\b(down|up)\.(\d+)\.downsample\.(conv\.)?", r"shrink.\2."),
    (r"\b(down|up)\.(\d+)\.upsample\.(conv\.)?", r"grow.\2."),
    (r"\b(down|up)\.(\d+)\.block\.", r"levels.\2.blocks."),
    (r"\b(down|up)\.(\d+)\.attn\.", r"levels.\2.attention."),
    (r"\b(nin_shortcut|conv_shortcut|shortcut)\.", "skip."),
    (r"\bq\.", "query."),
    (r"\bk\.", "key."),
    (r"\bv\.", "value."),
    (r"\bproj_out\.", "output."),
]


def side_of(name: str):
    """Whether a file holds an encoder or a decoder: `down` or `up` has levels."""
    return lambda gold: bool(gold.keys(f"param/{name}.0.block."))


def settings(gold, side: str) -> VQGANConfig:
    found = {
        tuple(map(int, m.groups()))
        for key in gold.keys("param/")
        if (m := re.search(side + r"\.(\d+)\.block\.(\d+)", key))
    }
    levels = 1 + max(level for level, _ in found)
    blocks = 1 + max(block for _, block in found)
    widths = [gold.arrays[f"param/{side}.{i}.block.0.conv2.weight"].shape[0] for i in range(levels)]
    if side == "down":
        widths.append(len(gold.arrays["param/conv_in.bias"]))
        latent_channels = len(gold.arrays["param/conv_out.bias"])
    else:
        latent_channels = gold.arrays["param/conv_in.weight"].shape[1]
    width = math.gcd(*widths)
    return VQGANConfig(
        width=width,
        multipliers=tuple(w // width for w in widths[:levels]),
        num_blocks=blocks if side == "down" else blocks - 1,
        attention=tuple(i for i in range(levels) if gold.keys(f"param/{side}.{i}.attn.")),
        num_groups=gold.option("num_groups", 32),
        latent_channels=latent_channels,
    )


def load(module: nn.Module, gold) -> nn.Module:
    """The module in float64 with the file's parameters: each of the file's is used, each of ours filled."""
    ours = {name: p.data.fill_(math.nan) for name, p in module.double().named_parameters()}
    levels = len(module.levels)  # type: ignore[arg-type]
    for key in gold.keys("param/"):
        name = key.removeprefix("param/")
        for old, new in RENAMED:
            name = re.sub(old, new, name)
        if isinstance(module, Decoder):  # theirs counts levels from fine to coarse
            name = re.sub(r"(levels|grow)\.(\d+)", lambda m: f"{m[1]}.{levels - 1 - int(m[2])}", name)
        target = ours[name]
        target.copy_(gold[key].reshape(target.shape) if gold[key].numel() == target.numel() else gold[key])
    assert not [name for name, p in ours.items() if p.isnan().any()], "parameters that the file does not give"
    return module


@pytest.mark.golden(takes=side_of("down"))
def test_encoder(gold):
    encoder = load(Encoder(gold["x"].shape[-1], settings(gold, "down")), gold)
    gold.check("z", encoder(gold["x"].movedim(-1, 1)).movedim(1, -1))


@pytest.mark.golden(takes=side_of("up"))
def test_decoder(gold):
    decoder = load(Decoder(gold["x"].shape[-1], settings(gold, "up")), gold)
    gold.check("x", decoder(gold["z"].movedim(-1, 1)).movedim(1, -1))


@pytest.mark.golden(takes=lambda gold: "vqgan/embeddings" in gold)
@pytest.mark.parametrize("member", [Codebook, AveragedCodebook])
def test_nearest_code(gold, member):
    codebook = member(*gold["vqgan/embeddings"].shape).double()
    codebook.codes.data.copy_(gold["vqgan/embeddings"])
    found = codebook(gold["vqgan/z"])
    gold.check("vqgan/z_q", found.vectors)
    gold.check("vqgan/codes", found.ids)
    assert torch.equal(codebook.embed(found.ids), found.vectors)


@pytest.mark.golden(takes=lambda gold: "teco/param/codebook" in gold)
def test_codebook_of_teco(gold):
    num_codes, width = gold["teco/param/codebook"].shape
    z = gold["teco/z"].requires_grad_()
    codebook = CosineCodebook(num_codes, z.shape[-1], width).double()
    ours = {
        "codebook": codebook.codes,
        "proj_in.weight": codebook.inward.weight,
        "proj_out.weight": codebook.outward.weight,
    }
    for name, parameter in ours.items():
        parameter.data.copy_(gold[f"teco/param/{name}"])
    found = codebook(z)
    loss = found.commitment + found.codebook + 0.01 * found.vectors.square().sum()
    loss.backward()
    for name, value in {
        "embeddings": found.vectors, "codes": found.ids, "commitment_loss": found.commitment,
        "codebook_loss": found.codebook, "perplexity": spread(found.ids, num_codes)[0], "loss_for_grad": loss,
        "lookup": codebook.embed(gold["teco/lookup_codes"]), "grad/z": z.grad,
        **{f"grad/{name}": parameter.grad for name, parameter in ours.items()},
    }.items():  # fmt: skip
        gold.check(f"teco/{name}", value)
