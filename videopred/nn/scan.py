"""The linear recurrence x_t = a x_{t-1} + b_t over complex numbers kept as real pairs: slow reference and fast path.

Time is walked in order and every element is read and written once: on all machines we know the recurrence is bound by
memory traffic, and the lanes (batch, pixels, states) are parallel enough. Dynamo would unroll the loop over time and
autograd would record every step, so the fast path is one custom op with its own backward:

    g_t = y_t + conj(a) g_{t+1}            y_t the incoming gradient of x_t
    db_t = g_t      dx_0 = conj(a) g_1      da = sum_t conj(x_{t-1}) g_t
"""

import torch
from torch import Tensor


def scan(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """All states x_1..x_t of the recurrence; differentiable in all three arguments.

    a (p, 2), b (n, t, ..., p, 2), initial (n, ..., p, 2), real and imaginary part last -> (n, t, ..., p, 2).
    Float64 stays float64; everything else is computed and returned in float32.
    """
    dtype = torch.float64 if b.dtype == torch.float64 else torch.float32
    return _scan(a.to(dtype).contiguous(), b.to(dtype).contiguous(), initial.to(dtype).contiguous())


def scan_reference(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """The same, one step after the other, as the definition reads. For tests and benchmarks."""
    x, states = initial, []
    for b_t in b.unbind(1):
        x = torch.stack([a[..., 0] * x[..., 0] - a[..., 1] * x[..., 1],
                         a[..., 0] * x[..., 1] + a[..., 1] * x[..., 0]], -1) + b_t  # fmt: skip
        states.append(x)
    return torch.stack(states, 1)


@torch.library.custom_op("videopred::scan", mutates_args=())
def _scan(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    out = torch.empty_like(b)
    complex_a, x = torch.view_as_complex(a), torch.view_as_complex(initial)
    for b_t, x_t in zip(torch.view_as_complex(b).unbind(1), torch.view_as_complex(out).unbind(1), strict=True):
        x = torch.addcmul(b_t, complex_a, x, out=x_t)
    return out


@_scan.register_fake
def _(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    return torch.empty_like(b)


@torch.library.custom_op("videopred::scan_backward", mutates_args=())
def _scan_backward(grad: Tensor, a: Tensor, x: Tensor, initial: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    grad_b = torch.empty_like(grad)
    conj_a = torch.view_as_complex(a).conj_physical()
    g, conj_g, total = (torch.zeros_like(torch.view_as_complex(initial)) for _ in range(3))
    before = [torch.view_as_complex(initial), *torch.view_as_complex(x).unbind(1)[:-1]]
    steps = zip(torch.view_as_complex(grad).unbind(1), torch.view_as_complex(grad_b).unbind(1), before, strict=True)
    for y_t, g_t, x_before in reversed(list(steps)):
        g = torch.addcmul(y_t, conj_a, g, out=g_t)
        total.addcmul_(x_before, torch.conj_physical(g, out=conj_g))  # a lazy conj() here would be four times slower
    grad_a = total.flatten(0, -2).sum(0).conj_physical()
    return torch.view_as_real(grad_a), grad_b, torch.view_as_real(conj_a * g)


@_scan_backward.register_fake
def _(grad: Tensor, a: Tensor, x: Tensor, initial: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(a), torch.empty_like(grad), torch.empty_like(initial)


def _save(ctx, inputs, output) -> None:
    a, _, initial = inputs
    ctx.save_for_backward(a, output, initial)


def _backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _scan_backward(grad.contiguous(), *ctx.saved_tensors)


_scan.register_autograd(_backward, setup_context=_save)
