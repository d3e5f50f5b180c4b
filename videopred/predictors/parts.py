"""The parts of a predictor, by name, and what each of them spends while the predictor works.

A part is a module that is called as a whole: `codec.encoder`, `mix`, `stack.dynamics`, `head`. The layers of a stack go
under one name. What a predictor does outside of its parts is in none of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from videopred.predictors.stack import Layer, Stack


def parts(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """All parts of `module`, none within another; every parameter is in one, but for those that belong to no part."""
    for word, child in module.named_children():
        path = name if word.isdigit() or word == "layers" else f"{name}.{word}".lstrip(".")
        if isinstance(child, Stack | Layer) or type(child).forward is nn.Module.forward:  # only holds parts
            yield from parts(child, path)
        else:
            yield path, child


def parameters(predictor: nn.Module) -> Counter[str]:
    """Numbers of parameters by part; those that belong to none are `(other)`."""
    counts = Counter[str]()
    for name, part in parts(predictor):
        counts[name] += sum(p.numel() for p in part.parameters())
    counts["(other)"] = sum(p.numel() for p in predictor.parameters()) - counts.total()
    return +counts


@contextmanager
def spending(predictor: nn.Module, meter: Callable[[], float]) -> Iterator[Counter[str]]:
    """Within the block: by how much `meter` goes up while each part is called, summed over calls."""
    spent, before = Counter[str](), []
    hooks = []
    for name, part in parts(predictor):

        def leave(*_, name: str = name) -> None:
            spent[name] += meter() - before.pop()  # type: ignore[assignment]

        hooks.append(part.register_forward_pre_hook(lambda *_: before.append(meter())))
        hooks.append(part.register_forward_hook(leave))
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()
