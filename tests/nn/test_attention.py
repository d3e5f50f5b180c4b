"""Positions and tokens of attention."""

import math

import pytest
import torch

from videopred.nn.attention import head_width, orthogonal_directions, rotate, sinusoid, tokens


def test_a_token_is_a_pixel_in_rows():
    maps = torch.arange(2 * 1 * 6 * 2 * 3).reshape(2, 1, 6, 2, 3)
    cut = tokens(maps, 2)
    assert cut.shape == (2, 1, 2, 6, 3)
    assert torch.equal(cut[1, 0, 1, 4], maps[1, 0, 3:, 1, 1])


def test_sinusoid_has_all_sines_before_all_cosines():
    table = sinusoid(torch.arange(7), 6)
    for position in range(7):
        for i in range(3):
            angle = position * 10000 ** (-2 * i / 6)
            assert table[position, i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, 3 + i].item() == pytest.approx(math.cos(angle), abs=1e-12)
    assert sinusoid(torch.arange(7), 5).shape == (7, 5)


@pytest.mark.parametrize("channels", [2, 5, 6, 12])
def test_products_of_turned_vectors_depend_on_differences_of_position(channels):
    q, k = (x.double().expand(1, 4, 1, 6, channels) for x in torch.randn(2, channels))

    def products(start: int) -> torch.Tensor:
        times = torch.arange(start, start + 4)
        turned = (rotate(x, times, 2, 3)[0, :, 0].flatten(0, 1) for x in (q, k))  # (t n) channels
        return torch.einsum("id,jd->ij", *turned).reshape(4, 2, 3, 4, 2, 3)

    near, far = products(0), products(1000)
    torch.testing.assert_close(near, far, rtol=0, atol=1e-10)
    torch.testing.assert_close(near[1, 1, 2, 0, 0, 0], near[3, 1, 2, 2, 0, 0])
    torch.testing.assert_close(near[0, 1, 1, 2, 0, 0], near[0, 1, 2, 2, 0, 1])
    assert not torch.allclose(near[0, 0, 0, 0], near[0, 0, 0, 1])
    if channels >= 6:
        assert len(near[0, 0, 0, 0].round(decimals=9).unique()) == 6  # every pixel differs
    torch.testing.assert_close(rotate(q, torch.arange(4), 2, 3).norm(dim=-1), q.norm(dim=-1))


def test_heads_must_divide_the_width():
    assert head_width(12, 4) == 3
    with pytest.raises(ValueError, match="num_heads = 5: must divide the width, 12"):
        head_width(12, 5)


def test_directions_are_orthogonal_in_blocks_and_as_long_as_normal_vectors():
    directions = orthogonal_directions(1000, 8)
    assert directions.shape == (1000, 8)
    unit = directions[8:16] / directions[8:16].norm(dim=1, keepdim=True)
    torch.testing.assert_close(unit @ unit.T, torch.eye(8), rtol=0, atol=1e-5)
    torch.testing.assert_close(directions.T @ directions / 1000, torch.eye(8), rtol=0, atol=0.15)
