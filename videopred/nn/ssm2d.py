"""Two-dimensional state spaces: a kernel over a whole frame from a few numbers, in closed form.

Baron et al., "A 2-Dimensional State Space Layer for Spatial Inductive Bias" (ICLR 2024). An impulse at (0, 0) drives a
horizontal and a vertical state (Roesser's model), which move right and down and feed each other:

    x_h[i, j] = (A1 x_h[i, j-1] + A2 x_v[i, j-1]) / 2  + B1 u[i, j]
    x_v[i, j] = (A3 x_h[i-1, j] + A4 x_v[i-1, j]) / 2  + B2 u[i, j]
    k[i, j]   = N^(-1/2) sum over N states of C1 x_h + C2 x_v

without the halving where one of two predecessors is always zero: along the first row and the first column.

The paper expands powers of A symbolically, in time and memory O(side^3). But the sum over i and j of x[i, j] w1^i w2^j
is a rational function of w1 and w2. At the roots of unity it is the kernel's Fourier transform, but for what lies
beyond twice the kernel's size: there the kernel goes on, and is folded back. Hence the roots are shrunk, so that what
is folded back is `TAIL` of what it was, and the shrinking is taken out again afterwards.

    a (4, k, n)    A1..A4 of k systems with n states each, real or complex, of modulus below 1
    b (2, k, n)    B1, B2
    c (2, k, g, n) C1, C2 of the g channels of each system
"""

import torch
from torch import Tensor
from torch.fft import ifft2, irfft2, rfft2
from torch.nn import functional

# Rounding grows as the tail shrinks; the square root of the rounding error makes the sum of both least.
TAIL = {torch.float32: 1e-3, torch.float64: 1e-8}
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def kernel(a: Tensor, b: Tensor, c: Tensor, height: int, width: int) -> Tensor:
    """The impulse response, (k, g, height, width), real (of complex systems the real part); differentiable."""
    real, full = a.real.dtype, a.is_complex()
    w1 = _points(height, 2 * height, real, a.device)[:, None]
    w2 = _points(width, 2 * width if full else width + 1, real, a.device)
    states = torch.cat(_transforms(a, b, w1, w2), 1)  # k 2n p r
    c = torch.cat(c.unbind(0), -1) * a.shape[-1] ** -0.5  # k g 2n
    if full:
        spectrum = torch.matmul(c, states.flatten(2)).unflatten(-1, states.shape[2:])
        out = ifft2(spectrum).real
    else:
        pairs = torch.view_as_real(states)
        spectrum = torch.view_as_complex(torch.matmul(c, pairs.flatten(2)).unflatten(-1, pairs.shape[2:]))
        out = irfft2(spectrum, s=(2 * height, 2 * width))
    grown = [_shrinking(side, real) ** -torch.arange(side, dtype=real, device=a.device) for side in (height, width)]
    return out[..., :height, :width] * (grown[0][:, None] * grown[1])


def impulse_response(a: Tensor, b: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """x_h and x_v, (height, width, k, n), by the recurrence, with halving wherever there are two predecessors; slow."""
    (a1, a2, a3, a4), (b1, b2) = a, b
    zero = torch.zeros_like(a1)
    h: dict[tuple[int, int], Tensor] = {}
    v: dict[tuple[int, int], Tensor] = {}
    for i in range(height):
        for j in range(width):
            left, above = (i, j - 1), (i - 1, j)
            h[i, j] = a1 * h.get(left, zero) + a2 * v.get(left, zero)
            v[i, j] = a3 * h.get(above, zero) + a4 * v.get(above, zero)
            if (i == 0 and j == 1) or (i >= 1 and j >= 2):
                h[i, j] = h[i, j] / 2
            if (j == 0 and i == 1) or (j >= 1 and i >= 2):
                v[i, j] = v[i, j] / 2
            if i == j == 0:
                h[i, j], v[i, j] = b1, b2
    stacked = (torch.stack([x[i, j] for i in range(height) for j in range(width)]) for x in (h, v))
    x_h, x_v = (x.unflatten(0, (height, width)) for x in stacked)
    return x_h, x_v


def kernel_reference(a: Tensor, b: Tensor, c: Tensor, height: int, width: int) -> Tensor:
    """`kernel` from the recurrence itself. For tests and benchmarks."""
    states = torch.cat(impulse_response(a, b, height, width), -1)  # i j k 2n
    out = torch.einsum("kgn,ijkn->kgij", torch.cat(c.unbind(0), -1), states) * a.shape[-1] ** -0.5
    edge = torch.ones(height, width, dtype=out.real.dtype, device=out.device)
    edge[0], edge[:, 0] = 2, 2
    edge[0, 0] = 1
    return (out * edge).real if out.is_complex() else out * edge


def merge(kernels: Tensor, flips: tuple[tuple[int, ...], ...], height: int, width: int) -> Tensor:
    """One spectrum (channels, 2 height, width + 1) of all directions' kernels (directions, channels, i, j).

    Kernel d, flipped along `flips[d]` (of -2 and -1), reaches from a pixel back along the axes that are flipped.
    Convolving with it equals flipping the frame, convolving causally and flipping back; directions are summed.
    """
    i, j = kernels.shape[-2:]
    padded = functional.pad(kernels, (0, 2 * width - j, 0, 2 * height - i))
    turned = [k.flip(flip).roll((1,) * len(flip), flip) if flip else k for k, flip in zip(padded, flips, strict=True)]
    return rfft2(torch.stack(turned).sum(0))


def convolve(x: Tensor, spectrum: Tensor) -> Tensor:
    """Frames (n, channels, h, w) with the kernels of a spectrum (channels, 2 h, w + 1); outside of a frame is zero."""
    height, width = x.shape[-2:]
    size = (2 * height, 2 * width)
    return irfft2(rfft2(x, s=size) * spectrum, s=size)[..., :height, :width]


def _transforms(a: Tensor, b: Tensor, w1: Tensor, w2: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of x_h and x_v times w1^i w2^j, each (k, n, p, r): the first row, the first column and what they drive."""
    (a1, a2, a3, a4), (b1, b2) = a[..., None, None], b[..., None, None]
    row = (a1 * b1 + a2 * b2) * w2 / (1 - a1 * w2)  # x_h where i = 0 and j >= 1
    column = (a3 * b1 + a4 * b2) * w1 / (1 - a4 * w1)  # x_v where j = 0 and i >= 1
    into_h, into_v = a2 * w2 * column / 2, a3 * w1 * row / 2  # what the edges drive in the interior
    p, q = 1 - a1 * w2 / 2, 1 - a4 * w1 / 2
    determinant = p * q - a2 * a3 * (w1 * w2) / 4
    x_h = (q * into_h + a2 / 2 * w2 * into_v) / determinant + row + b1
    x_v = (p * into_v + a3 / 2 * w1 * into_h) / determinant + column + b2
    return x_h, x_v


def _points(side: int, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The first `count` of the 2 side roots of unity, clockwise from 1, shrunk."""
    angle = -torch.pi / side * torch.arange(count, dtype=torch.float64, device=device)
    return torch.polar(torch.full_like(angle, _shrinking(side, dtype)), angle).to(COMPLEX[dtype])


def _shrinking(side: int, dtype: torch.dtype) -> float:
    return TAIL[dtype] ** (1 / (2 * side))
