"""Frames for ever from a state: one step per frame, in constant time and memory, whatever came before."""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

Noise = Callable[[int], Tensor | None]


def rollout(predictor, state, *, actions: Tensor | None = None, noise: Noise | None = None) -> Iterator[Tensor]:
    """Frames (b, c, h, w) in [-1, 1] after those that `state` has observed; for ever, or until the actions end.

    predictor : see `videopred.predictors`; `state` comes from its `observe`
    actions   : (b, t), each leads to the frame it stands for; -1 is unknown
    noise     : noise(i) is what frame i (from 0) is drawn with; see `noise_for`

    The caller's gradient mode is its own again between frames.
    """
    step = 0
    while actions is None or step < actions.shape[1]:
        with torch.no_grad():
            action = None if actions is None else actions[:, step]
            frame, state = predictor.predict(state, action, None if noise is None else noise(step))
        yield frame
        step += 1


def noise_for(predictor, seed: int, clip_ids: Sequence[str], sample: int, frame: int) -> Tensor | None:
    """Standard normal noise (b, *noise_shape) for one frame, or None for a deterministic predictor.

    Each number depends on (seed, clip id, sample, frame) alone, so a sample never depends on its batch.
    """
    shape = predictor.noise_shape()
    if shape is None:
        return None
    return torch.stack([torch.randn(shape, generator=_generator(seed, clip, sample, frame)) for clip in clip_ids])


def _generator(seed: int, clip: str, sample: int, frame: int) -> torch.Generator:
    key = hashlib.sha256(repr((seed, clip, sample, frame)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)
