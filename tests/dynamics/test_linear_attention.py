"""What holds for linear attention and the Performer alone."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from videopred.dynamics.linear_attention import LinearAttentionConfig, LogElu, LogRandomFeatures, PerformerConfig

MEMBERS = [LinearAttentionConfig(num_heads=2), PerformerConfig(num_heads=2, num_features=5)]


def test_the_logarithms_are_those_of_elu_plus_one():
    x = torch.linspace(-5, 5, 11).double()
    torch.testing.assert_close(LogElu()(x).exp(), functional.elu(x) + 1)


def test_random_features_approximate_the_softmax_kernel():
    q, k = torch.randn(2, 20, 4).double() * 0.5
    features = LogRandomFeatures(20_000, 4).double()
    got = features(q).exp() @ features(k).exp().T / 20_000
    want = (q @ k.T / 2).exp()  # of softmax(q k / sqrt(4))
    error = ((got - want) / want).abs()
    assert error.max() < 0.2 and error.mean() < 0.01


@pytest.mark.parametrize("config", MEMBERS, ids=lambda config: config.kind)
def test_the_running_sums_are_the_plain_sums_over_frames_up_to_now(config):
    """Without a stabiliser, over all pairs: every token of frames 1..t weighs phi(q) phi(k)."""
    layer = config.build(6).double()
    q, k = (layer.log_features(torch.randn(2, 4, 2, 3, 3).double()).exp() for _ in range(2))
    v = torch.randn(2, 4, 2, 3, 3).double()  # b t heads n d
    weights = torch.einsum("bthnm,bshom->bhtnso", q, k) * torch.ones(4, 4).tril()[:, None, :, None]
    want = torch.einsum("bhtnso,bshod->bthnd", weights / weights.sum((-2, -1), keepdim=True), v)
    y, *_ = layer._attend(q.log(), k.log(), v, None)
    torch.testing.assert_close(y, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", MEMBERS, ids=lambda config: config.kind)
@pytest.mark.parametrize("size", [100.0, 1e4])
def test_large_inputs_overflow_nowhere_and_do_not_change_what_came_before(config, size):
    layer, x = config.build(6), torch.randn(1, 6, 6, 2, 2)
    x[:, 3:] *= size
    x.requires_grad_()
    y, state = layer(x)
    y.sum().backward()
    assert all(tensor.isfinite().all() for tensor in (y, x.grad, *state))
    torch.testing.assert_close(layer(x[:, :3])[0], y[:, :3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", MEMBERS, ids=lambda config: config.kind)
def test_it_knows_the_order_of_frames_and_where_pixels_are(config):
    layer, x = config.build(6).double(), torch.randn(1, 4, 6, 2, 2).double()
    y = layer(x)[0]
    other = layer(x[:, [1, 0, 2, 3]])[0]
    assert not torch.allclose(other[:, 3], y[:, 3], atol=1e-6)
    assert not torch.allclose(layer(x.flip(-1))[0].flip(-1), y, atol=1e-6)


@pytest.mark.parametrize("config", [*MEMBERS, PerformerConfig()], ids=str)
def test_heads_must_divide_the_width(config):
    with pytest.raises(ValueError, match="num_heads = 4: must divide the width, 6"):
        dataclasses.replace(config, num_heads=4).build(6)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="num_features = 0"):
        PerformerConfig(num_features=0)
    with pytest.raises(ValueError, match="num_heads = 0"):
        LinearAttentionConfig(num_heads=0)
