"""Rollout: frames for ever from a state, and the noise that stochastic predictors are handed.

    state = predictor.observe(clip)
    for frame in rollout(predictor, state): ...

What is held is one state and one frame, so memory and time per frame stay what they are however long it goes on.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def rollout(
    predictor: Any, state: Any, *, actions: Tensor | None = None, noise: Callable[[int], Tensor | None] | None = None
) -> Iterator[Tensor]:
    """Predicted frames (b, c, h, w) in [-1, 1], each fed back: for ever, or as long as there are actions.

    state   : of the predictor, after what it has observed; it is not changed
    actions : (b, t) integers; actions[:, i] leads to frame i
    noise   : gives the noise (b, *predictor.noise_shape()) of frame i; see `noise_for`

    No gradient is kept, and the caller's own gradient mode stays as it is. Raises ValueError.
    """
    if actions is not None and actions.dim() != 2:
        raise ValueError(f"actions of shape {tuple(actions.shape)}: must be (batch, frames)")
    if noise is None and predictor.noise_shape() is not None:
        raise ValueError("this predictor is stochastic: give noise, for example by `noise_for`")
    return _frames(predictor, state, itertools.repeat(None) if actions is None else actions.unbind(1), noise)


def _frames(
    predictor: Any, state: Any, actions: Iterable[Tensor | None], noise: Callable[[int], Tensor | None] | None
) -> Iterator[Tensor]:
    for number, action in enumerate(actions):
        with torch.no_grad():  # around the step alone: a generator's `with` also holds for whoever runs between frames
            frame, state = predictor.predict(state, action, None if noise is None else noise(number))
        yield frame


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
