"""Tokens drawn by noise that is handed in: standard normal numbers in, codes out, nothing drawn here."""

import torch
from torch import Tensor, special

from videopred.nn.norm import at_least_float32


def require_noise(noise: Tensor | None, ids: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Noise (b, t, *shape) of the last t frames, `ids` being (b, t). Raises ValueError where it is missing or wrong."""
    batch, time = ids.shape
    if noise is None:
        raise ValueError(
            f"this model draws tokens: give noise (batch, frames, {', '.join(map(str, shape))}), standard normal "
            f"numbers, for example by `videopred.rollout.noise_for`"
        )
    if noise.shape[0] != batch or noise.shape[1] < time or noise.shape[2:] != shape:
        raise ValueError(
            f"noise of shape {tuple(noise.shape)}: must be ({batch}, {time}, {', '.join(map(str, shape))})"
        )
    return noise[:, noise.shape[1] - time :]


def uniform(normal: Tensor) -> Tensor:
    """Standard normal numbers as numbers in 0..1 that are as likely everywhere."""
    return special.ndtr(at_least_float32(normal))


def choose(logits: Tensor, chance: Tensor, temperature: float = 1.0) -> Tensor:
    """Codes (...) drawn from softmax(logits / temperature), logits (..., n), by numbers `chance` (...) in 0..1.

    The code is the one at which the summed probability passes `chance`, so that one number draws one code. Where a
    chance is rounded to 1, it is the last code whose probability is felt in the sum.
    """
    logits = at_least_float32(logits)
    above = logits - logits.amax(-1, keepdim=True)  # divided by a small temperature, only losers become infinite
    summed = (above / temperature).softmax(-1).cumsum(-1)
    whole = summed[..., -1:]
    passed, below = ((summed <= chance[..., None] * whole).sum(-1), (summed < whole).sum(-1))
    return torch.minimum(passed, below)
