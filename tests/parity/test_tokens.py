"""Token ConvS5, TECO and its MaskGit prior against the golden arrays of the papers' code, in float64.

Rules as in test_convs5.py. The files give tokens and their vectors, so that the frozen codec's networks are not run.
Their causal losses hold a constant, which ours leave out: what they add for what is not scored is the cross-entropy of
labels that are taken as logits. TECO is compared with the time mask on the time axis ("fixed"), as it was meant.
"""

import math
import re

import pytest
import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.codecs.vqgan import VQGANConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.frozen import FrozenConfig
from videopred.predictors.maskgit import MaskGitConfig, mask_ratio, part_sizes
from videopred.predictors.stack import StackConfig
from videopred.predictors.teco import TecoConfig
from videopred.predictors.token import TokenConfig
from videopred.spatial.resnet import ResNetConfig

RENAMED = [  # the files' names, ours
    (r"^layers\.", "stack.layers."),
    (r"\bssm\.", "dynamics."),
    (r"\bcd\.", "spatial."),
    (r"^(en|de)coder\.", r"codec.\1coder."),
    (r"^action_embed\.", "actions.table."),
    (r"^action_conv\.", "mix."),
    (r"\bLambda_", "lambda_"),
    (r"^encoder_proj\.", "project."),
    (r"^sos_post$", "start"),
    (r"^codebook\.codebook$", "codebook.codes"),
    (r"^codebook\.proj_in\.", "codebook.inward."),
    (r"^codebook\.proj_out\.", "codebook.outward."),
    (r"^prior\.token_embed$", "prior.table"),
    (r"^prior\.net\.pos\.d_0$", "prior.rows"),
    (r"^prior\.net\.pos\.d_1$", "prior.columns"),
    (r"^prior\.net\.ln_out\.", "prior.norm."),
    (r"^prior\.net\.layers\.", "prior.blocks."),
    (r"^prior\.net\.", "prior."),
    (r"\.attn\.", "."),
    (r"\.mlp\.wi\.", ".wide."),
    (r"\.mlp\.wo\.", ".narrow."),
    (r"\.ln(\d)\.", r".norm\1."),
    (r"^prior\.mlm\.fc\.", "prior.head."),
    (r"^prior\.mlm\.ln\.", "prior.head_norm."),
    (r"^prior\.mlm\.out_bias$", "prior.bias"),
]


# --- names, layouts, configurations ---


def spot(tensors: dict[str, Tensor], gold, key: str, name: str) -> Tensor:
    """The part of our tensor that the file's array `key` corresponds to, in the array's shape."""
    for old, new in RENAMED:
        name = re.sub(old, new, name)
    if pair := re.match(r"(.*\b)([BC])_(re|im)$", name):
        return tensors[pair[1] + pair[2].lower()][..., ("re", "im").index(pair[3])]
    found, dims = tensors[name], gold.arrays[key].ndim
    return found.flatten(dims - 1) if found.shape[dims:].numel() == 1 else found  # a matrix is our 1x1 convolution


def load(module: nn.Module, gold) -> nn.Module:
    """The module in float64 with the file's parameters: each of the file's is used, each of ours filled."""
    ours = {name: p.data.fill_(math.nan) for name, p in module.double().named_parameters()}
    for key in gold.keys("param/"):
        target = spot(ours, gold, key, key.removeprefix("param/"))
        assert target.shape == gold[key].shape, f"{key}: {tuple(gold[key].shape)}, ours is {tuple(target.shape)}"
        target.copy_(gold[key])
    assert not [name for name, p in ours.items() if p.isnan().any()], "parameters that the file does not give"
    module.tokenizer.codec.codebook.codes.copy_(gold["vq_table"])
    return module


def check_gradients(gold, module: nn.Module, prefix: str) -> None:
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    for key in gold.keys(prefix):
        least = 1e-9 if key.endswith("attn.key.bias") else 0.0  # no softmax feels it: its gradient is rounding of 0
        gold.check(key, spot(gradients, gold, key, key.removeprefix(prefix)), least=least)


def channels_last(maps: Tensor) -> Tensor:
    """(b, t, c, h, w) -> (b, t, h, w, c)."""
    return maps.movedim(2, -1)


def count(gold, pattern: str) -> int:
    return len({match[0] for key in gold.keys("param/") if (match := re.match(pattern, key))})


def widths(gold, side: str, levels: int) -> tuple[tuple[int, ...], int]:
    """Widths from fine to coarse and blocks per width of a side of the codec."""
    number = count(gold, rf"param/{side}\.blocks\.\d+")
    found = [gold.arrays[f"param/{side}.blocks.{i}.conv1.weight"].shape[0] for i in range(number)]
    if side == "decoder":
        return tuple(reversed(found[:: number // levels])), number // levels
    blocks = (number - 1) // max(1, levels - 1) or 1
    return (found[0], *found[1::blocks]), blocks


def parts(gold, side: int, latent: int, causal: bool) -> dict:
    """What both predictors are configured with; tokens lie on a grid of `side`, the stack's maps on one of `latent`."""
    levels = int(math.log2(side // latent)) + 1
    encoder_widths, encoder_blocks = widths(gold, "encoder", levels)
    decoder_widths, decoder_blocks = widths(gold, "decoder", levels)
    normed = [gold.arrays[key].shape[0] for key in gold.keys("param/") if re.search(r"(cd|blocks\.\d+)\.norm\d", key)]
    named = re.search(r"groups(\d+)", gold.path.stem)
    guess = int(named[1]) if named else 32 if all(width % 32 == 0 for width in normed) else math.gcd(4, *normed)
    groups = gold.option("num_groups", guess)
    (p, width, *_, b_kernel), c_kernel = (
        gold.arrays["param/layers.0.ssm.B_re"].shape,
        gold.arrays["param/layers.0.ssm.C_re"].shape[-1],
    )
    rows, action_width = gold.arrays["param/action_embed.weight"].shape
    num_codes, code_width = gold.arrays["vq_table"].shape
    frozen = VQGANConfig(
        width=2, multipliers=(1,), num_blocks=1, attention=(), num_groups=1, code_width=code_width, num_codes=num_codes
    )
    return {
        "tokenizer": FrozenConfig(codec=frozen),
        "codec": ResNetCodecConfig(
            encoder_widths=encoder_widths,
            encoder_blocks=encoder_blocks,
            decoder_widths=decoder_widths,
            decoder_blocks=decoder_blocks,
            num_groups=groups,
        ),
        "stack": StackConfig(
            width=width,
            depth=count(gold, r"param/layers\.\d+"),
            dynamics=ConvS5Config(
                num_states=2 * p,
                b_kernel_size=b_kernel,
                c_kernel_size=c_kernel,
                clip_eigenvalues=gold.option("clip_eigs", False),
            ),
            spatial=ResNetConfig(
                num_groups=groups, kernel_size=gold.arrays["param/layers.0.cd.conv1.weight"].shape[-1]
            ),
        ),
        "actions": ActionsConfig(num_actions=rows - 1, width=action_width),
        "causal_context": gold.option("open_loop_ctx_1", 4) if causal else 0,
    }


def build(config, gold) -> nn.Module:
    side = gold["tokens"].shape[2]
    return load(config.build(Format(3, side, side, config.actions.num_actions)), gold)


def clip_of(gold, dropped: bool) -> Clip:
    """Its tokens; the actions of clips that the file drew are unknown if `dropped`."""
    actions = gold["actions"]
    if dropped:
        actions = torch.where(gold["draw/drop"].bool()[:, None], -1, actions)
    return Clip(tokens=gold["tokens"], actions=actions)


def constant(labels: Tensor) -> float:
    """Cross-entropy, in nats, of labels (n,) that are taken as logits."""
    return (labels.logsumexp(-1) - labels.square().sum()).item()


def smoothed(num_codes: int, smoothing: float) -> Tensor:
    labels = torch.full((num_codes,), smoothing / num_codes, dtype=torch.float64)
    labels[0] += 1 - smoothing
    return labels


def last_states(gold, memory: tuple) -> None:
    for i, last in enumerate(memory):
        if (key := f"last_state.{i}" if "last_state.0" in gold else "last_state") in gold:
            gold.check(key, torch.view_as_complex(last))


# --- token ConvS5 ---


@pytest.mark.golden(takes=lambda gold: {"vq_table", "encoder_out", "param/layers.0.ssm.B_re"} <= set(gold.arrays))
def test_token_model(gold):
    causal = "nocausal" not in gold.path.stem and "causal" in gold.path.stem
    config = TokenConfig(**parts(gold, gold["tokens"].shape[2], gold["encoder_out"].shape[2], causal))
    model, clip = build(config, gold), clip_of(gold, dropped=False)
    gold.check("encoder_out", channels_last(model.codec.encode(model.tokenizer.embed(clip.tokens))))
    memory, hidden, logits = None, [], []
    for size in clip.num_frames - 1, 1:  # whole, then frame by frame
        for ids in range(0, clip.num_frames - 1, size):
            memory = memory if ids else None
            features, memory = model._next(
                clip.tokens[:, ids : ids + size], clip.actions[:, ids + 1 : ids + size + 1], memory
            )
            hidden, logits = [*hidden, features], [*logits, model._logits(features)]
        gold.check("deter_nomask", channels_last(torch.cat(hidden, 1)))
        gold.check("recon_logits_nomask", torch.cat(logits, 1))
        last_states(gold, memory)
        hidden, logits = [], []
    loss, _, _ = model(clip_of(gold, dropped=causal))
    offset = constant(smoothed(config.tokenizer.codec.num_codes, config.smoothing)) * clip.tokens[0, 0].numel()
    gold.check("out/loss", loss + (offset if causal else 0))
    loss.backward()
    check_gradients(gold, model, "grad/")


# --- TECO ---


def is_teco(gold) -> bool:
    return {"vq_table", "param/prior.token_embed", "draw/idxs", "z_codes"} <= set(gold.arrays)


def teco_model(gold) -> nn.Module:
    causal = "nocausal" not in gold.path.stem and "causal" in gold.path.stem
    num_codes, code_width = gold.arrays["param/codebook.codebook"].shape
    named = re.search(r"heads(\d+)", gold.path.stem)
    prior = MaskGitConfig(
        vocab_width=gold.arrays["param/prior.token_embed"].shape[1],
        token_width=gold.arrays["param/prior.net.fc_in.weight"].shape[0],
        mlp_width=gold.arrays["param/prior.net.layers.0.mlp.wi.weight"].shape[0],
        num_heads=gold.option("num_heads", int(named[1]) if named else 2),
        depth=count(gold, r"param/prior\.net\.layers\.\d+"),
    )
    config = TecoConfig(
        **parts(gold, gold["tokens"].shape[2], gold["z_codes"].shape[2], causal),
        latent_width=gold.arrays["param/encoder_proj.weight"].shape[0],
        num_codes=num_codes,
        code_width=code_width,
        prior=prior,
        reduction="paper",
    )
    return build(config, gold)


@pytest.mark.golden(takes=is_teco)
def test_teco_parts(gold):
    model, clip = teco_model(gold), clip_of(gold, dropped=False)
    chain, found = model._posterior(clip.tokens, None)
    features, memory = model._next(chain[:, :-1], clip.actions[:, 1:], None)
    logits = model.codec.decode(features, chain[:, 1:])
    gold.check("cond", channels_last(chain[:, :1]))
    gold.check("z_embeddings", found.vectors[:, 1:])
    gold.check("z_codes", found.ids[:, 1:])
    gold.check("deter_nomask", channels_last(features))
    gold.check("recon_logits_nomask", channels_last(logits))
    gold.check("recon_nomask", logits.argmax(2))
    gold.check("prior_logits", model.prior(gold["prior_in"], gold["prior_cond"].movedim(-1, 1)))
    last_states(gold, memory)


@pytest.mark.golden(takes=is_teco)
def test_teco_losses(gold, monkeypatch):
    """With the frames and masks that the file drew, an index beyond the end taken as the last frame."""
    model, causal = teco_model(gold), model_is_causal(gold)
    clip, kept = clip_of(gold, dropped=True), []
    frames = gold["draw/idxs"].clamp(max=clip.num_frames - 2).expand(len(clip.tokens), -1)
    mask = gold["draw/z_git/mask"].bool()
    monkeypatch.setattr(model, "_drawn", lambda noise: (frames, mask))
    for part in model.stack, model.prior:
        part.register_forward_hook(lambda module, inputs, outputs: kept.append(outputs))
    loss, metrics, _ = model(clip, noise=torch.zeros(*clip.tokens.shape[:2], *model.noise_shape()))
    (features, _), logits = kept
    _, found = model._posterior(clip.tokens, None)
    gold.check("draw/deter_all", channels_last(features))
    gold.check("draw/z_codes_all", found.ids[:, 1:])
    gold.check("draw/z_emb_all", found.vectors[:, 1:])
    gold.check("draw/z_git/logits", logits.unflatten(0, frames.shape))
    out, size = "out_fixed" if causal else "out", mask[0, 0].numel()
    offset = constant(smoothed(model.config.num_codes, 0.0)) * size if causal else 0
    gold.check(f"{out}/loss", loss + offset)
    gold.check(f"{out}/trans_loss", metrics["prior_nats"] * size + offset)
    gold.check(f"{out}/recon_loss", metrics["nats"] * clip.tokens[0, 0].numel())
    gold.check(f"{out}/perplexity", metrics["perplexity"], tolerance=1e-8)  # theirs adds 1e-10 to each share
    for name in "commitment", "codebook":
        gold.check(f"{out}/{name}_loss", metrics[name])
    loss.backward()
    check_gradients(gold, model, "grad_fixed/")


def model_is_causal(gold) -> bool:
    return "causal" in gold.path.stem and "nocausal" not in gold.path.stem


@pytest.mark.golden(takes=lambda gold: "ratio" in gold and bool(gold.keys("mask_ratio/")))
def test_maskgit_schedule(gold):
    for key in gold.keys("mask_ratio/"):
        gold.check(key, mask_ratio(gold["ratio"], key.partition("/")[2]))
    for key in gold.keys("n_masked_cosine/L"):
        length = int(key.partition("/L")[2])
        prior = MaskGitConfig(vocab_width=2, token_width=2, mlp_width=2, num_heads=1, depth=1).build(4, 2, (1, length))
        masks = prior.mask(gold["ratio"], torch.rand(len(gold["ratio"]), length, dtype=torch.float64))
        gold.check(key, masks.sum((1, 2)))
    for key in gold.keys("draft_chunk_sizes/"):
        rows, columns, steps = map(int, re.fullmatch(r".*/(\d+)x(\d+)_T(\d+)", key).groups())
        gold.check(key, torch.tensor(part_sizes(rows * columns, steps)))
