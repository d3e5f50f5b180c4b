"""Exact training in bounded memory: a clip passes in chunks, and backward computes each chunk again.

    forward     chunk after chunk, the state carried, without a graph; what is kept is the state before each chunk
    backward    chunk before chunk, from the last: each is computed once more, with a graph, from the state kept, and
                differentiated under the gradient of its loss and of the state that it leaves to the next

The loss of a clip is the sum of the losses of its chunks, so loss and gradient are those of the whole clip up to
rounding, for a third more work. Activations live for one chunk; the clip waits as uint8. What grows with a clip is one
state for each chunk (and with scheduled sampling the frames fed, as floats): for very long clips, take longer chunks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from videopred.clip import Clip


class Chunked:
    """A predictor as feedings use it, whose clips pass in chunks of `size` frames.

    Raises ValueError for a size that cannot be, where a predictor predicts blocks of frames.
    """

    def __init__(self, predictor: Any, size: int):
        block = getattr(predictor, "block", 1)
        if block > 1 and (size % block or size == block):
            raise ValueError(
                f"training.time_chunk = {size}: this predictor predicts blocks of {block} frames; "
                f"give a multiple of that, and at least {2 * block}"
            )
        self.predictor, self.size = predictor, size

    def __call__(
        self, clip: Clip, inputs: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor], None]:
        """Loss and metrics of the whole clip."""
        given = [
            {"inputs": i, "noise": n} for i, n in zip(self._cut(clip, inputs), self._cut(clip, noise), strict=True)
        ]
        walk = _Walk(self.predictor, list(clip.chunks(self.size)), given)
        loss, numbers = _Backward.apply(walk, *walk.parameters)
        return loss, dict(zip(walk.names, numbers.unbind(), strict=True)), None

    def reconstruct(self, clip: Clip, inputs: Tensor | None = None) -> tuple[Tensor, Any]:
        """Predictions of all frames but the first. It keeps memory bounded only where no gradient is taken."""
        frames, state = [], None
        for chunk, fed in zip(clip.chunks(self.size), self._cut(clip, inputs), strict=True):
            predicted, state = self.predictor.reconstruct(chunk, state, inputs=fed)
            frames.append(predicted)
        return torch.cat(frames, 1), state

    def noise_shape(self) -> tuple[int, ...] | None:
        return self.predictor.noise_shape()

    def _cut(self, clip: Clip, frames: Tensor | None) -> list[Tensor | None]:
        count = -(-clip.num_frames // self.size)
        return [None] * count if frames is None else list(frames.split(self.size, 1))


class _Walk:
    """One clip on its way through a predictor: its chunks, what is given with each, and how they are computed."""

    def __init__(self, predictor: Any, chunks: list[Clip], given: list[dict[str, Tensor | None]]):
        self.predictor, self.chunks, self.given = predictor, chunks, given
        self.parameters = [p for p in predictor.parameters() if p.requires_grad]
        self.device = chunks[0].content.device
        self.autocast = torch.is_autocast_enabled(self.device.type), torch.get_autocast_dtype(self.device.type)
        self.random, self.states, self.names = self._random(), [], ()

    def forward(self) -> tuple[Tensor, Tensor]:
        """Loss, and the values of the metrics; keeps the state before each chunk."""
        loss, metrics, state = None, {}, None
        for i in range(len(self.chunks)):
            self.states.append(state)
            part, numbers, state = self.step(i, state)
            loss = part if loss is None else loss + part
            metrics = {name: metrics.get(name, 0) + value for name, value in numbers.items()}
        assert loss is not None
        self.names = tuple(metrics)
        return loss, torch.stack([value.detach() for value in metrics.values()])

    def backward(self, grad_loss: Tensor) -> list[Tensor | None]:
        """Gradients of the parameters."""
        total: list[Tensor | None] = [None] * len(self.parameters)
        grad_state: list[Tensor | None] = []
        for i in reversed(range(len(self.chunks))):
            given = _map(_cut_off, self.states.pop())
            before = _floating(given)
            with torch.enable_grad(), self._as_in_forward():
                loss, _, state = self.step(i, given)
            after = _floating(state)
            pairs = [(loss, grad_loss), *zip(after, grad_state or [None] * len(after), strict=True)]
            pairs = [(x, g) for x, g in pairs if x.requires_grad and g is not None]
            wanted = [*before, *self.parameters]
            if not pairs:  # a first chunk of one frame, which waits
                continue
            outputs, grads = zip(*pairs, strict=True)
            found = torch.autograd.grad(outputs, wanted, grads, allow_unused=True)
            grad_state = list(found[: len(before)])
            total = [_sum(x, y) for x, y in zip(total, found[len(before) :], strict=True)]
        return total

    def step(self, i: int, state: Any) -> tuple[Tensor, dict[str, Tensor], Any]:
        """One chunk, with the random numbers that the clip started with: a mask of dropout is one for all times."""
        self._restore(self.random)
        return self.predictor(self.chunks[i], state, **self.given[i])

    @contextmanager
    def _as_in_forward(self) -> Iterator[None]:
        enabled, dtype = self.autocast
        later = self._random()
        try:
            with torch.autocast(self.device.type, dtype, enabled):
                yield
        finally:
            self._restore(later)

    def _random(self) -> tuple[Tensor, Tensor | None]:
        cuda = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
        return torch.get_rng_state(), cuda

    def _restore(self, random: tuple[Tensor, Tensor | None]) -> None:
        torch.set_rng_state(random[0])
        if random[1] is not None:
            torch.cuda.set_rng_state(random[1], self.device)


class _Backward(torch.autograd.Function):
    """A walk as one operation of autograd, so that gradients reach the parameters as ever (and DDP sees them)."""

    @staticmethod
    def forward(ctx: Any, walk: _Walk, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        ctx.walk = walk
        loss, metrics = walk.forward()
        ctx.mark_non_differentiable(metrics)
        return loss, metrics

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple:
        return None, *ctx.walk.backward(grad_loss)


def _map(function: Callable[[Tensor], Any], state: Any) -> Any:
    """A state with `function` of each of its tensors in their place."""
    if isinstance(state, Tensor):
        return function(state)
    return None if state is None else tuple(_map(function, part) for part in state)


def _floating(state: Any) -> list[Tensor]:
    """Those tensors of a state that a gradient can go through: all but counters."""
    found: list[Tensor] = []
    _map(found.append, state)
    return [x for x in found if x.is_floating_point()]


def _cut_off(x: Tensor) -> Tensor:
    """A state's tensor without what made it, to be differentiated for."""
    return x.detach().requires_grad_() if x.is_floating_point() else x


def _sum(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    """x + y in the memory of x, which nobody else may hold: so the first y is copied."""
    if y is None:
        return x
    return y.clone() if x is None else x.add_(y)
