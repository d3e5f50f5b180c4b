"""What follows from a module's parameters alone, computed once for as long as they stay what they are."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value", Tensor, tuple[Tensor, ...])
_scope: ContextVar[object | None] = ContextVar("scope", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """Within, calls with gradient share one graph: for code that calls a model many times and adds what it gets.

    What was computed here must be differentiated in one backward pass, as torch frees a graph that it has gone through.
    """
    before = _scope.set(object())
    try:
        yield
    finally:
        _scope.reset(before)


class Recall:
    """recall(key, parameters, compute) is compute(), or what it gave last time, if key and parameters are the same.

    What is kept without gradient serves until a parameter changes; with gradient it serves within one `sharing` only,
    and outside of it everything is computed anew. A copy of the module begins empty. Graphs that are compiled, or
    recorded on a GPU, compute for themselves.
    """

    def __init__(self):
        self.forget()

    def forget(self) -> None:
        self._key: Hashable = None
        self._value: Any = None
        self._seen: list[tuple[Tensor, int, Tensor | None]] = []

    def __call__(self, key: Hashable, parameters: Sequence[Tensor], compute: Callable[[], Value]) -> Value:
        graph = torch.is_grad_enabled() and any(p.requires_grad for p in parameters)
        scope = _scope.get() if graph else None
        if (graph and scope is None) or _recorded() or any(p.is_inference() for p in parameters):
            return compute()  # inference tensors count no changes
        key = (key, graph, scope, *((p.dtype, p.device) for p in parameters))
        if self._value is None or key != self._key or not self._unchanged(parameters):
            self.forget()
            self._key, self._value = key, compute()
            self._seen = [(p, p._version, p.detach().clone() if p.device.type == "cpu" else None) for p in parameters]
        return self._value

    def _unchanged(self, parameters: Sequence[Tensor]) -> bool:
        """Versions do not count changes through `.data`; on a CPU, where nobody waits for it, values are compared."""
        return all(
            p is seen and p._version == version and (values is None or torch.equal(p, values))
            for p, (seen, version, values) in zip(parameters, self._seen, strict=True)
        )

    def __deepcopy__(self, memo: dict) -> "Recall":
        return Recall()

    def __reduce__(self):
        return Recall, ()


def _recorded() -> bool:
    return torch.compiler.is_compiling() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
