"""The no-VQ transformer baseline of the papers' code, whole model, in float64. Rules as in test_convs5.py.

Their projection takes latents with the embedded action, ours takes what the predictor's 1x1 convolution makes of them:
here the identity. Their decoder takes fewer channels than that: the rest of ours gets weights of zero.
"""

import math
import re

import pytest
import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.dynamics.paper_transformer import PaperTransformerConfig
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.stack import StackConfig
from videopred.spatial.identity import IdentityConfig

RENAMED = [  # the file's names, ours
    (r"^(en|de)coder\.", r"codec.\1coder."),
    (r"^action_embed\.", "actions.table."),
    (r"^(z_proj|z_unproj)\.weight$", r"dynamics.\1"),
    (r"^sos$", "dynamics.sos"),
    (r"^tfm\.", "dynamics."),
    (r"\.layers\.", ".blocks."),
    (r"\.attn\.", "."),
    (r"\.mlp\.wi\.", ".wide."),
    (r"\.mlp\.wo\.", ".narrow."),
    (r"\.ln_out\.", ".norm."),
    (r"\.ln(\d)\.", r".norm\1."),
    (r"^dynamics\.", "stack.layers.0.dynamics."),
]


def count(gold, pattern: str) -> int:
    return len({match[0] for key in gold.keys("param/") if (match := re.match(pattern, key))})


def model(gold) -> nn.Module:
    *_, height, width, channels = gold["video"].shape
    _, _, rows, columns, _ = gold["features"].shape
    token, features, patch, _ = gold.arrays["param/z_proj.weight"].shape
    actions = gold.arrays["param/action_embed.weight"].shape
    encoder = [
        gold.arrays[f"param/encoder.blocks.{i}.conv1.weight"].shape[0]
        for i in range(count(gold, r"param/encoder\.blocks\.\d+"))
    ]
    decoder = [
        gold.arrays[f"param/decoder.blocks.{i}.conv1.weight"].shape[0]
        for i in range(count(gold, r"param/decoder\.blocks\.\d+"))
    ]
    named = {name: re.search(rf"{name}(\d+)", gold.path.stem) for name in ("groups", "heads")}
    dynamics = PaperTransformerConfig(
        token_width=token,
        mlp_width=gold.arrays["param/tfm.layers.0.mlp.wi.weight"].shape[0],
        num_heads=gold.option("num_heads", int(named["heads"][1]) if named["heads"] else 2),
        depth=count(gold, r"param/tfm\.layers\.\d+"),
        window=gold["video"].shape[1],
        patch=patch,
        grid=(rows // patch, columns // patch),
    )
    guess = 32 if all(width % 32 == 0 for width in encoder + decoder) else math.gcd(4, *encoder, *decoder)
    config = PixelConfig(
        codec=ResNetCodecConfig(
            encoder_widths=tuple(encoder),
            decoder_widths=tuple(reversed(decoder)),
            num_groups=gold.option("num_groups", int(named["groups"][1]) if named["groups"] else guess),
        ),
        stack=StackConfig(
            width=features, depth=1, dynamics=dynamics, spatial=IdentityConfig(), norm="none", skip=False
        ),
        actions=ActionsConfig(num_actions=actions[0] - 1, width=actions[1]),
        l1_weight=0.5,
        reduction="paper",
    )
    return load(config.build(Format(channels, height, width, actions[0] - 1)), gold)


def load(module: nn.Module, gold) -> nn.Module:
    """The module in float64 with the file's parameters: each of the file's is used, each of ours filled."""
    ours = {name: p.data.fill_(torch.nan) for name, p in module.double().named_parameters()}
    module.mix.weight.data.copy_(torch.eye(len(module.mix.weight))[..., None, None])
    module.mix.bias.data.zero_()
    for key in gold.keys("param/"):
        name, value = key.removeprefix("param/"), gold[key]
        for old, new in RENAMED:
            name = re.sub(old, new, name)
        target = ours[name]
        if name.endswith(("z_unproj", "decoder.stem.weight")):  # ours has more channels
            target = target.zero_()[:, : value.shape[1]]
        if target.shape[value.ndim :].numel() == 1:
            target = target.flatten(value.ndim - 1)  # a matrix is our 1x1 convolution
        assert target.shape == value.shape, f"{key}: {tuple(value.shape)}, ours is {tuple(target.shape)}"
        target.copy_(value)
    assert not [name for name, p in ours.items() if p.isnan().any()], "parameters that the file does not give"
    return module


def last(frames: Tensor) -> Tensor:
    """(b, t, c, h, w) -> (b, t, h, w, c)."""
    return frames.permute(0, 1, 3, 4, 2)


@pytest.mark.golden(takes=lambda gold: {"param/sos", "param/z_proj.weight", "video", "pred"} <= set(gold.arrays))
def test_transformer_model(gold):
    """Whole, and frame by frame from the state."""
    predictor, frames = model(gold), gold["video"].permute(0, 1, 4, 2, 3)
    actions = gold["actions"] if "actions" in gold else torch.zeros(frames.shape[:2]).long()
    clip, hidden = Clip(frames=frames, actions=actions), []
    with predictor.stack.register_forward_hook(lambda module, inputs, outputs: hidden.append(outputs[0])):
        predicted, _ = predictor.reconstruct(clip)
    loss, metrics, _ = predictor(clip)
    scale = predictor.format.width * predictor.format.channels  # the files' losses are sums over these two
    gold.check("features", last(hidden[0][:, :, : gold["features"].shape[-1]]))
    gold.check("pred", last(predicted))
    gold.check("loss", loss)
    gold.check("mse_loss", metrics["l2"] * scale)
    gold.check("l1_loss", metrics["l1"] * scale)
    with torch.no_grad():
        state, single = predictor.observe(clip.slice(0, 1)), []
        for i in range(1, frames.shape[1]):
            single.append(predictor.reconstruct(clip.slice(i, i + 1), state)[0])
            state = predictor.observe(clip.slice(i, i + 1), state)
    gold.check("pred", last(torch.cat(single, 1)))
