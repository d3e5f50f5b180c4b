"""Spatial blocks against arrays of their papers' published code, in float64.

That code ran in float32, so `SHORT` of the largest element is allowed for values and `GRADIENT` for gradients (of
`(y * loss_w).sum()`). Sizes come from the arrays' shapes, what shapes do not show from the file's `meta_*` scalars.
"""

from typing import cast

import pytest
import torch
from torch import Tensor, nn

from videopred.codecs.staged import Shrink
from videopred.nn.norm import LayerNorm
from videopred.nn.ssm2d import impulse_response, kernel, kernel_reference
from videopred.spatial.attention import Attention
from videopred.spatial.efficientmod import EfficientModConfig
from videopred.spatial.ssm2d import SSM2D, SSM2DMixerConfig

SHORT, GRADIENT = 2e-6, 1e-4
# Its complex powers are less exact. What was computed anew in float64 starts from its A, rounded to float32.
REAL, COMPLEX, AGAIN, STARTED = 1e-5, 1e-4, 1e-6, 5e-7

EFFICIENTMOD = {  # ours: the file's; several are rows of one of ours, in this order
    "gamma": ["gamma_1"],
    "norm.weight": ["norm.weight"],
    "norm.bias": ["norm.bias"],
    "inward.weight": ["mlp.context_layer.f.weight", "mlp.fc1.weight"],
    "inward.bias": ["mlp.context_layer.f.bias", "mlp.fc1.bias"],
    "depthwise.weight": ["mlp.context_layer.context_list.0.weight"],
    "depthwise.bias": ["mlp.context_layer.context_list.0.bias"],
    "context.weight": ["mlp.context_layer.g.weight"],
    "context.bias": ["mlp.context_layer.g.bias"],
    "out.weight": ["mlp.fc2.weight"],
    "out.bias": ["mlp.fc2.bias"],
}
ATTENTION = {
    "norm1.weight": ["norm1.weight"],
    "norm1.bias": ["norm1.bias"],
    "qkv.weight": ["attn.qkv.weight"],
    "project.weight": ["attn.proj.weight"],
    "project.bias": ["attn.proj.bias"],
    "norm2.weight": ["norm2.weight"],
    "norm2.bias": ["norm2.bias"],
    "expand.weight": ["mlp.fc1.weight"],
    "expand.bias": ["mlp.fc1.bias"],
    "reduce.weight": ["mlp.fc2.weight"],
    "reduce.bias": ["mlp.fc2.bias"],
}


def load(module: nn.Module, gold, names: dict[str, list[str]]) -> nn.Module:
    """The module in float64 with the file's parameters: each of the file's is used, each of ours filled."""
    module, ours = module.double(), dict(module.named_parameters())
    assert ours.keys() == names.keys()
    assert {f"param.{name}" for group in names.values() for name in group} == set(gold.keys("param."))
    for name, sources in names.items():
        given = torch.cat([gold[f"param.{source}"] for source in sources])
        assert given.numel() == ours[name].numel(), f"{name}: {tuple(ours[name].shape)}, given {tuple(given.shape)}"
        ours[name].data = given.view_as(ours[name]).requires_grad_()
    return module


def check(gold, module: nn.Module, names: dict[str, list[str]]) -> None:
    """Values and all gradients of a module that maps (n, c, h, w); the file's arrays are (n, h, w, c)."""
    x = gold["x"].permute(0, 3, 1, 2).requires_grad_()
    y = module(x)
    gold.check("y", y.permute(0, 2, 3, 1), SHORT)
    (y * gold["loss_w"].permute(0, 3, 1, 2)).sum().backward()
    gold.check("grad.x", x.grad.permute(0, 2, 3, 1), GRADIENT)
    gradients = {name: p.grad for name, p in module.named_parameters()}
    for name, sources in names.items():
        sizes = [gold.arrays[f"grad.{source}"].shape for source in sources]
        for source, size, part in zip(sources, sizes, gradients[name].split([size[0] for size in sizes]), strict=True):
            gold.check(f"grad.{source}", part.reshape(size), GRADIENT)


@pytest.mark.golden(takes=lambda gold: "param.mlp.context_layer.f.weight" in gold)
def test_efficientmod(gold):
    hidden, width = gold.arrays["param.mlp.fc1.weight"].shape
    kernel_size = gold.arrays["param.mlp.context_layer.context_list.0.weight"].shape[-1]
    config = EfficientModConfig(ratio=hidden // width, kernel_size=kernel_size)
    assert (config.ratio, config.kernel_size) == (gold["meta_ratio"], gold["meta_kernel"])
    check(gold, load(config.build(width), gold, EFFICIENTMOD), EFFICIENTMOD)


@pytest.mark.golden(takes=lambda gold: "param.attn.qkv.weight" in gold)
def test_attention(gold):
    hidden, width = gold.arrays["param.mlp.fc1.weight"].shape
    num_heads, head_size = int(gold["meta_heads"]), int(gold["meta_head_dim"])
    check(gold, load(Attention(width, num_heads, head_size, hidden // width), gold, ATTENTION), ATTENTION)


@pytest.mark.golden(takes=lambda gold: "param.mlp.context_layer.f.weight" in gold)
def test_efficientmod_counts_its_parameters(gold):
    """d (2 d + 2 r d + k^2 + r + 7), spatial_blocks.md 2.1."""
    hidden, width = gold.arrays["param.mlp.fc1.weight"].shape
    ratio, kernel_size = hidden // width, int(gold["meta_kernel"])
    block = EfficientModConfig(ratio=ratio, kernel_size=kernel_size).build(width)
    expected = width * (2 * width + 2 * ratio * width + kernel_size**2 + ratio + 7)
    assert sum(p.numel() for p in block.parameters()) == expected


# --- 2-D state space ---


def is_ssm2d(gold) -> bool:
    return "meta_dirs" in gold and "kernel64" in gold


def numbers(gold, key: str) -> Tensor:
    """An array whose last axis of 2 is (re, im) if the file's systems are complex."""
    return torch.view_as_complex(gold[key].contiguous()) if gold["meta_complex"] else gold[key]


def owners(gold) -> Tensor:
    """In the paper's code row f of the (direction, channel) rows reads system f mod K of all K."""
    rows, systems = gold.arrays["param.C_1"].shape[0], gold.arrays["param.B_1"].shape[0]
    return torch.arange(rows) % systems


@pytest.mark.golden(takes=is_ssm2d)
def test_ssm2d_kernel(gold):
    """From the A that the file's float64 values started from: the recurrence, the closed form to its tail.

    They also started from B as float32's sigmoid, whose last bit is another on another CPU: hence STARTED.
    """
    side, of = int(gold["meta_kernel_len"]), owners(gold)
    a = numbers(gold, "A64")
    b = torch.stack([torch.from_numpy(gold.arrays[f"param.B_{i}"]).sigmoid() for i in (1, 2)])
    b = torch.view_as_complex(b.double()) if gold["meta_complex"] else b.double()
    c = torch.stack([numbers(gold, f"param.C_{i}") for i in (1, 2)])[:, :, None]
    x_h, x_v = impulse_response(a, b, side, side)
    for key, ours in ("state_h64", x_h), ("state_v64", x_v):
        gold.check(key, torch.view_as_real(ours) if ours.is_complex() else ours, STARTED)
    gold.check("kernel64", kernel_reference(a[:, of], b[:, of], c, side, side)[:, 0], STARTED)
    ours = kernel(a[:, of], b[:, of], c, side, side)[:, 0]
    gold.check("kernel64", ours, AGAIN)
    gold.check("kernel", ours, COMPLEX if gold["meta_complex"] else REAL)


@pytest.mark.golden(takes=is_ssm2d)
def test_ssm2d_layer(gold):
    """The whole layer. Each channel is given a system of its own, copied from the one it shares in the file."""
    full, channels = bool(gold["meta_complex"]), int(gold["meta_C"])
    given = {key: gold[key].requires_grad_() for key in gold.keys("param.")}
    config = SSM2DMixerConfig(
        num_states=int(gold["meta_N"]),
        num_systems=channels,
        directions=int(gold["meta_dirs"]),
        numbers="complex" if full else "real",
        kernel_size=int(gold["meta_kernel_len"]),
    )
    layer = cast(SSM2D, config.build(channels)).double()
    tensors = {
        name: tensor.view_as(getattr(layer, name)) for name, tensor in expanded(given, full, owners(gold)).items()
    }
    tensors["d"] = given["param.omega"] if gold["meta_residual"] else torch.zeros(channels, dtype=torch.float64)
    x = gold["x"].requires_grad_()
    y = torch.func.functional_call(layer, tensors, (frames(x) if gold["meta_seq"] else x,))
    if gold["meta_norm"]:
        norm = LayerNorm(channels, 1e-5).double()
        scales = {name: given[f"param.normalization.{name}"] for name in ("weight", "bias")}
        y = torch.func.functional_call(norm, scales, (y,))
    y = y.flatten(2).permute(2, 0, 1) if gold["meta_seq"] else y
    gold.check("y", y, COMPLEX if full else REAL)
    gold.check("y64", y, COMPLEX if full else REAL)  # from A that was rounded to float32
    (y * gold["loss_w"]).sum().backward()
    for key in gold.keys("grad."):
        leaf = x if key == "grad.x" else given[key.replace("grad.", "param.")]
        gold.check(key, leaf.grad, GRADIENT)


def frames(sequence: Tensor) -> Tensor:
    """(pixels of a square, b, c) -> (b, c, h, w)."""
    return sequence.permute(1, 2, 0).unflatten(-1, (round(len(sequence) ** 0.5), -1))


def expanded(given: dict[str, Tensor], full: bool, of: Tensor) -> dict[str, Tensor]:
    """A, B and C as our layer has them, (4 or 2, direction x channel, n[, 2]); gradients flow to what is shared."""

    def stacked(*names: str) -> Tensor:
        return torch.stack([given[f"param.{name}"] for name in names])

    four = ("A_1", "A_2", "A_3", "A_4")
    if full:
        a = torch.stack([stacked(*(f"A_{part}.{name}" for name in four)) for part in ("radius", "angle")], -1)
    else:
        a = stacked(*(f"A.{name}" for name in four))
    return {"a": a[:, of], "b": stacked("B_1", "B_2")[:, of], "c": stacked("C_1", "C_2")}


# --- stem ---


@pytest.mark.golden(takes=lambda gold: "param.proj.weight" in gold and "param.norm.weight" in gold)
def test_stem(gold):
    """A strided convolution and a norm, as the `staged` codec begins; the same layer halves the side between stages."""
    width, inputs, *_, kernel_size = gold.arrays["param.proj.weight"].shape
    stride = gold.arrays["x"].shape[1] // gold.arrays["y"].shape[1]
    names = {f"{ours}.{part}": [f"{its}.{part}"] for ours, its in (("conv", "proj"), ("norm", "norm"))
             for part in ("weight", "bias")}  # fmt: skip
    check(gold, load(Shrink(inputs, width, kernel_size, stride), gold, names), names)
