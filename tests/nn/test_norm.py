"""Norms against their formulas, epsilon 1e-6."""

import pytest
import torch

from videopred.nn.norm import GroupNorm, LayerNorm


def filled(norm):
    """With a scale and a shift that show when they are missing."""
    norm.weight.data, norm.bias.data = torch.rand(len(norm.weight)) + 0.5, torch.randn(len(norm.bias))
    return norm.double()


@pytest.mark.parametrize("size", [1.0, 1e-3])  # at 1e-3 the variance is epsilon's size, and a wrong epsilon shows
def test_layer_norm_is_over_the_channels_of_each_pixel(size):
    norm, x = filled(LayerNorm(6)), torch.randn(2, 6, 3, 4, dtype=torch.float64) * size
    mean, var = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
    want = (x - mean) / torch.sqrt(var + 1e-6) * norm.weight[:, None, None] + norm.bias[:, None, None]
    torch.testing.assert_close(norm(x), want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("num_groups", [1, 2, 6])
def test_group_norm_is_over_contiguous_channels_and_all_pixels_of_a_frame(num_groups, size):
    norm, x = filled(GroupNorm(num_groups, 6)), torch.randn(2, 6, 3, 4, dtype=torch.float64) * size
    grouped = x.reshape(2, num_groups, -1)
    mean, var = grouped.mean(-1, keepdim=True), grouped.var(-1, unbiased=False, keepdim=True)
    normed = ((grouped - mean) / torch.sqrt(var + 1e-6)).reshape(x.shape)
    want = normed * norm.weight[:, None, None] + norm.bias[:, None, None]
    torch.testing.assert_close(norm(x), want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("make", [lambda: LayerNorm(8), lambda: GroupNorm(2, 8)], ids=["layer", "group"])
def test_bfloat16_keeps_float32_statistics(make):
    """A large mean: with statistics in bfloat16 the deviations would be lost."""
    norm, x = make(), (torch.randn(2, 8, 5, 5) + 30).bfloat16()
    got = norm(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), norm(x.float()), rtol=0.01, atol=0.01)


def test_groups_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"10 channels .* num_groups = 4 .* divisor of 10"):
        GroupNorm(4, 10)
