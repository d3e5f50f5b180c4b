"""The linear recurrence x_t = a_t x_{t-1} + b_t over complex numbers kept as real pairs: slow reference and fast path.

Time is walked in order and every element is read and written once: on all machines we know the recurrence is bound by
memory traffic, and the lanes (batch, pixels, states) are parallel enough. Dynamo would unroll the loop over time and
autograd would record every step, so the fast path is one custom op with its own backward:

    g_t = y_t + conj(a_{t+1}) g_{t+1}      y_t the incoming gradient of x_t
    db_t = g_t      dx_0 = conj(a_1) g_1      da_t = conj(x_{t-1}) g_t, summed over all that share a

On a GPU it is one kernel each way (`scan_kernels`), where Triton can be imported; else, and on a CPU, a loop over time.
"""

import importlib.util
from types import ModuleType

import torch
from torch import Tensor


def scan(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """All states x_1..x_t of the recurrence; differentiable in all three arguments.

    b (n, t, ..., p, 2), initial (n, ..., p, 2), real and imaginary part last -> (n, t, ..., p, 2). a is (p, 2), the
    same everywhere, or has the shape of b. Float64 stays float64; everything else is computed and returned in float32
    (b is read as it is: on a GPU nobody writes a float32 copy of bfloat16).
    """
    if a.shape not in (b.shape, b.shape[-2:]):
        raise ValueError(f"scan: a {tuple(a.shape)} must have the shape of b {tuple(b.shape)} or of its last two axes")
    dtype = torch.float64 if b.dtype == torch.float64 else torch.float32
    return _scan(a.to(dtype), b, initial.to(dtype))


def scan_reference(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """The same, one step after the other, as the definition reads. For tests and benchmarks."""
    x, states = initial, []
    for a_t, b_t in zip(_in_time(a, b), b.unbind(1), strict=True):
        x = torch.stack([a_t[..., 0] * x[..., 0] - a_t[..., 1] * x[..., 1],
                         a_t[..., 0] * x[..., 1] + a_t[..., 1] * x[..., 0]], -1) + b_t  # fmt: skip
        states.append(x)
    return torch.stack(states, 1)


def _in_time(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """a of each step."""
    return a.unbind(1) if a.dim() == b.dim() else (a,) * b.shape[1]


def _kernels(device: torch.device) -> ModuleType | None:
    """The kernels for that device, if there are any; Triton is imported where they are used, for it takes a second."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    from videopred.nn import scan_kernels

    return scan_kernels


@torch.library.custom_op("videopred::scan", mutates_args=())
def _scan(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    a, b, initial = (x.contiguous() for x in (a, b, initial))  # compiled code takes some for it that are not
    if (kernels := _kernels(b.device)) is not None:
        return kernels.forward(a, b, initial)
    b = b.to(initial.dtype)
    out = torch.empty_like(b)
    a, b, x = (torch.view_as_complex(pairs) for pairs in (a, b, initial))
    for a_t, b_t, x_t in zip(_in_time(a, b), b.unbind(1), torch.view_as_complex(out).unbind(1), strict=True):
        x = torch.addcmul(b_t, a_t, x, out=x_t)
    return out


@_scan.register_fake
def _(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    return b.new_empty(b.shape, dtype=initial.dtype)


@torch.library.custom_op("videopred::scan_backward", mutates_args=())
def _scan_backward(
    grad: Tensor, a: Tensor, x: Tensor, initial: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    grad, a, x, initial = (x.contiguous() for x in (grad, a, x, initial))
    if (kernels := _kernels(grad.device)) is not None:
        return kernels.backward(grad, a, x, initial, dtype)
    shared = a.dim() < x.dim()
    grad_b, grad_a = torch.empty_like(grad), torch.zeros_like(initial if shared else grad)
    a, x, initial, grads, grads_b, grads_a = map(torch.view_as_complex, (a, x, initial, grad, grad_b, grad_a))
    conj_a = _in_time(a.conj_physical(), x)  # a lazy conj() would be four times slower, here and below
    g, conj_x = torch.zeros_like(initial), torch.empty_like(initial)
    steps = zip(
        grads.unbind(1),
        grads_b.unbind(1),
        (grads_a,) * len(conj_a) if shared else grads_a.unbind(1),
        (initial, *x.unbind(1)[:-1]),
        (*conj_a[1:], conj_a[-1]),  # of the step after; after the last one g is 0
        strict=True,
    )
    for y_t, g_t, grad_a_t, x_before, a_after in reversed(list(steps)):
        g = torch.addcmul(y_t, a_after, g, out=g_t)
        grad_a_t.addcmul_(torch.conj_physical(x_before, out=conj_x), g)
    if shared:
        grad_a = torch.view_as_real(grads_a.flatten(0, -2).sum(0))
    return grad_a, grad_b.to(dtype), torch.view_as_real(conj_a[0] * g)


@_scan_backward.register_fake
def _(grad: Tensor, a: Tensor, x: Tensor, initial: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return a.new_empty(a.shape), grad.new_empty(grad.shape, dtype=dtype), initial.new_empty(initial.shape)


def _save(ctx, inputs, output) -> None:
    a, b, initial = inputs
    ctx.save_for_backward(a, output, initial)
    ctx.dtype = b.dtype


def _backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _scan_backward(grad, *ctx.saved_tensors, ctx.dtype)


_scan.register_autograd(_backward, setup_context=_save)
