"""The closed form beside the recurrence, values and gradients; merged directions beside flipping and convolving."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from videopred.nn.ssm2d import convolve, kernel, kernel_reference, layer_reference, merge

SIZES = [(6, 6), (3, 7), (7, 2), (1, 5), (4, 1), (1, 1)]
FLIPS = ((), (-2,), (-1,), (-2, -1))


def system(full: bool, slow: float = 0.9) -> list[Tensor]:
    """Three systems of two states, two channels each; moduli of A up to `slow`."""
    kind = torch.complex128 if full else torch.float64
    a, b, c = (torch.randn(shape, dtype=kind) for shape in [(4, 3, 2), (2, 3, 2), (2, 3, 2, 2)])
    a = a / a.abs() * torch.rand(4, 3, 2, dtype=torch.float64) * slow
    return [x.requires_grad_() for x in (a if full else a.abs(), b, c)]


@pytest.mark.parametrize("full", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_closed_form_is_the_recurrence(full, size):
    leaves = [x.detach().requires_grad_() for x in system(full)]
    want = kernel_reference(*leaves, *size)
    got = kernel(*leaves, *size)
    assert got.shape == (3, 2, *size) and not got.is_complex()
    scale = want.abs().max().item()
    torch.testing.assert_close(got, want, rtol=0, atol=1e-7 * scale)
    weight = torch.randn_like(want)
    losses = ((x * weight).sum() for x in (got, want))
    gradients = (torch.autograd.grad(loss, leaves, materialize_grads=True) for loss in losses)  # 1x1 needs no A
    for g, w in zip(*gradients, strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=1e-6 * w.abs().max().item() + 1e-7)


@pytest.mark.parametrize("full, allowed", [(False, 2e-3), (True, 2e-3)], ids=["real", "complex"])
def test_in_float32_it_errs_by_the_tail(full, allowed):
    """Also where states decay so slowly that the kernel would be folded back many times."""
    exact = [x.detach() for x in system(full, slow=0.999)]
    short = [x.to(torch.complex64 if x.is_complex() else torch.float32) for x in exact]
    want, got = kernel_reference(*exact, 9, 12), kernel(*short, 9, 12)
    assert got.dtype == torch.float32
    assert (got - want).abs().max() < allowed * want.abs().max()


def test_edges_are_not_halved_and_the_interior_is():
    """spatial_blocks.md 1.2, by hand for one state."""
    a = torch.tensor([0.5, 0.3, 0.2, 0.7], dtype=torch.float64).view(4, 1, 1)
    b, c = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64).unbind()
    k = kernel(a, b.view(2, 1, 1), c.view(2, 1, 1, 1), 3, 3)[0, 0]
    row, column = 0.5 * 1 + 0.3 * 2, 0.2 * 1 + 0.7 * 2
    assert k[0, 0] == pytest.approx(3 * 1 + 5 * 2)
    assert k[0, 1:].tolist() == pytest.approx([3 * row, 3 * 0.5 * row])
    assert k[1:, 0].tolist() == pytest.approx([5 * column, 5 * 0.7 * column])
    assert k[1, 1] == pytest.approx(3 * 0.3 * column / 2 + 5 * 0.2 * row / 2)


def test_without_coupling_it_is_a_plus():
    a, b, c = (x.detach() for x in system(False))
    a = a * torch.tensor([1.0, 0, 0, 1]).view(4, 1, 1)
    k = kernel(a, b, c, 5, 5)
    assert k[..., 1:, 1:].abs().max() < 1e-7
    want = (c[0] * (a[0] ** 3 * b[0])[:, None]).sum(-1) / 2**0.5
    torch.testing.assert_close(k[..., 0, 3], want, rtol=0, atol=1e-7)


def causal(x: Tensor, k: Tensor) -> Tensor:
    """y[i, j] = sum over m, n of k[m, n] x[i - m, j - n], channel by channel."""
    i, j = k.shape[-2:]
    return functional.conv2d(functional.pad(x, (j - 1, 0, i - 1, 0)), k.flip(-2, -1)[:, None], groups=len(k))


@pytest.mark.parametrize("reach", [(4, 5), (2, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("flips", [FLIPS[:1], (FLIPS[0], FLIPS[3]), FLIPS], ids=len)
def test_merged_directions_are_flips_and_causal_convolutions(reach, flips):
    x, kernels = torch.randn(2, 3, 4, 5).double(), torch.randn(len(flips), 3, *reach).double()
    want = sum(causal(x.flip(f), k).flip(f) for f, k in zip(flips, kernels, strict=True))
    torch.testing.assert_close(convolve(x, merge(kernels, flips, 4, 5)), want)


@pytest.mark.parametrize("flips", [FLIPS[:1], (FLIPS[0], FLIPS[3]), FLIPS], ids=len)
def test_states_that_walk_over_the_frames_give_the_same(flips):
    """Three channels, each with a system of its own."""
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    a = torch.rand(4, len(flips), 3, 2, dtype=torch.float64)
    b, c = (torch.randn(2, len(flips), 3, 2, dtype=torch.float64) for _ in range(2))
    kernels = kernel(a.flatten(1, 2), b.flatten(1, 2), c.flatten(1, 2).unsqueeze(2), 4, 6).unflatten(0, (-1, 3))
    want = layer_reference(x, a, b, c, flips)
    got = convolve(x, merge(kernels.squeeze(2), flips, 4, 6))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-7 * want.abs().max().item())
