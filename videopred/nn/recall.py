"""What follows from a module's parameters alone, computed once for as long as they stay what they are."""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor


class Recall:
    """recall(key, parameters, compute) is compute(), or what it gave last time, if key and parameters are the same.

    Without gradient, what is kept serves until a parameter changes. With gradient it serves, as one graph, until a
    backward pass has gone through it: the calls of one training step share it, the next step computes it anew. (To
    differentiate two of these calls apart from one another, add their losses, or keep the graph of the first.)
    A copy of the module begins empty, and a compiled model keeps nothing: its graph computes.
    """

    def __init__(self):
        self.forget()

    def forget(self) -> None:
        self._key: Hashable = None
        self._value: Tensor | None = None
        self._seen: list[tuple[Tensor, int, Tensor | None]] = []

    def __call__(self, key: Hashable, parameters: Sequence[Tensor], compute: Callable[[], Tensor]) -> Tensor:
        if torch.compiler.is_compiling() or any(p.is_inference() for p in parameters):  # these count no changes
            return compute()
        key = (key, torch.is_grad_enabled() and any(p.requires_grad for p in parameters))
        if self._value is None or key != self._key or not self._unchanged(parameters):
            self.forget()
            value = compute()
            if value.requires_grad:
                value.register_hook(lambda _: self.forget() if self._value is value else None)
            self._key, self._value = key, value
            self._seen = [(p, p._version, p.detach().clone() if p.device.type == "cpu" else None) for p in parameters]
            return value
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
