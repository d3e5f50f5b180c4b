"""What holds for S5 on flattened tokens alone."""

import pytest
import torch

from videopred.dynamics.convs5 import ConvS5Config
from videopred.dynamics.s5 import S5Config


def test_on_maps_of_one_pixel_it_is_convs5_with_kernels_of_1_and_a_gate():
    layer = S5Config(grid=(1, 1), token_width=0, num_states=8).build(6).double()
    pixels = ConvS5Config(num_states=8, b_kernel_size=1, c_kernel_size=1).build(6).double()
    pixels.load_state_dict(layer.ssm.state_dict())
    x = torch.randn(2, 5, 6, 3, 4).double()
    alone = x.permute(0, 3, 4, 1, 2).reshape(24, 5, 6, 1, 1)  # every pixel a clip of its own
    g = torch.nn.functional.gelu(pixels(x)[0] + layer.d[:, None, None] * x, approximate="tanh")
    gate = layer.gate(g.flatten(0, 1)).sigmoid().unflatten(0, (2, 5))
    want = (g * gate).permute(0, 3, 4, 1, 2).reshape(24, 5, 6, 1, 1)
    torch.testing.assert_close(layer(alone)[0], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("token_width", [0, 5])
def test_every_pixel_reaches_every_other(token_width):
    layer = S5Config(grid=(3, 4), token_width=token_width, num_states=8).build(2).double()
    x = torch.randn(1, 2, 2, 3, 4).double()
    changed = x.clone()
    changed[0, 0, 0, 0, 0] += 1
    assert ((layer(changed)[0] - layer(x)[0])[0, 1].abs() > 1e-12).all()


def test_maps_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"s5.grid = \(8, 8\).*\(3, 4\); set grid to that"):
        S5Config().build(2)(torch.zeros(1, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": (0, 4)}, r"grid = \(0, 4\): must be at least 1"),
        ({"num_states": 0}, "num_states = 0"),
        ({"step_range": (0.1, 0.01)}, "step_range"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        S5Config(**settings)


def test_initial_input_map_is_lecun_normal():
    layer = S5Config(grid=(2, 2), token_width=0, num_states=64).build(64)
    assert layer.ssm.b.std().item() == pytest.approx((1 / 256) ** 0.5 / 2**0.5, rel=0.03)
    assert layer.ssm.c.std().item() == pytest.approx((1 / 64) ** 0.5, rel=0.03)
