"""ConvS5, its codec, the whole pixel model and the optimiser against the golden arrays of the papers' code, in float64.

Configurations come from the arrays' shapes, so that any file of these kinds runs. What shapes do not show (groups,
activation, clipping, pre-norm) follows the rules in README.md. Ours stores complex parameters as pairs, last axis 2.
"""

import math
import re

import pytest
import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs.resnet import Decoder, Encoder, ResNetCodecConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.ssm import hippo_eigen, hippo_normal
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.stack import Layer, StackConfig
from videopred.spatial.half_glu import HalfGLUConfig
from videopred.spatial.resnet import ResNetConfig
from videopred.spatial.standard import StandardConfig
from videopred.training.optimizer import OptimizerConfig, learning_rate

STATE_SPACE = ("Lambda_re", "Lambda_im", "log_step", "B_re", "B_im", "C_re", "C_im")
RENAMED = [  # the files' names, ours
    (r"^layers\.", "stack.layers."),
    (r"\bssm\.", "dynamics."),
    (r"\bcd\.D\.", "dynamics.feedthrough."),
    (r"\bcd\.", "spatial."),
    (r"^(en|de)coder\.", r"codec.\1coder."),
    (r"^action_embed\.", "actions.table."),
    (r"^action_conv\.", "mix."),
    (r"\bLambda_", "lambda_"),
]


# --- names and layouts ---


def spot(tensors: dict[str, Tensor], gold, key: str, name: str) -> Tensor:
    """The part of our tensor that the file's array `key` corresponds to, in the array's shape."""
    for old, new in RENAMED:
        name = re.sub(old, new, name)
    if excite := re.match(r"(.*spatial)\.\w*(?:se|excite)\.\w+\.(weight|bias)$", name):
        rows, columns = gold.arrays[key.rpartition(".")[0] + ".weight"].shape[:2]
        name = f"{excite[1]}.excite.{'reduce' if rows < columns else 'expand'}.{excite[2]}"
    if pair := re.match(r"(.*\b)([BC])_(re|im)$", name):
        return tensors[pair[1] + pair[2].lower()][..., ("re", "im").index(pair[3])]
    found, dims = tensors[name], gold.arrays[key].ndim
    return found.flatten(dims - 1) if found.shape[dims:].numel() == 1 else found  # a matrix is our 1x1 convolution


def parameters(gold, prefix: str = "param/") -> dict[str, str]:
    """Keys of the file's parameters (or of their gradients), and their names without the prefix."""
    names = {key: key.removeprefix(prefix) for key in gold.keys(prefix)}
    return names if prefix else {key: name for key, name in names.items() if name in STATE_SPACE}


def load(module: nn.Module, gold, prefix: str = "param/") -> nn.Module:
    """The module in float64 with the file's parameters: each of the file's is used, each of ours filled."""
    ours = {name: p.data.fill_(math.nan) for name, p in module.double().named_parameters()}
    for key, name in parameters(gold, prefix).items():
        target = spot(ours, gold, key, name)
        assert target.shape == gold[key].shape, f"{key}: {tuple(gold[key].shape)}, ours is {tuple(target.shape)}"
        target.copy_(gold[key])
    assert not [name for name, p in ours.items() if p.isnan().any()], "parameters that the file does not give"
    return module


def check_gradients(gold, module: nn.Module, names: dict[str, str]) -> None:
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    for key, name in names.items():
        gold.check(key, spot(gradients, gold, key, name))


def features(array: Tensor) -> Tensor:
    """(l, b, h, w, c) -> (b, t, c, h, w)."""
    return array.permute(1, 0, 4, 2, 3)


def sequence(ours: Tensor) -> Tensor:
    """(b, t, c, h, w) -> (l, b, h, w, c)."""
    return ours.permute(1, 0, 3, 4, 2)


# --- configurations ---


def num_groups(gold) -> int:
    """Said in the file or its name; else 32, which the papers' code fixes, where widths allow it, and 4 where not."""
    named = re.search(r"groups(\d+)", gold.path.stem)
    shifts = [key for key in gold.keys("param/") if re.search(r"(cd|blocks\.\d+)\.norm\d?\.bias$", key)]
    normed = [gold.arrays[key].shape[0] for key in shifts]
    guess = 32 if all(width % 32 == 0 for width in normed) else math.gcd(4, *normed)
    return gold.option("num_groups", int(named[1]) if named else guess)


def state_space(gold, prefix: str, clip: bool) -> ConvS5Config:
    (p, _, *_, b_kernel), c_kernel = gold.arrays[prefix + "B_re"].shape, gold.arrays[prefix + "C_re"].shape[-1]
    feedthrough = prefix.replace("ssm.", "cd.D.weight")
    return ConvS5Config(
        num_states=2 * p,
        b_kernel_size=b_kernel,
        c_kernel_size=c_kernel,
        feedthrough=gold.arrays[feedthrough].shape[-1] if prefix and feedthrough in gold else 0,
        clip_eigenvalues=gold.option("clip_eigs", clip),
    )


def spatial(gold, prefix: str):
    named = re.search("relu|gelu|swish|silu|elu", gold.path.stem)
    if prefix + "gate.weight" in gold:
        return HalfGLUConfig()
    standard = prefix + "D.weight" in gold
    activation = named[0].replace("silu", "swish") if named else "swish" if standard else "gelu"
    settings = {
        "num_groups": num_groups(gold),
        "activation": gold.option("activation", activation),
        "squeeze_excite": any(re.search(r"cd\.\w*(se|excite)\.", key) for key in gold.keys(prefix)),
    }
    if standard:
        return StandardConfig(**settings)
    return ResNetConfig(kernel_size=gold.arrays[prefix + "conv1.weight"].shape[-1], **settings)


def stack(gold, prefix: str, depth: int = 1) -> StackConfig:
    """Of layers whose parameters begin with `prefix`, which ends in the number of the first one."""
    norm = "pre" if re.search("pre_?norm", gold.path.stem) else "post"
    return StackConfig(
        width=gold.arrays[prefix + "ssm.B_re"].shape[1],
        depth=depth,
        dynamics=state_space(gold, prefix + "ssm.", clip="noclip" not in gold.path.stem),
        spatial=spatial(gold, prefix + "cd."),
        norm=norm if prefix + "norm.weight" in gold else "none",
        skip="noskip" not in gold.path.stem,
    )


def widths(gold, side: str, levels: int) -> tuple[tuple[int, ...], int]:
    """Widths from fine to coarse, and blocks per width, of a side that halves or doubles `levels` - 1 times."""
    of_blocks = []
    while (key := f"param/{side}.blocks.{len(of_blocks)}.conv1.weight") in gold:
        of_blocks.append(gold.arrays[key].shape[0])
    if side == "decoder":
        blocks = len(of_blocks) // levels
        return tuple(reversed(of_blocks[::blocks])), blocks
    blocks = (len(of_blocks) - 1) // max(1, levels - 1) or 1
    return (of_blocks[0], *of_blocks[1::blocks]), blocks


def levels(large: int, small: int) -> int:
    return int(math.log2(large // small)) + 1


# --- checks ---


@pytest.mark.golden(takes=lambda gold: any(key.endswith("/normal_matrix_block") for key in gold.arrays))
def test_hippo(gold):
    """V is known up to a phase per column: its projector is compared, and V itself after turning our phases."""
    for case in sorted({key.rpartition("/")[0] for key in gold.arrays}):
        (num_states, _), size = gold[f"{case}/V"].shape, len(gold[f"{case}/normal_matrix_block"])
        eigenvalues, vectors = hippo_eigen(num_states, num_states // size)
        one, _ = hippo_eigen(size)
        turned = vectors * (vectors.conj() * gold[f"{case}/V"]).sum(0)
        gold.check(f"{case}/normal_matrix_block", hippo_normal(size))
        gold.check(f"{case}/Lambda", eigenvalues)
        gold.check(f"{case}/Lambda_full_block", torch.cat([one, one.conj().flip(0)]))
        gold.check(f"{case}/projector", vectors @ vectors.mH)
        gold.check(f"{case}/V", turned)
        gold.check(f"{case}/Vinv", turned.mH)


@pytest.mark.golden(takes=lambda gold: {"B_re", "C_re", "u"} <= set(gold.arrays) and gold.arrays["B_re"].ndim == 4)
def test_layer(gold, ways, in_pieces):
    clip = "clip" in gold.path.stem and "noclip" not in gold.path.stem
    layer = load(state_space(gold, "", clip).build(gold.arrays["B_re"].shape[1]), gold, "")
    check_discretised(gold, layer)
    for sizes in ways(len(gold["u"])):
        x = features(gold["u"]).requires_grad_()
        x0 = torch.view_as_real(gold["x0"]).requires_grad_() if "x0" in gold else None
        y, last = in_pieces(layer, x, x0, sizes)
        for kind in {"", "_parallel", "_sequential"}:
            if "y" + kind in gold:
                gold.check("y" + kind, sequence(y))
                gold.check("xL" + kind, torch.view_as_complex(last))
        if "loss" in gold:
            loss = 0.5 * (y.square().sum() + last.square().sum())
            gold.check("loss", loss)
            layer.zero_grad()
            loss.backward()
            check_gradients(gold, layer, {f"grad/{name}": name for name in STATE_SPACE})
            gold.check("grad/u", sequence(x.grad))
            gold.check("grad/x0_re", x0.grad[..., 0])
            gold.check("grad/x0_im", x0.grad[..., 1])
        if "y_zero_x0" in gold:
            y, last = in_pieces(layer, x, None, sizes)
            gold.check("y_zero_x0", sequence(y))
            gold.check("xL_zero_x0", torch.view_as_complex(last))


def check_discretised(gold, layer):
    a, b, _ = layer.discretise()
    if "A_bar" in gold:
        gold.check("A_bar", torch.view_as_complex(a))
    if "B_bar" in gold:  # ours is a real kernel of (p 2) outputs
        gold.check("B_bar", torch.complex(b[0::2], b[1::2]))


@pytest.mark.golden(takes=lambda gold: "y_parallel_f32" in gold or "y_sequential_f32" in gold)
def test_layer_in_float32(gold):
    """The papers' code in float32, "for tolerance guidance": ours in float32 stays within 1e-5 of it."""
    layer = load(state_space(gold, "", clip=False).build(gold.arrays["B_re"].shape[1]), gold, "").float()
    y, _ = layer(features(gold["u"]).float(), torch.view_as_real(gold["x0"]).float())
    for key in gold.keys("y_"):
        if key.endswith("_f32"):
            gold.check(key, sequence(y).double(), tolerance=1e-5)


@pytest.mark.golden(takes=lambda gold: {"param/ssm.B_re", "u", "y"} <= set(gold.arrays))
def test_block(gold, ways, in_pieces):
    layer = load(Layer(stack(gold, "param/")), gold)
    for sizes in ways(len(gold["u"])):
        x0 = torch.view_as_real(gold["x0"]) if "x0" in gold else None
        x = features(gold["u"]).requires_grad_()
        y, last = in_pieces(layer, x, x0, sizes)
        gold.check("y", sequence(y))
        gold.check("xL", torch.view_as_complex(last))


@pytest.mark.golden(takes=lambda gold: "enc_in" in gold or "dec_in" in gold)
def test_codec(gold):
    codec, groups = nn.ModuleDict(), num_groups(gold)
    if "enc_in" in gold:
        depth = levels(gold["enc_in"].shape[1], gold["enc_out"].shape[1])
        codec["encoder"] = Encoder(gold["enc_in"].shape[-1], *widths(gold, "encoder", depth), groups, "elu")
    if "dec_in" in gold:
        depth, outputs = levels(gold["dec_out"].shape[1], gold["dec_in"].shape[1]), gold["dec_out"].shape[-1]
        codec["decoder"] = Decoder(gold["dec_in"].shape[-1], *widths(gold, "decoder", depth), outputs, groups, "elu")
    load(nn.ModuleDict({"codec": codec}), gold)
    for side, module in codec.items():
        out = module(gold[f"{side[:3]}_in"].permute(0, 3, 1, 2))
        gold.check(f"{side[:3]}_out", out.permute(0, 2, 3, 1))


def pixel_model(gold) -> nn.Module:
    *_, height, width, channels = gold["video"].shape
    depth = levels(height, gold["encoder_out"].shape[2])
    encoder_widths, encoder_blocks = widths(gold, "encoder", depth)
    decoder_widths, decoder_blocks = widths(gold, "decoder", depth)
    rows, action_width = gold["param/action_embed.weight"].shape
    layers = {key.split(".")[1] for key in gold.keys("param/layers.")}
    config = PixelConfig(
        codec=ResNetCodecConfig(
            encoder_widths=encoder_widths,
            encoder_blocks=encoder_blocks,
            decoder_widths=decoder_widths,
            decoder_blocks=decoder_blocks,
            num_groups=num_groups(gold),
        ),
        stack=stack(gold, "param/layers.0.", len(layers)),
        actions=ActionsConfig(num_actions=rows - 1, width=action_width),
        l1_weight=0.5,
        reduction="paper",
    )
    return load(config.build(Format(channels, height, width, rows - 1)), gold)


def whole_clip(gold) -> Clip:
    """All frames of the file; ids of all actions are 0 where it has none."""
    frames = gold["video"].permute(0, 1, 4, 2, 3)
    return Clip(frames=frames, actions=gold["actions"] if "actions" in gold else torch.zeros(frames.shape[:2]).long())


def is_pixel_model(gold) -> bool:
    return {"video", "param/layers.0.ssm.B_re", "param/encoder.stem.weight", "pred", "encoder_out"} <= set(gold.arrays)


@pytest.mark.golden(takes=is_pixel_model)
def test_pixel_model(gold):
    model, clip = pixel_model(gold), whole_clip(gold)
    shown = clip.slice(0, gold["encoder_out"].shape[1])
    hidden = []
    with model.stack.register_forward_hook(lambda module, inputs, outputs: hidden.append(outputs[0])):
        predicted, state = model.reconstruct(shown)
    loss, metrics, _ = model(shown)
    scale = model.format.width * model.format.channels  # the files' losses are sums over these two
    gold.check("encoder_out", model.codec.encode(shown.frames).permute(0, 1, 3, 4, 2))
    gold.check("deter", hidden[0].permute(0, 1, 3, 4, 2))
    gold.check("pred", predicted.permute(0, 1, 3, 4, 2))
    gold.check("loss", loss)
    gold.check("mse_loss", metrics["l2"] * scale)
    gold.check("l1_loss", metrics["l1"] * scale)
    for i, last in enumerate(state[1][0]):
        gold.check(f"last_state.{i}", torch.view_as_complex(last))
    if gold.keys("grad/"):
        loss.backward()
        check_gradients(gold, model, parameters(gold, "grad/"))


@pytest.mark.golden(takes=lambda gold: is_pixel_model(gold) and "rollout" in gold)
def test_pixel_rollout(gold):
    """Observed are those first frames that the file's rollout shares with its video; outputs are clipped to [-1, 1]."""
    model, clip, rollout = pixel_model(gold), whole_clip(gold), gold["rollout"]
    same = (rollout == gold["video"][:, : rollout.shape[1]]).flatten(2).all(-1).all(0)
    context = int(same.long().cumprod(0).sum())
    assert context, "the rollout does not begin with observed frames"
    frames = list(clip.frames[:, :context].unbind(1))
    with torch.no_grad():
        state = model.observe(clip.slice(0, context))
        for i in range(context, rollout.shape[1]):
            frame, state = model.predict(state, clip.actions[:, i])
            frames.append(frame.clamp(-1, 1))
    gold.check("rollout", torch.stack(frames, 1).permute(0, 1, 3, 4, 2))


@pytest.mark.golden(takes=lambda gold: all(key.startswith("grad/") for key in gold.arrays) and sibling(gold))
def test_pixel_gradients(gold):
    """The file beside it, of the same name without "_grads", has the model and its clip."""
    values = sibling(gold)
    model = pixel_model(values)
    loss, _, _ = model(whole_clip(values).slice(0, values["encoder_out"].shape[1]))
    loss.backward()
    check_gradients(gold, model, parameters(gold, "grad/"))


def sibling(gold):
    path = gold.path.with_name(gold.path.name.replace("_grads", ""))
    values = type(gold)(path) if path != gold.path and path.exists() else None
    return values if values and is_pixel_model(values) else None


@pytest.mark.golden(takes=lambda gold: bool(gold.keys("lr/")))
def test_schedules(gold):
    """Peak and warm-up are where the file's rate is highest first; the last step listed is the end of training."""
    for name in sorted({key.split("/")[1] for key in gold.keys("lr/")}):
        steps, rates = gold[f"lr/{name}/step"], gold[f"lr/{name}/lr"]
        peak, constant = rates.max().item(), rates[-1] == rates.max()
        config = OptimizerConfig(
            learning_rate=peak,
            schedule="constant" if constant else "paper_cosine",
            warmup_steps=int(steps[rates.argmax()]),
        )
        ours = [learning_rate(config, int(step), int(steps[-1])) for step in steps]
        gold.check(f"lr/{name}/lr", torch.tensor(ours, dtype=torch.float64))


@pytest.mark.golden(takes=lambda gold: "adamw/params" in gold)
def test_adamw(gold):
    """Settings that only the files' README gives: peak 1e-2, warm-up 3 of 20 steps, decay 0.1.

    The file's trace was made with some scalars in float32: convs5.md section 7 gives 4e-10, so 1e-9 is allowed.
    """
    config = OptimizerConfig(
        learning_rate=gold.option("adamw/lr", 1e-2),
        schedule="paper_cosine",
        warmup_steps=gold.option("adamw/warmup", 3),
        weight_decay=gold.option("adamw/weight_decay", 0.1),
        decay="all",
    )
    module = nn.Module()
    module.weight = nn.Parameter(gold["adamw/params"][0].clone())
    optimizer, trace = config.build(module), [module.weight.detach().clone()]
    for step, gradient in enumerate(gold["adamw/grads"]):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step, gold.option("adamw/total", 20))
        module.weight.grad = gradient.clone()
        optimizer.step()
        trace.append(module.weight.detach().clone())
    gold.check("adamw/params", torch.stack(trace), tolerance=1e-9)
