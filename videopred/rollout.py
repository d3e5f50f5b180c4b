"""Rollout: frames for ever from a state, and the noise that stochastic predictors are handed.

    state = predictor.observe(clip)
    for frame in rollout(predictor, state): ...

What is held is one state and one frame, so memory and time per frame stay what they are however long it goes on. On a
GPU a step is recorded once, as a CUDA graph on buffers that stay, and replayed.
"""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def rollout(
    predictor: Any,
    state: Any,
    *,
    actions: Tensor | None = None,
    noise: Callable[[int], Tensor | None] | None = None,
    record: bool = True,
) -> Iterator[Tensor]:
    """Predicted frames (b, c, h, w) in [-1, 1], each fed back: for ever, or as long as there are actions.

    state   : of the predictor, after what it has observed; it is not changed
    actions : (b, t) integers; actions[:, i] leads to frame i
    noise   : gives the noise (b, *predictor.noise_shape()) of frame i; see `noise_for`
    record  : whether a GPU may replay a recorded step, of whose parts no hook is called

    No gradient is kept, and the caller's own gradient mode stays as it is. Raises ValueError.
    """
    if actions is not None and actions.dim() != 2:
        raise ValueError(f"actions of shape {tuple(actions.shape)}: must be (batch, frames)")
    if noise is None and predictor.noise_shape() is not None:
        raise ValueError("this predictor is stochastic: give noise, for example by `noise_for`")
    step = _Steps(predictor) if record else predictor.predict
    return _frames(step, state, itertools.repeat(None) if actions is None else actions.unbind(1), noise)


def _frames(
    step: Callable, state: Any, actions: Iterable[Tensor | None], noise: Callable[[int], Tensor | None] | None
) -> Iterator[Tensor]:
    for number, action in enumerate(actions):
        with torch.no_grad():  # around the step alone: a generator's `with` also holds for whoever runs between frames
            frame, state = step(state, action, None if noise is None else noise(number))
        yield frame


class _Steps:
    """`predict`, and on a GPU its recording, from the first step on that leaves a state of the shape it was given."""

    def __init__(self, predictor: Any):
        self.predict, self.recorded = predictor.predict, None
        self.tried = False

    def __call__(self, state: Any, action: Tensor | None, noise: Tensor | None) -> tuple[Tensor, Any]:
        if self.recorded is not None:
            return self.recorded(action, noise), None
        frame, after = self.predict(state, action, noise)
        if not self.tried and frame.is_cuda and _shapes(state) == _shapes(after):
            self.tried = True
            try:
                self.recorded = Recorded(self.predict, after, action, noise, cuda_graph)
            except RuntimeError as error:  # a member that must wait for the GPU within a step
                warnings.warn(f"the step cannot be recorded as a CUDA graph and stays slower: {error}", stacklevel=2)
        return frame, after


class Recorded:
    """Steps of a rollout on buffers that stay where they are: `record(step)` gives what repeats the step on them."""

    def __init__(self, predict: Callable, state: Any, action: Tensor | None, noise: Tensor | None,
                 record: Callable[[Callable[[], None]], Callable[[], None]]):  # fmt: skip
        self.predict = predict
        self.inputs = _copy((state, action, noise))
        self.frame: Tensor
        self.replay = record(self._step)
        for buffer, start in zip(_tensors(self.inputs[0]), _tensors(state), strict=True):
            buffer.copy_(start)  # recording may have gone on from it

    def __call__(self, action: Tensor | None, noise: Tensor | None) -> Tensor:
        """The next frame; the state after it waits in the buffers."""
        for buffer, given in zip(_tensors(self.inputs[1:]), _tensors((action, noise)), strict=True):
            buffer.copy_(given)
        self.replay()
        return self.frame.clone()

    def _step(self) -> None:
        self.frame, after = self.predict(*self.inputs)
        for buffer, new in zip(_tensors(self.inputs[0]), _tensors(_copy(after)), strict=True):
            buffer.copy_(new)  # of a copy: what is new may be a view of the buffers


def cuda_graph(step: Callable[[], None]) -> Callable[[], None]:
    """Records what `step` does on the GPU. Raises RuntimeError if it cannot be recorded."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is set up at the first call must not be recorded
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may use the GPU meanwhile
        step()
    return graph.replay


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [] if tree is None else [tensor for part in tree for tensor in _tensors(part)]


def _copy(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.clone()
    return None if tree is None else tuple(map(_copy, tree))


def _shapes(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.shape, tree.dtype
    return None if tree is None else tuple(map(_shapes, tree))


def noise_for(predictor: Any, seed: int, clip_ids: Sequence[str], sample: int, frame: int) -> Tensor | None:
    """Noise of one frame of a batch of clips: standard normal (b, *noise_shape), on the predictor's device.

    None for a deterministic predictor. Every (seed, clip id, sample) has a generator of its own, and `frame` is the
    place in its stream: a sample depends neither on the batch it is in, nor on its place there, nor on the device.
    """
    shape = predictor.noise_shape()
    if shape is None:
        return None
    device = next((parameter.device for parameter in predictor.parameters()), torch.device("cpu"))
    return torch.stack([_normal(shape, (seed, clip_id, sample), frame) for clip_id in clip_ids]).to(device)


def _normal(shape: tuple[int, ...], key: tuple[int, str, int], frame: int) -> Tensor:
    # numpy's Philox takes a key of 128 bits and a place to start; torch's CPU generator folds its seed to 32 bits
    digest = hashlib.sha256(repr(key).encode()).digest()
    stream = np.random.Philox(key=np.frombuffer(digest[:16], "<u8"), counter=np.array([0, 0, frame, 0], np.uint64))
    return torch.from_numpy(np.random.Generator(stream).standard_normal(shape, np.float32))
