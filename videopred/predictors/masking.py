"""Which frames a token predictor sees, and on which it is scored.

Causal masking, as the ConvS5 paper trains on DMLab: frames from `causal_context` on are hidden from the model, their
latents replaced by -2, wherever the action that leads to the next frame is known. So it learns to go on by actions
alone, and a rollout hides its own frames; the last true one is seen, as in training. Where the action is unknown (-1:
training makes some clips' actions unknown) it sees all frames, and feeds its own. Known, a frame after the last that is
seen is scored; unknown, every frame.

drop_loss: only some frames of each clip are decoded and scored. So many are drawn, without replacement, that the given
share is left out; each counts for the others too, so that the loss is an unbiased estimate of that of all frames.
"""

from typing import Any

import torch
from torch import Tensor

HIDDEN = -2.0


def check(config: Any) -> None:
    """For a config's `__post_init__`. Raises ValueError."""
    if not 0 <= config.drop_loss < 1:
        raise ValueError(f"drop_loss = {config.drop_loss}: must be at least 0 and below 1")
    if config.causal_context < 0:
        raise ValueError(f"causal_context = {config.causal_context}: must be at least 0; 0 hides nothing")
    if not 0 <= config.smoothing < 1:
        raise ValueError(f"smoothing = {config.smoothing}: must be at least 0 and below 1")


def positions(true_frames: Tensor | None, ids: Tensor) -> Tensor:
    """Which frames of the clip are fed, counted from 0, as (b, t) like `ids`: the first one waited in the state.

    `true_frames` (b,) is how many the state has seen; None at the start of a clip.
    """
    first = 0 if true_frames is None else true_frames[:, None] - 1
    return (torch.arange(ids.shape[1], device=ids.device) + first).expand(ids.shape)


def hide(latents: Tensor, where: Tensor) -> Tensor:
    """Latents (b, t, d, h, w) with those of the frames `where` (b, t) replaced."""
    return torch.where(where[:, :, None, None, None], HIDDEN, latents)


def scored(places: Tensor, context: int) -> Tensor:
    """Whether the frame after each of `places` (b, t) comes after the last that is seen under causal masking."""
    return places >= context - 1


def length(clip: Any, context: int) -> tuple[int, int]:
    """Frames to predict of the whole clip, and those of them that `scored` leaves. Raises ValueError if none is."""
    whole = clip.whole or clip.num_frames
    most = max(1, context)
    if whole <= most:
        raise ValueError(
            f"a clip of {whole} frames leaves nothing to predict; give clips of at least {most + 1} frames"
        )
    return whole - 1, whole - most


def picked(keys: Tensor, drop_loss: float) -> Tensor:
    """The frames (b, n) of the smallest random numbers `keys` (b, t), n = max(1, int((1 - drop_loss) t))."""
    return keys.argsort(1)[:, : max(1, int((1 - drop_loss) * keys.shape[1]))]


def take(x: Tensor, frames: Tensor) -> Tensor:
    """Frames (b, n) of x (b, t, ...)."""
    return x[torch.arange(len(x), device=x.device)[:, None], frames]
