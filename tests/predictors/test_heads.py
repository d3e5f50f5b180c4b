"""Heads against their definitions, above all that transport moves pixels where its kernels say."""

import typing

import pytest
import torch

from videopred.predictors.heads import DirectConfig, FlowConfig, Head, TransportConfig

STRIDE, FEATURES = 2, 5


def frame(channels: int = 1) -> torch.Tensor:
    return torch.rand(2, channels, 8, 10) * 2 - 1


def transport(num_kernels: int = 1, radius: int = 3, channels: int = 1):
    """Its kernels are what a test puts in the bias."""
    head = TransportConfig(num_kernels=num_kernels, radius=radius).build(channels, FEATURES, STRIDE)
    torch.nn.init.zeros_(head.kernels.weight)
    return head


def aim(head, right: int, down: int, kernel: int = 0) -> None:
    """All of this kernel's weight on the source from which a shift by (right, down) pixels comes."""
    reach = 2 * head.radius + 1
    logits = head.kernels.bias.data.view(head.num_kernels, reach, reach)
    logits[kernel] = -100
    logits[kernel, head.radius - down, head.radius - right] = 100


def shifted(x: torch.Tensor, right: int, down: int) -> torch.Tensor:
    """Moved by whole pixels, black where nothing comes from."""
    out = torch.full_like(x, -1)
    height, width = x.shape[-2:]
    rows, columns = range(max(0, down), height + min(0, down)), range(max(0, right), width + min(0, right))
    for y in rows:
        for z in columns:
            out[..., y, z] = x[..., y - down, z - right]
    return out


@pytest.mark.parametrize("right, down", [(3, 0), (0, -2), (-1, 3), (0, 0)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_kernel_moves_the_frame_exactly(right, down, channels):
    head, newest = transport(channels=channels), frame(channels)
    aim(head, right, down)
    hidden, painted = torch.randn(2, FEATURES, 4, 5), torch.zeros(2, head.outputs, 8, 10)
    painted[:, 0] = 100  # the kernel's mask
    assert torch.equal(head(hidden, painted, newest), shifted(newest, right, down))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(head(hidden.bfloat16(), painted.bfloat16(), newest), shifted(newest, right, down))


def test_each_cell_moves_by_its_own_kernel():
    """Kernels at the latent cell (i, j) rule the pixels of that cell, and no others."""
    head = transport(radius=1)
    torch.nn.init.zeros_(head.kernels.bias)
    newest, hidden = frame(), torch.zeros(2, FEATURES, 4, 5)
    head.kernels.weight.data[:, 0, 1, 1] = -100.0
    head.kernels.weight.data[1 * 3 + 0, 0, 1, 1] = 100.0  # middle row, left column: a shift to the right by one
    hidden[:, 0, 2, 3] = 1
    moved = head.move(hidden, newest)[:, 0]
    assert torch.equal(moved[..., 4:6, 6:8], shifted(newest, 1, 0)[..., 4:6, 6:8])
    blurred = torch.nn.functional.avg_pool2d(torch.nn.functional.pad(newest, (1,) * 4, value=-1.0), 3, 1)
    outside = torch.ones(8, 10, dtype=torch.bool)
    outside[4:6, 6:8] = False
    torch.testing.assert_close(moved[..., outside], blurred[..., outside])


def test_masks_are_shares_that_sum_to_one():
    """Two kernels and the canvas, mixed as the softmax of the masks says."""
    head, newest = transport(num_kernels=2), frame()
    aim(head, 2, 0, kernel=0)
    aim(head, -1, -1, kernel=1)
    painted, hidden = torch.randn(2, head.outputs, 8, 10), torch.randn(2, FEATURES, 4, 5)
    share = painted[:, :3].exp() / painted[:, :3].exp().sum(1, keepdim=True)
    want = share[:, :1] * shifted(newest, 2, 0) + share[:, 1:2] * shifted(newest, -1, -1)
    want = want + share[:, 2:] * painted[:, 3:].tanh()
    torch.testing.assert_close(head(hidden, painted, newest), want)
    white = transport(num_kernels=2)
    ones = torch.ones(2, 1, 8, 10)
    painted[:, 3:] = 100
    inside = white(hidden, painted, ones)[..., 3:-3, 3:-3]  # away from the black border shares of 1 make 1
    torch.testing.assert_close(inside, torch.ones_like(inside))


def test_direct_paints_the_frame():
    head, painted = DirectConfig().build(3, FEATURES, STRIDE), torch.randn(2, 3, 8, 10) * 3
    assert head.outputs == 3
    assert torch.equal(head(torch.zeros(2, FEATURES, 4, 5), painted, frame(3)), torch.tanh(painted))


@pytest.mark.parametrize("config", typing.get_args(Head), ids=lambda member: member.__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_head_stays_in_range_also_in_bfloat16_and_is_differentiable(config, channels):
    head, newest = config().build(channels, FEATURES, STRIDE), frame(channels)
    hidden, painted = torch.randn(2, FEATURES, 4, 5) * 5, torch.randn(2, head.outputs, 8, 10) * 5
    want = head(hidden, painted, newest)
    assert want.shape == newest.shape and want.abs().max() <= 1
    with torch.autocast("cpu", torch.bfloat16):
        got = head(hidden.bfloat16(), painted.bfloat16(), newest)
    assert got.dtype in (torch.float32, torch.bfloat16)
    assert got.abs().max() <= 1 and (got - want).square().mean().sqrt() < 0.03
    painted = painted[:1, :, :4, :4].double().requires_grad_()
    head, hidden = head.double(), hidden[:1, :, :2, :2].double().requires_grad_()
    torch.autograd.gradcheck(head, (hidden, painted, newest[:1, :, :4, :4].double()), fast_mode=True)


@pytest.mark.parametrize("settings", [{"num_kernels": 0}, {"radius": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match="must be at least 1"):
        TransportConfig(**settings)


def flow(num_flows: int = 1, channels: int = 1, height: int = 8, width: int = 10):
    """A head and what is painted for it: no motion, the first mask open."""
    head = FlowConfig(num_flows=num_flows, reach=4.0).build(channels, FEATURES, STRIDE)
    painted = torch.zeros(2, head.outputs, height, width)
    painted[:, 2 * num_flows] = 100
    return head, painted


@pytest.mark.parametrize("right, down", [(3, 0), (0, -2), (-1, 3), (0, 0)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_flow_reads_the_frame_where_it_points(right, down, channels):
    (head, painted), newest = flow(channels=channels), frame(channels)
    painted[:, 0], painted[:, 1] = -right / head.reach, -down / head.reach
    moved = head(torch.zeros(2, FEATURES, 4, 5), painted, newest)
    inner = (..., slice(3, -3), slice(3, -3))  # nothing comes from beyond the border
    assert torch.allclose(moved[inner], newest.roll((down, right), (-2, -1))[inner], atol=1e-5)


def test_a_flow_between_pixels_is_their_mean_and_the_border_is_repeated():
    (head, painted), newest = flow(), frame()
    painted[:, 0] = 0.5 / head.reach
    moved = head(torch.zeros(2, FEATURES, 4, 5), painted, newest)
    assert torch.allclose(moved[..., :-1], (newest[..., :-1] + newest[..., 1:]) / 2, atol=1e-5)
    assert torch.allclose(moved[..., -1], newest[..., -1], atol=1e-5)


def test_each_flow_has_its_own_field_and_mask():
    (head, painted), newest = flow(num_flows=2), frame()
    painted[:, 0] = -1 / head.reach  # the first moves the frame right, the second leaves it
    painted[:, 4:] = -100
    painted[:, 4, :4] = painted[:, 5, 4:] = 100
    made = head(torch.zeros(2, FEATURES, 4, 5), painted, newest)
    assert torch.allclose(made[:, :, :4, 1:], newest[:, :, :4, :-1], atol=1e-5)
    assert torch.allclose(made[:, :, 4:], newest[:, :, 4:], atol=1e-5)
    painted[:, 4:6], painted[:, 6], painted[:, 7] = -100, 100, 100  # the canvas alone, white
    assert torch.allclose(head(torch.zeros(2, FEATURES, 4, 5), painted, newest), torch.ones_like(newest), atol=1e-5)


def test_a_flow_of_another_reach_is_refused():
    for reach in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="reach"):
            FlowConfig(reach=reach)


def test_a_flow_lets_the_mean_of_frames_through():
    head, newest, mean = FlowConfig(keep_mean=True).build(3, FEATURES, STRIDE), frame(3), frame(3)
    painted = torch.zeros(2, head.outputs, 8, 10)
    painted[:, 2 * head.num_flows + head.num_flows] = 100  # the mask after those of the flows
    assert torch.equal(head(torch.zeros(2, FEATURES, 4, 5), painted, newest, mean), mean)
