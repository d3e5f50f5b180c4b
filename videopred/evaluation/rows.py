"""Rows of a result: what is predicted for a batch, and the numbers kept of it."""

import dataclasses
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from videopred.clip import Clip, to_uint8
from videopred.evaluation import result
from videopred.evaluation.cost import Clock, flops_per_frame, parameters, speed
from videopred.evaluation.parts import Tally
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.timing import Stopwatch
from videopred.evaluation.trivial import TRIVIAL, Trivial
from videopred.metrics import Accumulator, Metric, Numbers, label
from videopred.metrics.features import FrechetMetric
from videopred.rollout import noise_for, rollout
from videopred.weights import WeightsMissing

FREE = {"parameters": 0, "flops_per_frame": 0, "step_ms": None, "frames_per_second": None}  # of frames nobody makes
T = TypeVar("T")


class Row:
    """One row of the table: its metrics, the clips they are reduced over, and why one could not be computed.

    role : "model", "shuffled actions" or "trivial"

    It takes batch after batch; `cut` gives what one batch has added, and `join` puts such parts together again.
    """

    def __init__(self, name: str, protocol: Protocol, role: str, watch: Stopwatch, samples: int = 1):
        self.name, self.protocol, self.role, self.watch, self.samples = name, protocol, role, watch, samples
        self.metrics: dict[str, Accumulator] = {}
        self.lacking: dict[str, str] = {}  # label of a metric -> why it cannot be computed at all
        for metric in protocol.metrics:
            try:
                self.metrics[label(metric)] = metric.build()
            except ValueError as error:  # weights or a package are missing
                self.lacking[label(metric)] = str(error)
        self.tally = Tally(samples=samples)
        self.arrays: dict[str, np.ndarray] = {}

    def score(self, predicted: Tensor, truth: Tensor, clip_ids: Sequence[str], sample: int) -> None:
        """Scores predicted frames (b, horizon, ...) against whole true clips (b, context + horizon, ...).

        A metric that fails is given up with its reason, whatever it is; the others go on.
        """
        for metric in self.protocol.metrics if len(clip_ids) else ():
            name = label(metric)
            if name not in self.lacking and name not in self.tally.reasons:
                with self.watch(name):
                    try:
                        self._update(metric, predicted, truth, clip_ids, sample)
                    except Exception as error:
                        self.tally.reasons[name] = _why(error)

    def _update(self, metric: Metric, predicted: Tensor, truth: Tensor, clip_ids: Sequence[str], sample: int) -> None:
        context, true = truth[:, : -self.protocol.horizon], truth[:, -self.protocol.horizon :]
        if getattr(metric, "context", "out") == "in":
            if context.shape[1] < self.protocol.context:
                raise ValueError("its clips begin with the context frames, which are not given")
            predicted, true = torch.cat([context, predicted], 1), truth
        self.metrics[label(metric)].update(predicted, true, clip_ids, sample)

    def cut(self) -> Tally:
        """What was added since the last cut."""
        tally, self.tally = self.tally, Tally(samples=self.samples)
        for name, accumulator in self.metrics.items():
            tally.numbers[name], accumulator.numbers = accumulator.numbers, Numbers()
        return tally

    def join(self, tallies: Sequence[Tally]) -> None:
        """Takes over what was cut, in the order of evaluation."""
        for tally in tallies:
            self.tally.join(tally)
        for name, accumulator in self.metrics.items():
            accumulator.numbers = self.tally.numbers.get(name, accumulator.numbers)

    def entry(self) -> dict[str, Any]:
        order = [clip for clip in self.tally.clip_ids if clip not in self.tally.failed]
        return {
            "name": self.name,
            "role": self.role,
            "clips": len(order),
            "samples": self.tally.samples,
            "metrics": {label(metric): self._metric(metric, order) for metric in self.protocol.metrics},
            "clip_ids": order,
            "failed_clips": self.tally.failed,
            "seed": self.protocol.seed,
        }

    def _metric(self, metric: Metric, order: list[str]) -> dict[str, Any]:
        reasons = self.tally.reasons | self.lacking
        reason = reasons.get(label(metric)) or ("" if order else "every clip has a predicted frame that is not finite")
        try:
            return self._number(metric, order) if not reason else result.undefined(reason)
        except Exception as error:  # a Frechet distance of one clip
            return result.undefined(_why(error))

    def _number(self, metric: Metric, order: list[str]) -> dict[str, Any]:
        accumulator, size = self.metrics[label(metric)], self.protocol.group_size
        score = accumulator.compute(order)
        self.arrays |= {f"{self.name}/{label(metric)}/{name}": array for name, array in score.arrays.items()}
        groups = [order[start : start + size] for start in range(0, len(order), size)] if size else []
        entry = result.entry(metric, score, self.protocol) | _of_groups(accumulator, groups)
        if isinstance(accumulator, FrechetMetric) and len(order) >= 4:
            halves = [order[0::2][: len(order) // 2], order[1::2]]
            full = [group for group in groups if len(group) == size > 1]
            entry |= accumulator.floor(full if len(full) > 1 else halves)
        return entry


class TrivialRow(Row):
    def __init__(self, name: str, protocol: Protocol, watch: Stopwatch):
        super().__init__(name, protocol, "trivial", watch)
        self.predict: Trivial | None = None
        self.reason = ""  # why there is no such prediction

    def take(self, truth: Tensor, clip_ids: Sequence[str]) -> None:
        """Scores the prediction for a batch of true frames, uint8 (b, context + horizon, h, w, c)."""
        self.tally.clip_ids += clip_ids
        predicted = self._predicted(truth)
        if predicted is None:
            self.tally.reasons = dict.fromkeys(map(label, self.protocol.metrics), self.reason)
        else:
            self.score(predicted, truth, clip_ids, 0)

    def _predicted(self, truth: Tensor) -> Tensor | None:
        with self.watch("trivial"):
            if self.predict is None and not self.reason:
                try:
                    self.predict = TRIVIAL[self.name](self.protocol)
                except (ValueError, OSError) as error:  # a recipe without training clips has no mean image
                    self.reason = str(error)
            return None if self.predict is None else self.predict(truth)

    def entry(self) -> dict[str, Any]:
        return super().entry() | FREE


def announce(row: Row) -> None:
    """Says on stderr, before any work, which metrics will not be computed, why, and what mends it: a line for each."""
    for name, reason in row.lacking.items():
        tqdm.write(f"videopred: {name} will not be computed: {reason}", sys.stderr)


def apart(name: str) -> str:
    """The name of a model's row, which is never a trivial one's: rows and arrays are found by name. It is text."""
    name = name.encode(errors="backslashreplace").decode()  # names of files need not be
    return f"{name} (model)" if name in TRIVIAL else name


def is_random(model) -> bool:
    """Whether samples of a clip differ; a tokenizer's frames do not."""
    return hasattr(model, "noise_shape") and model.noise_shape() is not None


class ModelRow(Row):
    def __init__(self, predictor, protocol: Protocol, name: str, watch: Stopwatch, role: str = "model"):
        super().__init__(name, protocol, role, watch, protocol.samples if is_random(predictor) else 1)
        self.predictor, self.clock = predictor, Clock(watch.device, getattr(predictor, "block", 1))
        self.flops: int | None = None

    def take(self, clip: Clip, truth: Tensor, sample: int) -> Generator[int, None, Tensor]:
        """Rolls out one sample of a batch and scores it; yields how many frames it has made, time after time.

        Returns the frames, uint8 (b, horizon, h, w, c).
        """
        fake = torch.empty_like(truth[:, self.protocol.context :])
        finite = torch.ones(fake.shape[:2], dtype=torch.bool, device=fake.device)
        frames = self._frames(clip, sample)
        for t in range(self.protocol.horizon):
            with self.watch("rollout"):
                frame = next(frames)
                finite[:, t] = frame.isfinite().flatten(1).all(1)
                fake[:, t] = to_uint8(frame.nan_to_num(nan=-1), self.protocol.quantise)
            yield len(frame)
        self.tally.clip_ids += clip.id if sample == 0 else ()
        whole = finite.all(1)
        for i in (~whole).nonzero().flatten().tolist():
            self.tally.failed.setdefault(clip.id[i], int((~finite[i]).nonzero()[0]) + 1)
        kept = [name for name, good in zip(clip.id, whole.tolist(), strict=True) if good]
        self.score(fake[whole], truth[whole], kept, sample)
        return fake

    def cut(self) -> Tally:
        tally = super().cut()
        tally.flops, tally.times = self.flops, self.clock.cut()
        return tally

    def entry(self) -> dict[str, Any]:
        cost = {"parameters": parameters(self.predictor), "flops_per_frame": self.tally.flops}
        return super().entry() | cost | speed(self.tally.times)

    def _frames(self, clip: Clip, sample: int) -> Iterator[Tensor]:
        protocol, seed = self.protocol, self.protocol.seed
        actions = clip.actions if self.predictor.format.num_actions else None
        if actions is not None and protocol.actions == "masked":
            actions = torch.full_like(actions, -1)
        clip = dataclasses.replace(clip, actions=actions)
        with self.watch("context"):
            state = self.predictor.observe(clip.slice(0, protocol.context))
        ahead = None if actions is None else actions[:, protocol.context :]

        def noise(frame: int) -> Tensor | None:
            drawn = noise_for(self.predictor, seed, clip.id, sample, frame)
            return None if drawn is None else drawn.to(clip.content.device)

        if self.flops is None:
            action = None if ahead is None else ahead[:, 0]
            self.flops = flops_per_frame(self.predictor, state, action, noise(0), len(clip.id))
        return self.clock.steps(rollout(self.predictor, state, actions=ahead, noise=noise), protocol.horizon)


def finish(steps: Generator[Any, None, T]) -> T:
    """What a generator returns, its steps passed over."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _of_groups(accumulator: Accumulator, groups: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Mean and standard deviation (1/n) over groups of clips; null with a reason if one of them has no number."""
    try:
        means = [accumulator.compute(group).mean for group in groups]
    except ValueError as error:  # a Frechet distance of a last group of one clip
        reason = f"one of {len(groups)} groups has {min(map(len, groups))} clip(s): {error}"
        return {"group_mean": None, "group_std": None, "group_reason": reason}
    return result.group_moments(means) if groups else {}


def _why(error: Exception) -> str:
    """A reason for people: what we said ourselves as it is, of anything else also its kind, on one line."""
    if type(error) is ValueError or isinstance(error, WeightsMissing):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
