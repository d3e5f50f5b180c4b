"""Diagonal state spaces: HiPPO-N initialisation and zero-order-hold discretisation.

Smith et al., "Simplified State Space Layers for Sequence Modeling" (S5, ICLR 2023) and "Convolutional State Space
Models for Long-Range Spatiotemporal Modeling" (ConvS5, NeurIPS 2023). Complex numbers are real pairs, last axis 2.

    paper     here
    N, P      num_states, num_states // 2: of each conjugate pair only one is kept
    Lambda    continuous eigenvalues, lambda_re + i lambda_im
    Delta     step, one step size per kept state
    A_bar     exp(Lambda Delta)
    B_bar     (A_bar - 1) / Lambda  B
"""

import math

import torch
from torch import Tensor


def hippo_normal(size: int) -> Tensor:
    """The normal part of HiPPO-LegS, (size, size) float64: -1/2 I plus a skew-symmetric matrix."""
    i = torch.arange(size, dtype=torch.float64)
    root = torch.sqrt(1 + 2 * i)
    low_rank = torch.sqrt(i + 0.5)
    return torch.diag(i) - torch.outer(root, root).tril() + torch.outer(low_rank, low_rank)


def hippo_eigen(num_states: int, num_blocks: int = 1) -> tuple[Tensor, Tensor]:
    """Eigenvalues (P,) and eigenvectors V (N, P), complex128, of `num_blocks` HiPPO-N blocks; Vinv is V^H.

    Only the half with negative imaginary part is kept, ascending. Only the skew part is decomposed, so that the real
    parts are exactly -1/2. The phase of each eigenvector is arbitrary. Raises ValueError for blocks of odd size.
    """
    size = block_size(num_states, num_blocks)
    skew = hippo_normal(size)
    skew = skew - torch.diag(skew.diagonal())  # which is -1/2, up to rounding
    imag, vectors = torch.linalg.eigh(-1j * skew)
    kept, vectors = imag[: size // 2], vectors[:, : size // 2]
    eigenvalues = torch.complex(torch.full_like(kept, -0.5), kept).tile(num_blocks)
    return eigenvalues, torch.block_diag(*[vectors] * num_blocks)


def random_eigen(num_states: int, num_blocks: int = 1) -> tuple[Tensor, Tensor]:
    """As `hippo_eigen`, but drawn: eigenvalues -|n| + i n' with normal n, n'; orthonormal V at random in each block."""
    size = block_size(num_states, num_blocks)
    real, imag = torch.randn(2, num_states // 2, dtype=torch.float64)
    eigenvalues = torch.complex(-real.abs(), imag)
    vectors = [torch.linalg.qr(torch.randn(size, size // 2, dtype=torch.complex128)).Q for _ in range(num_blocks)]
    return eigenvalues, torch.block_diag(*vectors)


def block_size(num_states: int, num_blocks: int = 1) -> int:
    """States of one block. Raises ValueError unless it is even and whole."""
    size, rest = divmod(num_states, num_blocks)
    if rest or size % 2:
        raise ValueError(
            f"num_states = {num_states} in num_blocks = {num_blocks}: each block must have an even whole size, "
            f"because states come in conjugate pairs; choose num_states as a multiple of {2 * num_blocks}"
        )
    return size


def check_step_range(step_range: tuple[float, float]) -> None:
    """Raises ValueError unless steps can be drawn from it."""
    low, high = step_range
    if not 0 < low <= high <= 1e6:
        raise ValueError(
            f"step_range = {list(step_range)}: must be two positive numbers up to 1e6, the lower one first"
        )


def random_log_step(num: int, low: float = 0.001, high: float = 0.1) -> Tensor:
    """log of step sizes drawn log-uniformly from [low, high], (num,)."""
    return torch.empty(num).uniform_(math.log(low), math.log(high))


def discretise(lambda_re: Tensor, lambda_im: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Zero-order hold: A_bar and the factor (A_bar - 1) / Lambda that turns B into B_bar.

    Eigenvalues (p,), step (..., p) -> (..., p, 2) each, broadcast: a step may differ between clips, times and pixels.
    """
    growth, angle = lambda_re * step, lambda_im * step
    real, imag = torch.exp(growth) * torch.cos(angle), torch.exp(growth) * torch.sin(angle)
    # e^x cos y - 1 without the cancellation that a small step brings
    less_one = torch.expm1(growth) * torch.cos(angle) - 2 * torch.sin(angle / 2) ** 2
    factor = divide(torch.stack([less_one, imag], -1), torch.stack([lambda_re, lambda_im], -1))
    return torch.stack([real, imag], -1), factor


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """Product of complex numbers kept as pairs, (..., 2) each."""
    (a, b), (c, d) = x.unbind(-1), y.unbind(-1)
    return torch.stack([a * c - b * d, a * d + b * c], -1)


def divide(x: Tensor, y: Tensor) -> Tensor:
    """Quotient of complex numbers kept as pairs, (..., 2) each."""
    (a, b), (c, d) = x.unbind(-1), y.unbind(-1)
    return torch.stack([a * c + b * d, b * c - a * d], -1) / (c * c + d * d).unsqueeze(-1)
