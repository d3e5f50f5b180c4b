"""What a predictor is fed while it learns: the truth, or more and more of what it predicts itself.

A model that has only ever seen true frames does not know its own mistakes: fed with its own predictions it blurs and
drifts within a few frames. Three remedies of rising cost; each gives a loss that the loop differentiates.

    teacher_forcing      the true frame, always: one parallel pass
    scheduled_sampling   true frames with a share replaced by the model's predictions of them, which come from one or
                         more parallel passes without gradient (Bengio et al., NeurIPS 2015; parallel: Duckworth et al.,
                         2019)
    closed_loop          true frames for a context, then its own, frame after frame, with the gradient through it all

The last two feed pixels back; a predictor of tokens (one with a `tokenizer`) learns by the first.

`loss(predictor, clip, progress, generator)`: `progress` is the finished share of training in 0..1, `generator` the only
source of randomness; returns (loss, metrics). `least_frames` is the shortest clip it can use.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from videopred.clip import Clip
from videopred.config import at_least
from videopred.training.distributed import normal, uniform

Loss = tuple[Tensor, dict[str, Tensor]]


@dataclass(frozen=True)
class TeacherForcingConfig:
    kind: Literal["teacher_forcing"] = "teacher_forcing"

    @property
    def least_frames(self) -> int:
        return 2

    def loss(self, predictor: Any, clip: Clip, progress: float, generator: Generator) -> Loss:
        noise = _noise(predictor, clip, generator)
        loss, metrics, _ = predictor(clip) if noise is None else predictor(clip, noise=noise)
        return loss, metrics


@dataclass(frozen=True)
class ScheduledSamplingConfig:
    """After `min_context`..`max_context` true frames, a share of them is replaced.

    It ramps from 0 to `share` over the first `ramp` of training.
    """

    kind: Literal["scheduled_sampling"] = "scheduled_sampling"
    share: float = 0.9
    ramp: float = 0.5
    passes: int = 2
    min_context: int = 6
    max_context: int = 20

    def __post_init__(self):
        if not 0 <= self.share <= 1 or not 0 < self.ramp <= 1 or self.passes < 1:
            raise ValueError(
                f"share {self.share} must lie in 0..1, ramp {self.ramp} above 0 and up to 1, "
                f"passes {self.passes} be 1 or more"
            )
        _check_context(self.min_context, self.max_context)

    @property
    def least_frames(self) -> int:
        return self.min_context + 2  # one frame that may be replaced, and one to predict from it

    def loss(self, predictor: Any, clip: Clip, progress: float, generator: Generator) -> Loss:
        frames = inputs = clip.pixels()
        share = self.share * min(1.0, progress / self.ramp)
        context = _draw(self.min_context, self.max_context, generator)
        later = (torch.arange(frames.shape[1], device=frames.device) >= context).view(1, -1, 1, 1, 1)
        for _ in range(self.passes if share else 0):
            with torch.no_grad():
                predicted, _ = predictor.reconstruct(clip, inputs=inputs)
            torch.clear_autocast_cache()  # it may hold weights cast without gradient, and serve them below
            predicted = torch.cat([frames[:, :1], predicted.to(frames.dtype)], 1)
            chosen = uniform(*frames.shape[:2], generator=generator).lt(share).to(frames.device)
            inputs = torch.where(chosen[:, :, None, None, None] & later, predicted, frames)
        loss, metrics, _ = predictor(clip, inputs=inputs)
        return loss, metrics


@dataclass(frozen=True)
class ClosedLoopConfig:
    """Teacher forcing for the first `warmup` share of training; then `min_context`..`max_context` true frames and a
    number of its own that grows from `min_horizon` to `max_horizon` until `ramp` of training is done.

    With `max_gradient` the gradient runs through so many of its own frames at most: those before are made without, and
    are no part of the loss; where they end is drawn. So a long horizon costs the memory of a short one.

    Only for predictors that can be compared with pixels (`compare`). A clip must hold the longest context and horizon.
    """

    kind: Literal["closed_loop"] = "closed_loop"
    warmup: float = 0.2
    ramp: float = 0.8
    min_context: int = 6
    max_context: int = 16
    min_horizon: int = 4
    max_horizon: int = 32
    max_gradient: int = 0

    def __post_init__(self):
        at_least(self, max_gradient=0)
        if not 0 <= self.warmup < self.ramp <= 1 or not 1 <= self.min_horizon <= self.max_horizon:
            raise ValueError(
                f"warmup {self.warmup} and ramp {self.ramp} must be 0 <= warmup < ramp <= 1, min_horizon "
                f"{self.min_horizon} and max_horizon {self.max_horizon} 1 <= min <= max"
            )
        _check_context(self.min_context, self.max_context)

    @property
    def least_frames(self) -> int:
        return self.max_context + self.max_horizon

    def loss(self, predictor: Any, clip: Clip, progress: float, generator: Generator) -> Loss:
        context = _draw(self.min_context, self.max_context, generator)
        if progress < self.warmup:
            loss, metrics, _ = predictor(clip.slice(0, self.max_context + self.min_horizon))
            return loss, metrics
        grown = min(1.0, (progress - self.warmup) / (self.ramp - self.warmup))
        horizon = round(self.min_horizon + (self.max_horizon - self.min_horizon) * grown)
        length = min(horizon, self.max_gradient or horizon)
        # first and last frames must be met as often as the others, so what is drawn may lie beyond the ends
        drawn = _draw(1 - length, horizon - 1, generator) if length < horizon else 0
        skipped = min(max(drawn, 0), horizon - length)
        predicted, state = predictor.reconstruct(clip.slice(0, context + 1))
        if not skipped:
            frames, _ = _go_on(predictor, predicted, state, clip, context + 1, context + length)
            return predictor.compare(torch.cat([predicted, *frames], 1), clip.slice(0, context + length))
        start = context + skipped
        with torch.no_grad():
            passed, state = _go_on(predictor, predicted, state, clip, context + 1, start)
        torch.clear_autocast_cache()  # it may hold weights cast without gradient
        frames, _ = _go_on(predictor, (passed or [predicted.detach()])[-1], state, clip, start, start + length)
        parts = [(predicted, context + 1), (torch.cat(frames, 1), start + length)]
        totals = [predictor.compare(part, clip.slice(0, stop)) for part, stop in parts]
        shares = [part.shape[1] / (context + length) for part, _ in parts]
        return _weighted([loss for loss, _ in totals], shares), {
            name: _weighted([metrics[name] for _, metrics in totals], shares) for name in totals[0][1]
        }


def _weighted(parts: list[Tensor], shares: list[float]) -> Tensor:
    return torch.stack([share * part for share, part in zip(shares, parts)]).sum()


def _go_on(
    predictor: Any, newest: Tensor, state: tuple, clip: Clip, start: int, stop: int
) -> tuple[list[Tensor], tuple]:
    """Frames `start`..`stop` - 1, each predicted from the one before, the first from the last of `newest` (b t ...)."""
    frames, memory = [newest[:, -1:]], state[1]
    for t in range(start, stop):
        action = None if clip.actions is None else clip.actions[:, t]
        frame, (_, memory) = predictor.predict((frames[-1][:, -1], memory), action)
        frames.append(frame.unsqueeze(1))
    return frames[1:], (frames[-1][:, -1], memory)


def _noise(predictor: Any, clip: Clip, generator: Generator) -> Tensor | None:
    """Standard normal numbers for every frame of a batch (b, t, *noise_shape()); None if the predictor takes none."""
    shape = predictor.noise_shape() if hasattr(predictor, "noise_shape") else None  # a tokenizer has none
    if shape is None:
        return None
    return normal(*clip.content.shape[:2], *shape, generator=generator).to(clip.content.device)


def _draw(low: int, high: int, generator: Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _check_context(low: int, high: int) -> None:
    if not 1 <= low <= high:
        raise ValueError(f"min_context {low} and max_context {high}: must be 1 <= min_context <= max_context")


Feeding = TeacherForcingConfig | ScheduledSamplingConfig | ClosedLoopConfig
