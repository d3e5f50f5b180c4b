"""HiPPO-N and the zero-order hold against their definitions."""

import pytest
import torch

from videopred.nn.ssm import (
    discretise,
    divide,
    hippo_eigen,
    hippo_normal,
    multiply,
    random_eigen,
    random_log_step,
)


@pytest.mark.parametrize("num_states, num_blocks", [(512, 1), (512, 8), (2, 1), (6, 3)])
def test_eigenvalues_have_real_part_minus_one_half_and_vectors_are_orthonormal(num_states, num_blocks):
    eigenvalues, vectors = hippo_eigen(num_states, num_blocks)
    assert torch.equal(eigenvalues.real, torch.full((num_states // 2,), -0.5, dtype=torch.float64))
    assert (eigenvalues.imag < 0).all()
    kept = torch.eye(num_states // 2, dtype=torch.complex128)
    torch.testing.assert_close(vectors.mH @ vectors, kept, rtol=0, atol=1e-12)


def test_eigenvectors_belong_to_their_eigenvalues_and_restore_the_matrix():
    normal = hippo_normal(16)
    eigenvalues, vectors = hippo_eigen(16)
    torch.testing.assert_close(normal.to(vectors.dtype) @ vectors, vectors * eigenvalues, rtol=0, atol=1e-12)
    half = vectors @ torch.diag(eigenvalues) @ vectors.mH
    torch.testing.assert_close(2 * half.real, normal, rtol=0, atol=1e-12)  # the other half is the conjugate


def test_blocks_repeat_one_block():
    one, _ = hippo_eigen(8)
    eigenvalues, vectors = hippo_eigen(24, 3)
    torch.testing.assert_close(eigenvalues, one.repeat(3))
    blocks = torch.block_diag(*[torch.ones(8, 4)] * 3)
    assert (vectors[blocks == 0] == 0).all() and vectors.shape == blocks.shape


def test_normal_part_is_minus_one_half_plus_skew():
    normal = hippo_normal(32)
    torch.testing.assert_close(normal + normal.T, -torch.eye(32, dtype=torch.float64), rtol=0, atol=1e-12)
    assert normal[1, 0].item() == pytest.approx(3**0.5 / 2 - 3**0.5)  # sqrt(3/2) sqrt(1/2) - sqrt(3) sqrt(1)


@pytest.mark.parametrize("eigen", [hippo_eigen, random_eigen])
@pytest.mark.parametrize("num_states, num_blocks", [(6, 2), (7, 1), (8, 3), (10, 4)])
def test_odd_blocks_are_refused(num_states, num_blocks, eigen):
    with pytest.raises(ValueError, match=rf"{num_states} in num_blocks = {num_blocks}.*multiple of {2 * num_blocks}"):
        eigen(num_states, num_blocks)


def test_random_eigenvalues_are_stable_normal_numbers_with_orthonormal_vectors_in_blocks():
    eigenvalues, vectors = random_eigen(1000, 100)
    assert (eigenvalues.real < 0).all() and len(eigenvalues.imag.unique()) == 500
    assert eigenvalues.real.square().mean().item() == pytest.approx(1, rel=0.2)
    assert eigenvalues.imag.mean().abs() < 0.2 and eigenvalues.imag.std().item() == pytest.approx(1, rel=0.2)
    torch.testing.assert_close(vectors.mH @ vectors, torch.eye(500).to(vectors.dtype), rtol=0, atol=1e-12)
    assert (vectors[torch.block_diag(*[torch.ones(10, 5)] * 100) == 0] == 0).all()


def test_zero_order_hold_is_the_closed_form():
    re, im, log_step = (x.double() for x in (-torch.rand(9) - 0.01, torch.randn(9) * 20, torch.randn(9) - 3))
    eigenvalues = torch.complex(re, im)
    want = torch.exp(eigenvalues * log_step.exp())
    a, factor = discretise(re, im, log_step.exp())
    torch.testing.assert_close(torch.view_as_complex(a), want, rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.view_as_complex(factor), (want - 1) / eigenvalues, rtol=1e-12, atol=0)
    steps = torch.stack([log_step.exp(), torch.rand(9).double()])  # one set of steps for each of two pixels
    for one, both in zip(discretise(re, im, steps[1]), discretise(re, im, steps), strict=True):
        assert torch.equal(both[1], one)


def test_zero_order_hold_solves_the_differential_equation():
    """x' = lambda x + u with u held over one step, in 20,000 small Euler steps."""
    re, im, log_step = (torch.tensor([v], dtype=torch.float64) for v in (-0.5, 3.0, -1.5))
    a, factor = (torch.view_as_complex(x).item() for x in discretise(re, im, log_step.exp()))
    x, u, steps = 0.3 - 0.2j, 1.7, 20_000
    want = a * x + factor * u
    for _ in range(steps):
        x = x + (complex(re, im) * x + u) * log_step.exp().item() / steps
    assert abs(x - want) < 1e-4


def test_steps_are_log_uniform():
    steps = random_log_step(20_000, 0.001, 0.1).exp()
    assert steps.min() >= 0.001 and steps.max() <= 0.1
    for share in 0.25, 0.5, 0.75:
        assert steps.quantile(share).item() == pytest.approx(0.001 * 100**share, rel=0.05)


def test_arithmetic_of_pairs():
    x, y = torch.randn(2, 50, 2, dtype=torch.float64)
    cx, cy = torch.view_as_complex(x), torch.view_as_complex(y)
    torch.testing.assert_close(torch.view_as_complex(multiply(x, y)), cx * cy)
    torch.testing.assert_close(torch.view_as_complex(divide(x, y)), cx / cy)


def test_a_small_step_costs_no_accuracy():
    """(A_bar - 1) / Lambda in float32, where A_bar - 1 would cancel."""

    def factor(dtype: torch.dtype) -> torch.Tensor:
        re, im, log_step = torch.tensor([[-1e-3, -0.5], [-0.3, -2.0], [-7.0, -7.0]], dtype=dtype)
        return discretise(re, im, log_step.exp())[1]

    torch.testing.assert_close(factor(torch.float32).double(), factor(torch.float64), rtol=1e-6, atol=1e-9)
