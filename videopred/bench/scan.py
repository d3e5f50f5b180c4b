"""The scan against the ways one would first write it, and against moving its bytes.

Forward and backward (from a given gradient of the states, so that no loss is timed) of the same recurrence:
    scan                                the custom op
    traffic alone                       a copy and an addition that read and write exactly the arrays that the scan must
    naive loop, real pairs              `scan_reference` under autograd
    naive loop, complex64               the same on complex tensors: two kernels for each step
    associative_scan, complex64         torch's parallel scan, `a` not repeated over batch and pixels
Forward alone of a state of the paper's size, against copying its input.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from videopred.bench.rounds import Row, compare, to_rows
from videopred.nn.scan import scan, scan_reference

Arguments = tuple[Tensor, Tensor, Tensor]  # a, b, initial, as `scan` takes them
TRAINING = {"length": 64, "batch": 2, "states": 32, "side": 16}
FORWARD = {"length": 256, "batch": 2, "states": 64, "side": 16}
CLOSE = 1e-4  # relative to the largest value: float32, summed over all lanes in another order


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    rounds = 7 if quick else 31
    yield from training(TRAINING, rounds)
    yield from forward(FORWARD, rounds)


def training(shape: dict[str, int], rounds: int) -> Iterator[Row]:
    arguments, where = _arguments(shape), f"{_text(shape)}, forward + backward"
    for x in arguments:
        x.requires_grad_()
    a, b, initial = arguments
    grad, x, grad_b = torch.randn_like(b), torch.empty_like(b), torch.empty_like(b)

    def both(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> tuple[Tensor, ...]:
        states = function(a, b, initial)
        return states, *torch.autograd.grad(states, arguments, grad)

    def traffic() -> None:
        with torch.no_grad():
            x.copy_(b)  # forward: reads b, writes x
            torch.add(grad, x, out=grad_b)  # backward: reads the gradient of x, and x; writes the gradient of b

    functions: dict[str, Callable[[], object]] = {"scan": lambda: both(scan), "traffic alone": traffic}
    notes: dict[str, str] = {}
    truth = both(scan)
    for name, function in BASELINES.items():
        functions[name] = lambda f=function: both(f)
        if reason := difference(functions[name], truth):
            functions[name] = lambda f=function: (f(a, b, initial),)
            notes[name] = f"forward only, against the scan forward and backward ({reason})"
            if reason := difference(functions[name], truth):
                functions.pop(name)
                yield Row(name, where, None, note=f"not measured: {reason}")
    traffic_gb = 5 * b.nbytes / 1e9  # what `traffic` reads and writes
    for row in to_rows(compare(functions, rounds, title="scan, forward and backward"), where, "scan"):
        work = {"copy_gbytes": traffic_gb} if row.name not in notes else {}
        yield replace(row, note=notes.get(row.name, ""), work=work)


def forward(shape: dict[str, int], rounds: int) -> Iterator[Row]:
    a, b, initial = _arguments(shape)
    out = torch.empty_like(b)
    functions: dict[str, Callable[[], object]] = {
        "copy": lambda: out.copy_(b),
        "clone": lambda: b.clone(),
        "scan": lambda: scan(a, b, initial),
    }
    with torch.no_grad():
        seconds = compare(functions, rounds, title="scan, forward")
    for row in to_rows(seconds, f"{_text(shape)}, forward", "copy"):
        yield replace(row, work={"copy_gbytes": 2 * b.nbytes / 1e9})


def complex_loop(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """The recurrence on complex tensors, one step after the other."""
    a, b, x = (torch.view_as_complex(x) for x in (a, b, initial))
    states = []
    for b_t in b.unbind(1):
        x = a * x + b_t
        states.append(x)
    return torch.view_as_real(torch.stack(states, 1))


def associative(a: Tensor, b: Tensor, initial: Tensor) -> Tensor:
    """The recurrence as torch's prefix scan of the maps x -> a x + b."""
    from torch._higher_order_ops.associative_scan import associative_scan

    a, b, initial = (torch.view_as_complex(x) for x in (a, b, initial))
    b = torch.cat([(a * initial + b[:, 0]).unsqueeze(1), b[:, 1:]], 1)
    maps = a.expand(1, b.shape[1], *[1] * (b.dim() - 3), -1), b

    def then(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return second[0] * first[0], second[0] * first[1] + second[1]

    return torch.view_as_real(associative_scan(then, maps, dim=1, combine_mode="generic")[1])


def difference(function: Callable[[], object], truth: Sequence[Tensor]) -> str:
    """Why `function` does not give `truth` (or its first tensors): it fails, or gives something else. Else empty."""
    try:
        got: Any = function()
    except Exception as error:  # torch's scan is a prototype: what it raises differs from version to version
        return f"torch {torch.__version__}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for mine, its in zip(got, truth, strict=False):
        error = float((mine - its).detach().abs().max() / its.detach().abs().max())
        if not error < CLOSE:
            return f"computes something else (relative error {error:.1e})"
    return ""


BASELINES = {
    "naive loop, real pairs": scan_reference,
    "naive loop, complex64": complex_loop,
    "associative_scan, complex64": associative,
}


def _arguments(shape: dict[str, int]) -> Arguments:
    """A recurrence that neither dies nor grows: |a| between 0.4 and 1, at all angles."""
    generator = torch.Generator().manual_seed(0)
    size, pixels = shape["states"], (shape["side"], shape["side"])
    radius = torch.rand(size, generator=generator) * 0.6 + 0.4
    a = torch.view_as_real(torch.polar(radius, torch.rand(size, generator=generator) * 6.28))
    b = torch.randn(shape["batch"], shape["length"], *pixels, size, 2, generator=generator)
    return a, b, torch.randn(shape["batch"], *pixels, size, 2, generator=generator)


def _text(shape: dict[str, int]) -> str:
    return f"L {shape['length']}, B {shape['batch']}, P {shape['states']}, {shape['side']}x{shape['side']}"
