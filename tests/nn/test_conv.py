"""Padding, initialisation and activations against their definitions."""

import pytest
import torch
from torch.nn import functional

from videopred.nn.conv import Conv, activate, same_conv, variance_scaling_


@pytest.mark.parametrize("height, width", [(k, k) for k in range(1, 6)] + [(2, 3), (1, 4)])
def test_same_padding_is_the_sum_over_the_kernel(height, width):
    """out[y, x] = sum over (i, j) of w[i, j] in[y + i - (k - 1) // 2, x + j - (k - 1) // 2], zero outside."""
    x, weight = torch.randn(2, 3, 6, 7), torch.randn(4, 3, height, width)
    up, left = (height - 1) // 2, (width - 1) // 2
    padded = functional.pad(x, (left, width, up, height))
    want = sum(
        torch.einsum("oc,nchw->nohw", weight[..., i, j], padded[..., i : i + 6, j : j + 7])
        for i in range(height)
        for j in range(width)
    )
    torch.testing.assert_close(same_conv(x, weight), want, rtol=1e-5, atol=1e-5)


def test_conv_adds_its_bias():
    conv = Conv(3, 4, 3)
    assert (conv.bias == 0).all()
    conv.bias.data = torch.arange(4.0)
    x = torch.randn(1, 3, 5, 5)
    torch.testing.assert_close(conv(x) - same_conv(x, conv.weight), torch.arange(4.0)[:, None, None].expand(1, 4, 5, 5))
    assert Conv(3, 4, 3, bias=False).bias is None


@pytest.mark.parametrize("scale", [0.2, 1.0, 2.0])
def test_variance_scaling_has_its_deviation_and_is_cut_at_two_sigma(scale):
    """The deviation after the cut is sqrt(scale / fan_in); the parent's is that over 0.8796."""
    weight = variance_scaling_(torch.empty(200_000), scale, 72)
    std = (scale / 72) ** 0.5
    assert weight.std().item() == pytest.approx(std, rel=0.01)
    assert weight.mean().item() == pytest.approx(0, abs=0.01 * std)
    assert 0.99 < weight.abs().max().item() / (2 * std / 0.87962566) <= 1.0


def test_conv_is_lecun_normal():
    weight = Conv(32, 256, 3).weight
    assert weight.std().item() == pytest.approx((1 / (32 * 9)) ** 0.5, rel=0.01)


def test_activations_by_their_formulas():
    x = torch.linspace(-4, 4, 101, dtype=torch.float64)
    formulas = {
        "relu": x.clamp(min=0),
        "gelu": 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "swish": x / (1 + torch.exp(-x)),
        "elu": torch.where(x > 0, x, torch.exp(x) - 1),
    }
    for name, want in formulas.items():
        torch.testing.assert_close(activate(x, name), want, msg=name)
