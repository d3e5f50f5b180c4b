"""What Frechet metrics share: one row of features per clip and sample, and the distance of the two sets of rows.

A network sees a whole clip at a time and nothing else, so that a row depends on no batch and no process. Rows of clips
that were seen before (the true clips, in each row of a table and for each sample) are remembered by content.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from videopred.metrics.frames import require_pair, require_range
from videopred.metrics.frechet import Covariance, frechet_distance
from videopred.metrics.numbers import Numbers, SetScore

FEW = 256  # clips, below which the distance says more about their number than about the model
REMEMBERED = 20_000  # rows


class Network:
    """Frames (t, h, w, c) of one clip -> features (d,), float64, and what to say about the weights in a result."""

    def __init__(self, module: Callable[[Tensor], Tensor], about: dict[str, Any]):
        self.module, self.about = module, about
        self.rows: OrderedDict[bytes, Tensor] = OrderedDict()

    def __call__(self, frames: Tensor) -> Tensor:
        frames = frames.contiguous()
        content = frames.cpu().numpy().tobytes()
        key = hashlib.sha256(f"{frames.device.type} {frames.dtype} {tuple(frames.shape)}".encode() + content).digest()
        if key not in self.rows:
            # exact arithmetic: TF32 would move logits by 1e-3
            with torch.no_grad(), torch.backends.cudnn.flags(deterministic=True, allow_tf32=False):
                self.rows[key] = self.module(frames).double().cpu()
            if len(self.rows) > REMEMBERED:
                self.rows.popitem(last=False)
        return self.rows[key]


class FrechetConfig(Protocol):
    """What a config must have to be measured by `FrechetMetric`."""

    @property
    def frames(self) -> int: ...

    @property
    def covariance(self) -> Covariance: ...

    def network(self) -> Network: ...


class FrechetMetric:
    """The accumulator: features of predicted and true clips, (2, clip, sample, d)."""

    def __init__(self, config: FrechetConfig):
        self.config = config
        self.about = config.network().about  # now, not after hours of rollouts, it is said that weights are missing
        self.numbers = Numbers()
        self.lengths: set[int] = set()

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None:
        require_pair(predicted, target)
        require_range(predicted, "predicted")
        require_range(target, "target")
        count = self.config.frames or predicted.shape[1]
        if predicted.shape[1] < count:
            raise ValueError(f"frames = {count}: the clips have only {predicted.shape[1]} frames")
        self._require_equal({count})
        network = self.config.network()
        rows = [torch.stack([network(clip[:count]) for clip in clips]) for clips in (predicted, target)]
        self.numbers.add(torch.stack(rows), clip_ids, sample)
        self.lengths |= {count}

    def merge(self, other: "FrechetMetric") -> None:
        self._require_equal(other.lengths)
        self.numbers.merge(other.numbers)
        self.lengths |= other.lengths

    def compute(self, order: Sequence[str] | None = None) -> SetScore:
        clips, (predicted, true) = self.numbers.arrays(order)  # (clip, sample, d)
        samples = range(predicted.shape[1])
        value = self._distance(predicted.reshape(-1, predicted.shape[-1]), true[:, 0])
        extras: dict[str, Any] = {"weights": self.about, "frames_used": next(iter(self.lengths))}
        if len(samples) > 1:
            extras["per_sample"] = [self._distance(predicted[:, i], true[:, 0]) for i in samples]
        if len(clips) < FEW:
            extras["warning"] = f"{len(clips)} clips are few: below {FEW} their number moves the distance most"
        arrays = {"predicted": predicted, "true": true[:, :1]}
        terms, per_clip = np.empty((len(clips), 0)), np.full(len(clips), np.nan)
        return SetScore(clips, terms, per_clip, arrays, extras=extras, value=value)

    def floor(self, groups: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The same distance between true clips alone: the mean over neighbours in `groups`, disjoint lists of clips.

        A model whose clips begin with true frames can be below it: it is compared with the same clips, not with others.
        """
        rows = [self.numbers.arrays(group)[1][1][:, 0] for group in groups]
        found = [self._distance(a, b) for a, b in pairwise(rows)]
        return {"floor": float(np.mean(found)), "floor_clips": min(map(len, groups))}

    def _distance(self, predicted: np.ndarray, true: np.ndarray) -> float:
        return frechet_distance(predicted, true, self.config.covariance)

    def _require_equal(self, lengths: set[int]) -> None:
        if len(self.lengths | lengths) > 1:
            raise ValueError(
                f"all clips of one score must have equal length; got {sorted(self.lengths | lengths)} frames"
            )
