"""The recurrence of `scan` for GPUs: a thread walks its lanes through time, every element read and written once.

A lane is one complex number of the state of one clip; lanes lie next to each other in memory, so that what a warp reads
is contiguous. The state stays in registers, in the precision of `initial`; other arrays may be shorter (bfloat16). Four
steps are read before the first of them is used: a walk alone would wait for memory at every step.

    forward     x_t = a_t x_{t-1} + b_t
    backward    g_t = y_t + c_{t+1},  c_t = conj(a_t) g_t,  da_t = conj(x_{t-1}) g_t;   dx_0 = c_1

`a` shared by all lanes of a state is read once and takes no memory of length t. Imported only where it is used, for
Triton is not everywhere. With TRITON_INTERPRET=1 in the environment all this runs on CPU tensors.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # lanes of a program of one warp: two to a thread, which reads 16 bytes of float32 at once


def forward(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """As `scan`; all three contiguous. The states have the precision of `initial`."""
    x = torch.empty_like(b, dtype=initial.dtype)
    with torch.cuda.device_of(b):
        _forward[_grid(b, initial)](a, b, initial, x, *_sizes(a, b, initial), **_launch(a.dim() == b.dim()))
    return x


def backward(grad: Tensor, a: Tensor, x: Tensor, initial: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, b (in `dtype`) and initial, from that of the states x."""
    varying = a.dim() == x.dim()
    grad_a, grad_initial = torch.empty_like(a if varying else initial), torch.empty_like(initial)
    grad_b = torch.empty_like(grad, dtype=dtype)
    with torch.cuda.device_of(grad):
        _backward[_grid(x, initial)](
            grad, a, x, initial, grad_a, grad_b, grad_initial, *_sizes(a, x, initial), **_launch(varying)
        )
    return (grad_a if varying else grad_a.flatten(0, -3).sum(0)), grad_b, grad_initial


def _launch(varying: bool) -> dict[str, Any]:
    """What a kernel is compiled for."""
    return {"VARYING": varying, "BLOCK": BLOCK, "num_warps": 1}


def _grid(b: Tensor, initial: Tensor) -> tuple[int, int]:
    return triton.cdiv(initial[0].numel() // 2, BLOCK), len(b)


def _sizes(a: Tensor, b: Tensor, initial: Tensor) -> tuple[int, int, int]:
    """Steps, lanes of a clip, states that lanes go through by turns."""
    return b.shape[1], initial[0].numel() // 2, a.shape[-2]


@triton.jit
def _pairs(pointer, index, inside):
    """Real and imaginary parts of the complex numbers at `index`; 0 where there is nothing."""
    both = 2 * index[:, None] + tl.arange(0, 2)[None, :]
    return tl.split(tl.load(pointer + both, mask=inside[:, None], other=0))


@triton.jit
def _put(pointer, index, real, imaginary, inside):
    both = 2 * index[:, None] + tl.arange(0, 2)[None, :]
    tl.store(pointer + both, tl.join(real, imaginary), mask=inside[:, None])


@triton.jit
def _onward(ar, ai, br, bi, xr, xi, pointer, index, inside):
    """One step forward: the next state, which is also written."""
    xr, xi = ar * xr - ai * xi + br, ar * xi + ai * xr + bi
    _put(pointer, index, xr, xi, inside)
    return xr, xi


@triton.jit(do_not_specialize=["steps"])
def _forward(a, b, initial, x, steps, lanes, states, VARYING: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, clip = lane < lanes, tl.program_id(1).to(tl.int64)
    xr, xi = _pairs(initial, clip * lanes + lane, inside)
    if not VARYING:
        ar, ai = _pairs(a, lane % states, inside)
    for start in range(0, steps, 4):
        i0 = (clip * steps + start) * lanes + lane
        i1, i2, i3 = i0 + lanes, i0 + 2 * lanes, i0 + 3 * lanes
        m1, m2, m3 = inside & (start + 1 < steps), inside & (start + 2 < steps), inside & (start + 3 < steps)
        br0, bi0 = _pairs(b, i0, inside)
        br1, bi1 = _pairs(b, i1, m1)
        br2, bi2 = _pairs(b, i2, m2)
        br3, bi3 = _pairs(b, i3, m3)
        if VARYING:
            ar0, ai0 = _pairs(a, i0, inside)
            ar1, ai1 = _pairs(a, i1, m1)
            ar2, ai2 = _pairs(a, i2, m2)
            ar3, ai3 = _pairs(a, i3, m3)
        else:
            ar0, ai0, ar1, ai1, ar2, ai2, ar3, ai3 = ar, ai, ar, ai, ar, ai, ar, ai
        xr, xi = _onward(ar0, ai0, br0, bi0, xr, xi, x, i0, inside)
        xr, xi = _onward(ar1, ai1, br1, bi1, xr, xi, x, i1, m1)
        xr, xi = _onward(ar2, ai2, br2, bi2, xr, xi, x, i2, m2)
        xr, xi = _onward(ar3, ai3, br3, bi3, xr, xi, x, i3, m3)


@triton.jit
def _back(ar, ai, yr, yi, xr, xi, cr, ci, dar, dai, grad_a, grad_b, index, inside, VARYING: tl.constexpr):
    """One step back: what goes to the step before, and the sum of da so far (of one step, where a varies)."""
    gr, gi = yr + cr, yi + ci
    _put(grad_b, index, gr, gi, inside)
    if VARYING:
        _put(grad_a, index, xr * gr + xi * gi, xr * gi - xi * gr, inside)
    else:
        dar, dai = dar + xr * gr + xi * gi, dai + xr * gi - xi * gr
    # beyond the first step there is nothing: what goes out of it must stay
    cr, ci = tl.where(inside, ar * gr + ai * gi, cr), tl.where(inside, ar * gi - ai * gr, ci)
    return cr, ci, dar, dai


@triton.jit(do_not_specialize=["steps"])
def _backward(grad, a, x, initial, grad_a, grad_b, grad_initial, steps, lanes, states,
              VARYING: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, clip = lane < lanes, tl.program_id(1).to(tl.int64)
    ir, ii = _pairs(initial, clip * lanes + lane, inside)
    if not VARYING:
        ar, ai = _pairs(a, lane % states, inside)
    cr, ci = tl.zeros_like(ir), tl.zeros_like(ir)
    dar, dai = tl.zeros_like(ir), tl.zeros_like(ir)
    for done in range(0, steps, 4):
        last = steps - 1 - done
        i0 = (clip * steps + last) * lanes + lane
        i1, i2, i3, i4 = i0 - lanes, i0 - 2 * lanes, i0 - 3 * lanes, i0 - 4 * lanes
        m1, m2, m3, m4 = inside & (last > 0), inside & (last > 1), inside & (last > 2), inside & (last > 3)
        yr0, yi0 = _pairs(grad, i0, inside)
        yr1, yi1 = _pairs(grad, i1, m1)
        yr2, yi2 = _pairs(grad, i2, m2)
        yr3, yi3 = _pairs(grad, i3, m3)
        xr0, xi0 = _pairs(x, i1, m1)  # the state before the step
        xr1, xi1 = _pairs(x, i2, m2)
        xr2, xi2 = _pairs(x, i3, m3)
        xr3, xi3 = _pairs(x, i4, m4)
        xr0, xi0 = tl.where(last == 0, ir, xr0), tl.where(last == 0, ii, xi0)
        xr1, xi1 = tl.where(last == 1, ir, xr1), tl.where(last == 1, ii, xi1)
        xr2, xi2 = tl.where(last == 2, ir, xr2), tl.where(last == 2, ii, xi2)
        xr3, xi3 = tl.where(last == 3, ir, xr3), tl.where(last == 3, ii, xi3)
        if VARYING:
            ar0, ai0 = _pairs(a, i0, inside)
            ar1, ai1 = _pairs(a, i1, m1)
            ar2, ai2 = _pairs(a, i2, m2)
            ar3, ai3 = _pairs(a, i3, m3)
        else:
            ar0, ai0, ar1, ai1, ar2, ai2, ar3, ai3 = ar, ai, ar, ai, ar, ai, ar, ai
        cr, ci, dar, dai = _back(ar0, ai0, yr0, yi0, xr0, xi0, cr, ci, dar, dai, grad_a, grad_b, i0, inside, VARYING)
        cr, ci, dar, dai = _back(ar1, ai1, yr1, yi1, xr1, xi1, cr, ci, dar, dai, grad_a, grad_b, i1, m1, VARYING)
        cr, ci, dar, dai = _back(ar2, ai2, yr2, yi2, xr2, xi2, cr, ci, dar, dai, grad_a, grad_b, i2, m2, VARYING)
        cr, ci, dar, dai = _back(ar3, ai3, yr3, yi3, xr3, xi3, cr, ci, dar, dai, grad_a, grad_b, i3, m3, VARYING)
    _put(grad_initial, clip * lanes + lane, cr, ci, inside)
    if not VARYING:
        _put(grad_a, clip * lanes + lane, dar, dai, inside)
