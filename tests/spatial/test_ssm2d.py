"""The layer around the kernel: how far it sees, when its spectrum is computed, how it learns, what it refuses."""

import pytest
import torch
from torch import nn

from videopred.nn.recall import sharing
from videopred.spatial import ssm2d
from videopred.spatial.convnext import ConvNeXtConfig
from videopred.spatial.ssm2d import SSM2D, SSM2DConfig, SSM2DMixerConfig
from videopred.training.optimizer import OptimizerConfig

WIDTH = 4


@pytest.fixture
def computed(monkeypatch):
    """One entry for each kernel that was computed: its height and width."""
    sizes, real = [], ssm2d.kernel
    monkeypatch.setattr(ssm2d, "kernel", lambda a, b, c, h, w: [sizes.append((h, w)), real(a, b, c, h, w)][1])
    return sizes


def mixer(**settings) -> nn.Module:
    return SSM2DMixerConfig(num_states=3, **settings).build(WIDTH).double()


def seen(module: nn.Module) -> torch.Tensor:
    """Which pixels of a 7x9 frame change when pixel (3, 4) does."""
    x = torch.randn(1, WIDTH, 7, 9, dtype=torch.float64)
    other = x.clone()
    other[..., 3, 4] += 1
    return (module(x) - module(other)).abs().amax((0, 1)) > 1e-7


def area(rows: slice, columns: slice) -> torch.Tensor:
    out = torch.zeros(7, 9, dtype=torch.bool)
    out[rows, columns] = True
    return out


@pytest.mark.parametrize("numbers", ["real", "complex"])
def test_directions_and_reach_decide_which_pixels_see_a_pixel(numbers):
    def sees(**settings):
        return seen(mixer(numbers=numbers, **settings))

    everywhere, here = slice(None), slice(3, 4)
    assert torch.equal(sees(directions=1), area(slice(3, None), slice(4, None)))
    assert torch.equal(sees(directions=2), area(slice(3, None), slice(4, None)) | area(slice(4), slice(5)))
    assert torch.equal(sees(directions=4), area(everywhere, everywhere))
    assert torch.equal(sees(directions=4, kernel_size=2), area(slice(2, 5), slice(3, 6)))
    assert torch.equal(sees(kernel_size=1), area(here, slice(4, 5)))
    assert torch.equal(sees(coupling="none"), area(here, everywhere) | area(everywhere, slice(4, 5)))
    assert torch.equal(sees(coupling="one_way"), area(everywhere, everywhere))


def test_one_way_is_full_with_a3_zero(monkeypatch):
    """And so the kernel of each state's interior is a product of a row and a column."""
    layer = mixer(coupling="one_way", directions=1, num_systems=1)
    a, _, _ = layer.constrained()
    assert layer.a.shape[0] == 3 and a[2].abs().max() == 0 and a[[0, 1, 3]].min() > 0
    with torch.no_grad():
        layer.c[1], layer.c[0, ..., 1:] = 0, 0  # only x_h of the first state is read
    interior = layer.kernels(5, 5)[0, 0, 1:, 1:]
    second = torch.linalg.svdvals(interior)[1]
    assert second < 1e-7 < interior.abs().max()


def test_a_kernel_does_not_depend_on_the_size_of_the_frame():
    layer = mixer()
    torch.testing.assert_close(layer.kernels(9, 5)[..., :4, :5], layer.kernels(4, 7)[..., :5], rtol=0, atol=1e-7)


def test_d_is_added():
    layer, x = mixer(), torch.randn(2, WIDTH, 3, 4, dtype=torch.float64)
    with_d = layer(x)
    with torch.no_grad():
        d = layer.d.clone()
        layer.d.zero_()
    torch.testing.assert_close(with_d, layer(x) + d.view(1, -1, 1, 1) * x)


@torch.no_grad()
def test_in_evaluation_one_kernel_serves_every_frame_until_weights_change(computed):
    block, frame = ConvNeXtConfig(mixer=SSM2DMixerConfig(num_states=2)).build(WIDTH).eval(), torch.randn(1, WIDTH, 4, 6)
    first = block(frame)
    for _ in range(5):
        assert torch.equal(block(frame), first)
    assert computed == [(4, 6)]
    for p in (block.mixer.a, block.mixer.b, block.mixer.c):
        p.mul_(2)
        assert not torch.equal(block(frame), first)
    assert len(computed) == 4
    other = ConvNeXtConfig(mixer=SSM2DMixerConfig(num_states=2)).build(WIDTH).eval()
    block.load_state_dict(other.state_dict())
    assert torch.equal(block(frame), other(frame))
    count = len(computed)
    block.train(), block.eval(), block.requires_grad_(False)
    block(torch.randn(2, WIDTH, 3, 3))
    assert computed[count:] == [(3, 3)]


def test_in_training_the_kernel_is_computed_once_a_step_however_many_frames(computed):
    block, optimiser_steps = SSM2DConfig(num_states=2).build(WIDTH), 3
    optimiser = torch.optim.SGD(block.parameters(), lr=0.1)
    x, losses = torch.randn(2, WIDTH, 4, 4), []
    for step in range(optimiser_steps):
        y = x
        with sharing():
            for _ in range(4):  # a rollout with the gradient through it all
                y = block(y)
        assert len(computed) == step + 1
        losses.append(y.square().mean())
        optimiser.zero_grad()
        losses[-1].backward()
        assert all(p.grad.abs().max() > 0 for p in block.parameters())
        optimiser.step()
    assert len({loss.item() for loss in losses}) == optimiser_steps


def test_bfloat16_keeps_the_kernel_in_float32(computed):
    layer, x = SSM2DMixerConfig().build(WIDTH), torch.randn(2, WIDTH, 8, 8)
    want = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        got = layer(x.bfloat16())
    assert got.dtype == torch.bfloat16 and layer.kernels(8, 8).dtype == torch.float32
    torch.testing.assert_close(got.float(), want, rtol=0.02, atol=0.02 * want.abs().max().item())


@pytest.mark.parametrize("numbers, factor", [("real", 1.0), ("complex", 0.1)])
def test_the_optimiser_neither_decays_nor_hurries_it(numbers, factor):
    block = ConvNeXtConfig(mixer=SSM2DMixerConfig(numbers=numbers)).build(WIDTH)
    groups = OptimizerConfig(weight_decay=0.5).build(block).param_groups
    found = {id(p): (group["weight_decay"], group["factor"]) for group in groups for p in group["params"]}
    mixer = block.mixer
    assert {found[id(p)] for p in (mixer.a, mixer.b, mixer.c)} == {(0.0, factor)}
    assert found[id(mixer.d)] == found[id(block.gamma)] == (0.0, 1.0)
    assert found[id(block.expand.weight)] == (0.5, 1.0)


def test_complex_systems_begin_no_larger_than_real_ones():
    """Energy of the kernels: the paper's own initialisation would make them ten times larger."""
    layers = (SSM2D(64, SSM2DMixerConfig(numbers=numbers)) for numbers in ("real", "complex"))
    real, complex = (layer.kernels(16, 16).square().sum() for layer in layers)
    assert complex < real


def test_systems_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="width 4 cannot be shared by num_systems = 3; choose a divisor of 4"):
        SSM2DConfig(num_systems=3).build(WIDTH)
    with pytest.raises(ValueError, match="num_states = 0: must be at least 1"):
        SSM2DConfig(num_states=0)


@pytest.mark.parametrize("numbers", ["real", "complex"])
def test_compiles_without_a_graph_break(numbers):
    block, x = SSM2DConfig(num_states=2, numbers=numbers).build(WIDTH), torch.randn(2, WIDTH, 3, 5)
    compiled = torch.compile(block, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), block(x))
