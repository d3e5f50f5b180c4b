"""Rows of a result: what is predicted for a batch, and the numbers kept of it."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from videopred.clip import Clip, to_uint8
from videopred.evaluation import result
from videopred.evaluation.cost import Clock, flops_per_frame, parameters
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.trivial import TRIVIAL
from videopred.metrics import Accumulator, Metric, label
from videopred.metrics.features import FrechetMetric
from videopred.rollout import noise_for, rollout


class Row:
    """One row of the table: its metrics, the clips they are reduced over, and why one could not be computed.

    role : "model", "shuffled actions" or "trivial"
    """

    def __init__(self, name: str, protocol: Protocol, role: str, samples: int = 1):
        self.name, self.protocol, self.role, self.samples = name, protocol, role, samples
        self.metrics: dict[Metric, Accumulator] = {}
        self.reasons: dict[Metric, str] = {}
        for metric in protocol.metrics:
            try:
                self.metrics[metric] = metric.build()
            except ValueError as error:  # weights or a package are missing
                self.reasons[metric] = str(error)
        self.clip_ids: list[str] = []  # in the protocol's order
        self.failed: dict[str, int] = {}  # clip -> its first frame that is not finite, counted from 1
        self.arrays: dict[str, np.ndarray] = {}

    def score(self, predicted: Tensor, truth: Tensor, clip_ids: Sequence[str], sample: int) -> None:
        """Scores predicted frames (b, horizon, ...) against whole true clips (b, context + horizon, ...).

        A metric that refuses the frames is given up with its reason; the others go on.
        """
        context, true = truth[:, : -self.protocol.horizon], truth[:, -self.protocol.horizon :]
        for metric, accumulator in self.metrics.items():
            if metric not in self.reasons and len(clip_ids):
                try:
                    if getattr(metric, "context", "out") == "in":
                        if context.shape[1] < self.protocol.context:
                            raise ValueError("its clips begin with the context frames, which are not given")
                        accumulator.update(torch.cat([context, predicted], 1), truth, clip_ids, sample)
                    else:
                        accumulator.update(predicted, true, clip_ids, sample)
                except ValueError as error:
                    self.reasons[metric] = str(error)

    def entry(self) -> dict[str, Any]:
        order = [clip for clip in self.clip_ids if clip not in self.failed]
        return {
            "name": self.name,
            "role": self.role,
            "clips": len(order),
            "samples": self.samples,
            "metrics": {label(metric): self._metric(metric, order) for metric in self.protocol.metrics},
            "clip_ids": order,
            "failed_clips": self.failed,
            "seed": self.protocol.seed,
        }

    def _metric(self, metric: Metric, order: list[str]) -> dict[str, Any]:
        reason = self.reasons.get(metric) or ("" if order else "every clip has a predicted frame that is not finite")
        try:
            return self._number(metric, order) if not reason else result.undefined(reason)
        except (ValueError, np.linalg.LinAlgError) as error:  # a Frechet distance of one clip
            return result.undefined(str(error))

    def _number(self, metric: Metric, order: list[str]) -> dict[str, Any]:
        accumulator, size = self.metrics[metric], self.protocol.group_size
        score = accumulator.compute(order)
        self.arrays |= {f"{self.name}/{label(metric)}/{name}": array for name, array in score.arrays.items()}
        groups = [order[start : start + size] for start in range(0, len(order), size)] if size else []
        means = [accumulator.compute(group).mean for group in groups]
        entry = result.entry(metric, score, self.protocol, means)
        if isinstance(accumulator, FrechetMetric) and len(order) >= 4:
            halves = [order[0::2][: len(order) // 2], order[1::2]]
            entry |= accumulator.floor(groups if len(groups) > 1 else halves)
        return entry


class TrivialRow(Row):
    def __init__(self, name: str, protocol: Protocol):
        super().__init__(name, protocol, "trivial")
        try:
            self.predict = TRIVIAL[name](protocol)
        except (ValueError, OSError) as error:  # a recipe without training clips has no mean image
            self.reasons = dict.fromkeys(protocol.metrics, str(error))

    def take(self, truth: Tensor, clip_ids: Sequence[str]) -> None:
        """Scores the prediction for a batch of true frames, uint8 (b, context + horizon, h, w, c)."""
        self.clip_ids += clip_ids
        if len(self.reasons) < len(self.protocol.metrics):
            self.score(self.predict(truth), truth, clip_ids, 0)

    def entry(self) -> dict[str, Any]:
        free = {"parameters": 0, "flops_per_frame": 0, "step_ms": None, "frames_per_second": None}
        return super().entry() | free


def _is_random(model) -> bool:
    """Whether samples of a clip differ; a tokenizer's frames do not."""
    return hasattr(model, "noise_shape") and model.noise_shape() is not None


class ModelRow(Row):
    def __init__(self, predictor, protocol: Protocol, device: torch.device, name: str, role: str = "model"):
        super().__init__(name, protocol, role, protocol.samples if _is_random(predictor) else 1)
        self.predictor, self.clock = predictor, Clock(device, getattr(predictor, "block", 1))
        self.flops: int | None = None

    def take(self, clip: Clip, truth: Tensor, sample: int, bar: tqdm) -> Tensor:
        """Rolls out one sample of a batch and scores it; returns the frames, uint8 (b, horizon, h, w, c)."""
        fake = torch.empty_like(truth[:, self.protocol.context :])
        finite = torch.ones(fake.shape[:2], dtype=torch.bool, device=fake.device)
        for t, frame in enumerate(self._frames(clip, sample)):
            finite[:, t] = frame.isfinite().flatten(1).all(1)
            fake[:, t] = to_uint8(frame.nan_to_num(nan=-1), self.protocol.quantise)
            bar.update(len(frame))
        self.clip_ids += clip.id if sample == 0 else ()
        whole = finite.all(1)
        for i in (~whole).nonzero().flatten().tolist():
            self.failed.setdefault(clip.id[i], int((~finite[i]).nonzero()[0]) + 1)
        kept = [name for name, good in zip(clip.id, whole.tolist(), strict=True) if good]
        self.score(fake[whole], truth[whole], kept, sample)
        return fake

    def entry(self) -> dict[str, Any]:
        cost = {"parameters": parameters(self.predictor), "flops_per_frame": self.flops}
        return super().entry() | cost | self.clock.report()

    def _frames(self, clip: Clip, sample: int) -> Iterator[Tensor]:
        protocol, seed = self.protocol, self.protocol.seed
        actions = clip.actions if self.predictor.format.num_actions else None
        if actions is not None and protocol.actions == "masked":
            actions = torch.full_like(actions, -1)
        clip = dataclasses.replace(clip, actions=actions)
        state = self.predictor.observe(clip.slice(0, protocol.context))
        ahead = None if actions is None else actions[:, protocol.context :]

        def noise(frame: int) -> Tensor | None:
            drawn = noise_for(self.predictor, seed, clip.id, sample, frame)
            return None if drawn is None else drawn.to(clip.content.device)

        if self.flops is None:
            action = None if ahead is None else ahead[:, 0]
            self.flops = flops_per_frame(self.predictor, state, action, noise(0), len(clip.id))
        return self.clock.steps(rollout(self.predictor, state, actions=ahead, noise=noise), protocol.horizon)
