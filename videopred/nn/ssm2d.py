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
from torch.fft import fft, ifft, ifft2, irfft, irfft2, rfft, rfft2
from torch.nn import functional

# Rounding grows as the tail shrinks; the square root of the rounding error makes the sum of both least.
TAIL = {torch.float32: 1e-3, torch.float64: 1e-8}
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def kernel(a: Tensor, b: Tensor, c: Tensor, height: int, width: int) -> Tensor:
    """The impulse response, (k, g, height, width), real (of complex systems the real part); differentiable."""
    real, full = a.real.dtype, a.is_complex()
    w1 = _points(height, 2 * height, real, a.device)[:, None]
    w2 = _points(width, 2 * width if full else width + 1, real, a.device)
    spectrum = _spectrum(a, b, c * a.shape[-1] ** -0.5, w1, w2)
    out = ifft2(spectrum).real if full else irfft2(spectrum, s=(2 * height, 2 * width))
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


def layer_reference(x: Tensor, a: Tensor, b: Tensor, c: Tensor, flips: tuple[tuple[int, ...], ...]) -> Tensor:
    """`convolve` with the merged kernels, as states that walk over the frames; real systems only. For the same uses.

    x (n, channels, h, w); a (4, directions, channels, n), b and c (2, directions, channels, n).
    """
    outputs = []
    for (a1, a2, a3, a4), (b1, b2), (c1, c2), flip in zip(a.unbind(1), b.unbind(1), c.unbind(1), flips, strict=True):
        u, zero = x.flip(flip).unsqueeze(-1), torch.zeros_like(x[..., 0, 0, None] * a1)
        at = [
            [[zero] * 4 for _ in range(x.shape[-1] + 1)] for _ in range(x.shape[-2] + 1)
        ]  # one row, one column before
        rows = []
        for i in range(x.shape[-2]):
            row = []
            for j in range(x.shape[-1]):
                here, left, above = u[..., i, j, :], at[i + 1][j], at[i][j + 1]
                edge_h = a1 * left[0] + ((a1 * b1 + a2 * b2) * u[..., i, j - 1, :] if j else 0)
                edge_v = a4 * above[1] + ((a3 * b1 + a4 * b2) * u[..., i - 1, j, :] if i else 0)
                h = (a1 * left[2] + a2 * (left[3] + left[1])) / 2
                v = (a3 * (above[2] + above[0]) + a4 * above[3]) / 2
                at[i + 1][j + 1] = [edge_h, edge_v, h, v]
                row.append((c1 * (h + edge_h + b1 * here) + c2 * (v + edge_v + b2 * here)).sum(-1))
            rows.append(torch.stack(row, -1))
        outputs.append(torch.stack(rows, -2).flip(flip))
    return torch.stack(outputs).sum(0) * a.shape[-1] ** -0.5


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
    """Frames (n, channels, h, w) with the kernels of a spectrum (channels, 2 h, w + 1); outside of a frame is zero.

    The rows that pad a frame, and those of the result that are cut off, are spared one of the two transforms.
    """
    height, width = x.shape[-2:]
    product = fft(rfft(x, 2 * width), 2 * height, dim=-2) * spectrum
    return irfft(ifft(product, dim=-2)[..., :height, :], 2 * width)[..., :width]


def _spectrum(a: Tensor, b: Tensor, c: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """C1 X_h + C2 X_v, (k, g, p, r), where X is the sum of x[i, j] w1^i w2^j.

    The first row of x_h and the first column of x_v are geometric series. For the interior the recurrence gives two
    equations in X_h and X_v; solved, with the edges added, and with as few operations as can be on arrays of all p and
    r. (Complex division is many times slower than multiplying by a reciprocal.)
    """
    (a1, a2, a3, a4), (b1, b2), (c1, c2) = a[..., None, None], b[..., None, None], c
    row = (a1 * b1 + a2 * b2) * w2 * (1 - a1 * w2).reciprocal()  # k n 1 r: x_h where i = 0 and j >= 1
    column = (a3 * b1 + a4 * b2) * w1 * (1 - a4 * w1).reciprocal()  # k n p 1: x_v where j = 0 and i >= 1
    across, down = 1 - a1 * w2 / 2, a3 * w1 / 2 * (1 - a4 * w1 / 2).reciprocal()
    up = a2 * w2 / 2
    x_h = torch.addcmul(across * row, up, column) * torch.addcmul(across, up, down, value=-1).reciprocal()
    edges = _read(c2, column) + _read(c1, b1) + _read(c2, b2)
    return _read(c1, x_h) + _read(c2, down * x_h) + edges


def _read(c: Tensor, x: Tensor) -> Tensor:
    """c (k, g, n) times x (k, n, ...), summed over n: (k, g, ...)."""
    if c.is_complex() or not x.is_complex():
        return torch.matmul(c, x.flatten(2)).unflatten(-1, x.shape[2:])
    pairs = torch.view_as_real(x)
    return torch.view_as_complex(torch.matmul(c, pairs.flatten(2)).unflatten(-1, pairs.shape[2:]))


def _points(side: int, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The first `count` of the 2 side roots of unity, clockwise from 1, shrunk."""
    angle = -torch.pi / side * torch.arange(count, dtype=torch.float64, device=device)
    return torch.polar(torch.full_like(angle, _shrinking(side, dtype)), angle).to(COMPLEX[dtype])


def _shrinking(side: int, dtype: torch.dtype) -> float:
    return TAIL[dtype] ** (1 / (2 * side))
