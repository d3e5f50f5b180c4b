"""Spatial blocks against arrays of their papers' published code, in float64.

That code ran in float32, so `SHORT` of the largest element is allowed for values and `GRADIENT` for gradients (of
`(y * loss_w).sum()`). Sizes come from the arrays' shapes, what shapes do not show from the file's `meta_*` scalars.
"""

import pytest
import torch
from torch import nn

from videopred.spatial.attention import Attention
from videopred.spatial.efficientmod import EfficientModConfig

SHORT, GRADIENT = 2e-6, 1e-4

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
