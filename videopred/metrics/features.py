"""What Frechet metrics share: one row of features per clip and sample, and the distance of the two sets of rows.

A network sees a whole clip at a time and nothing else, so that a row depends on no batch and no process. Rows of clips
that were seen before (the true clips, in each row of a table and for each sample) are remembered by content.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from videopred.config import at_least
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


@dataclass(frozen=True)
class FrechetConfig:
    """
    covariance : `n-1` (TF-GAN's and the papers') or `n` (StyleGAN-V's, cd-fvd's)
    context    : `in`: clips begin with the true context frames; `out`: only predicted frames count
    frames     : how many frames of a clip, from its start; 0 is all
    """

    kind: Any
    covariance: Covariance = "n-1"
    context: Literal["in", "out"] = "out"
    frames: int = 0
    better: ClassVar[str] = "lower"
    unit: ClassVar[str] = ""

    def __post_init__(self):
        at_least(self, frames=0)

    @property
    def label(self) -> str:
        return f"{self.kind}-{self.frames}f" if self.frames else self.kind

    def build(self) -> "FrechetMetric":
        """Raises ValueError where weights or a package are missing."""
        return FrechetMetric(self)

    def network(self) -> Network:
        raise NotImplementedError


class FrechetMetric:
    """The accumulator: features of predicted and true clips, (2, clip, sample, d)."""

    def __init__(self, config: FrechetConfig):
        self.config = config
        self.about = config.network().about  # now, not after hours of rollouts, it is said that weights are missing
        self.numbers = Numbers()

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None:
        require_pair(predicted, target)
        require_range(predicted, "predicted")
        require_range(target, "target")
        count = self.config.frames or predicted.shape[1]
        if predicted.shape[1] < count:
            raise ValueError(f"frames = {count}: the clips have only {predicted.shape[1]} frames")
        network = self.config.network()
        rows = [torch.stack([network(clip[:count]) for clip in clips]) for clips in (predicted, target)]
        self.numbers.add(torch.stack(rows), clip_ids, sample, count)

    def merge(self, other: "FrechetMetric") -> None:
        self.numbers.merge(other.numbers)

    def compute(self, order: Sequence[str] | None = None) -> SetScore:
        clips, (predicted, true) = self.numbers.arrays(order)  # (clip, sample, d)
        if len(clips) < 2:  # under covariance n it would be the distance of two points
            raise ValueError("a Frechet distance needs at least 2 clips: the covariance of one is undefined")
        samples = range(predicted.shape[1])
        value = self._distance(predicted.reshape(-1, predicted.shape[-1]), true[:, 0])
        extras: dict[str, Any] = {"weights": self.about, "frames_used": self.numbers.frames}
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
