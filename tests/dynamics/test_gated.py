"""What holds for the gated state space alone."""

import torch

from videopred.dynamics.convs5 import ConvS5Config
from videopred.dynamics.gated import GatedConfig


def test_steps_that_do_not_look_at_the_input_make_it_convs5():
    gated, plain = GatedConfig(num_states=8).build(6).double(), ConvS5Config(num_states=8).build(6).double()
    for name in "lambda_im", "b", "c":
        getattr(plain, name).data.copy_(getattr(gated, name).data)
    gated.step.weight.data.zero_()
    plain.log_step.data.copy_(torch.nn.functional.softplus(gated.step.bias.data).log())
    plain.lambda_re.data.copy_(-1e-4 - gated.log_decay.data.exp())
    x, state = torch.randn(2, 5, 6, 3, 4).double(), torch.randn(2, 3, 4, 4, 2).double()
    torch.testing.assert_close(gated(x, state), plain(x, state), rtol=0, atol=1e-12)


def test_it_starts_from_hippo_and_steps_of_its_range():
    layer = GatedConfig(num_states=16, step_range=(0.01, 0.02)).build(4)
    steps = torch.nn.functional.softplus(layer.step.bias)
    assert steps.min() > 0.0099 and steps.max() < 0.0201
    torch.testing.assert_close(-1e-4 - layer.log_decay.exp(), torch.full((8,), -0.5))


def test_steps_may_be_as_long_as_convs5s():
    """Their inverse softplus must not overflow."""
    layer = GatedConfig(num_states=64, step_range=(200.0, 1e6)).build(4)
    steps = torch.nn.functional.softplus(layer.step.bias)
    assert steps.min() >= 199 and steps.max() <= 1.01e6
    assert layer(torch.randn(1, 3, 4, 2, 2))[0].isfinite().all()


def test_it_cannot_grow_after_a_step_that_wants_it_to():
    """Long steps of gradient ascent on |A|, then inputs of any size."""
    layer = GatedConfig(num_states=8).build(3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e6, maximize=True)
    for _ in range(3):
        optimizer.zero_grad()
        a, _ = layer.discretise(torch.randn(1, 4, 3, 2, 2))
        a.square().sum().backward()
        optimizer.step()
    for size in 0, 1, 1e3:
        x = size * torch.randn(2, 200, 3, 2, 2)
        a, factor = layer.discretise(x)
        assert a.norm(dim=-1).max() <= 1 + 1e-6 and factor.isfinite().all()
        y, state = layer(x)
        assert y.isfinite().all() and state.isfinite().all()


def test_a_pixel_with_short_steps_remembers_and_one_with_long_steps_forgets():
    layer = GatedConfig(num_states=8).build(1).double()
    layer.step.weight.data.fill_(1.0)
    layer.step.bias.data.zero_()
    x, state = torch.zeros(1, 3, 1, 1, 2).double(), torch.randn(1, 1, 2, 4, 2).double()
    x[..., 0], x[..., 1] = -40, 40
    layer.b.data.zero_()
    _, last = layer(x, state)
    torch.testing.assert_close(last[:, :, 0], state[:, :, 0], rtol=0, atol=1e-12)
    assert last[:, :, 1].abs().max() < 1e-20
