"""What holds for ConvS4 alone."""

import pytest
import torch

from videopred.dynamics.convs4 import ConvS4Config
from videopred.nn.scan import scan_reference


@pytest.mark.parametrize("started", [False, True], ids=["from-none", "from-state"])
@pytest.mark.parametrize("length", [1, 7])
def test_the_transform_is_the_recurrence_of_every_channel_and_pixel(length, started):
    """Outputs and last state, from the parameters, one step after the other."""
    layer = ConvS4Config(num_states=6).build(4).double()
    u, state = torch.randn(2, length, 4, 2, 3).double(), torch.randn(2, 2, 3, 4, 3, 2).double()
    eigenvalues = torch.complex(-1e-4 - layer.log_decay.exp(), layer.lambda_im)  # (channels, states)
    a = torch.exp(eigenvalues * layer.log_step.exp())
    drive = ((a - 1) / eigenvalues) * u.permute(0, 1, 3, 4, 2)[..., None]  # b t h w c p
    start = state if started else torch.zeros_like(state)
    flat = scan_reference(
        torch.view_as_real(a.flatten()), torch.view_as_real(drive.flatten(-2)), start.flatten(-3, -2)
    )  # channels and their states are lanes alike
    x = torch.view_as_complex(flat).unflatten(-1, (4, 3))
    y = 2 * (x * torch.view_as_complex(layer.c)).real.sum(-1).permute(0, 1, 4, 2, 3) + layer.d[:, None, None] * u
    want = layer.mix(torch.nn.functional.gelu(y, approximate="tanh").flatten(0, 1)).unflatten(0, (2, length))
    got, last = layer(u, state if started else None)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, torch.view_as_real(x[:, -1]), rtol=0, atol=1e-12)


def test_pixels_and_before_the_mixing_channels_are_apart():
    layer = ConvS4Config(num_states=4).build(3).double()
    layer.mix.weight.data.copy_(torch.eye(3)[:, :, None, None])
    x = torch.randn(1, 4, 3, 2, 2).double()
    changed = x.clone()
    changed[0, 0, 1, 0, 1] += 1
    touched = (layer(changed)[0] - layer(x)[0]).abs()[0] > 1e-9
    assert touched[:, 1, 0, 1].all() and touched.sum() == 4


def test_it_cannot_grow_whatever_the_parameters():
    layer = ConvS4Config(num_states=8).build(2)
    for parameter in layer.log_decay, layer.lambda_im, layer.log_step:
        parameter.data = 20 * torch.randn_like(parameter)
    powers, _ = layer.discretise(100)
    assert powers.norm(dim=-1).max() <= 1 + 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_states": 0}, "num_states = 0"),
        ({"step_range": (0.0, 1.0)}, r"step_range = \[0.0, 1.0\]"),
        ({"step_range": (0.1, float("inf"))}, r"step_range = \[0.1, inf\].*up to 1e6"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ConvS4Config(**settings)
