"""The papers' other dynamics against the golden arrays of their code, in float64. Rules as in test_convs5.py."""

import pytest
import torch
from torch import Tensor

from videopred.dynamics.convlstm import ConvLSTMConfig
from videopred.dynamics.s5 import S5Config
from videopred.predictors.stack import Layer, StackConfig
from videopred.spatial.identity import IdentityConfig


def features(array: Tensor) -> Tensor:
    """(l, b, h, w, c) -> (b, t, c, h, w)."""
    return array.permute(1, 0, 4, 2, 3)


def sequence(ours: Tensor) -> Tensor:
    """(b, t, c, h, w) -> (l, b, h, w, c)."""
    return ours.permute(1, 0, 3, 4, 2)


@pytest.mark.golden(takes=lambda gold: {"weight", "u", "c0", "h0", "cL"} <= set(gold.arrays))
def test_convlstm(gold, ways, in_pieces):
    """Values, last state and gradients; `layer_y` is the same layer from the same state, with its skip and norm."""
    width, kernel_size = gold["u"].shape[-1], gold["weight"].shape[-1]
    config = ConvLSTMConfig(kernel_size=kernel_size)
    layer = Layer(StackConfig(width=width, depth=1, dynamics=config, spatial=IdentityConfig())).double()
    layer.dynamics.weight.data.copy_(gold["weight"])
    for sizes in ways(len(gold["u"])):
        layer.zero_grad()
        u = features(gold["u"]).requires_grad_()
        start = tuple(gold[key].permute(0, 3, 1, 2).requires_grad_() for key in ("c0", "h0"))
        y, last = in_pieces(layer.dynamics, u, start, sizes)
        gold.check("y", sequence(y))
        for key, ours in zip(("cL", "hL"), last, strict=True):
            gold.check(key, ours.permute(0, 2, 3, 1))
        if gold.keys("grad/"):
            sum(part.square().sum() for part in (y, *last)).backward()
            gold.check("grad/weight", layer.dynamics.weight.grad)
            gold.check("grad/u", sequence(u.grad))
            for key, ours in zip(("grad/c0", "grad/h0"), start, strict=True):
                gold.check(key, ours.grad.permute(0, 2, 3, 1))
        if "layer_y" in gold:
            layer.norm.weight.data.copy_(gold["norm.weight"])
            layer.norm.bias.data.copy_(gold["norm.bias"])
            with torch.no_grad():
                gold.check("layer_y", sequence(in_pieces(layer, u, start, sizes)[0]))


@pytest.mark.golden(takes=lambda gold: {"B_re", "D", "gate.weight", "u"} <= set(gold.arrays))
def test_s5(gold, ways, in_pieces):
    """The whole layer with its skip and norm, from a zero state: one token (l, u) per frame, a map of one pixel."""
    p, width = gold["B_re"].shape
    clip = gold.option("clip_eigs", "clip" in gold.path.stem)
    config = S5Config(grid=(1, 1), token_width=0, num_states=2 * p, clip_eigenvalues=clip)
    layer = Layer(StackConfig(width=width, depth=1, dynamics=config, spatial=IdentityConfig())).double()
    s5, pair = layer.dynamics, lambda name: torch.stack([gold[f"{name}_re"], gold[f"{name}_im"]], -1)
    ours = {
        s5.ssm.lambda_re: gold["Lambda_re"],
        s5.ssm.lambda_im: gold["Lambda_im"],
        s5.ssm.log_step: gold["log_step"],
        s5.ssm.b: pair("B")[:, :, None, None],
        s5.ssm.c: pair("C")[:, :, None, None],
        s5.d: gold["D"],
        s5.gate.weight: gold["gate.weight"][:, :, None, None],
        s5.gate.bias: gold["gate.bias"],
        layer.norm.weight: gold["norm.weight"],
        layer.norm.bias: gold["norm.bias"],
    }
    assert {id(p) for p in layer.parameters()} == {id(p) for p in ours}
    for parameter, value in ours.items():
        parameter.data.copy_(value)
    for sizes in ways(len(gold["u"])):
        y, last = in_pieces(layer, gold["u"][None, :, :, None, None], None, sizes)
        gold.check("y", y[0, :, :, 0, 0])
        gold.check("xL", torch.view_as_complex(last)[0, 0, 0])
