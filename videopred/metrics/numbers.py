"""What a metric keeps and what it says: numbers per (clip, sample, frame), and the Score computed from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor


class Numbers:
    """One or a few numbers per frame, kept by (clip, sample). The frames themselves are not kept."""

    def __init__(self):
        self.rows: dict[tuple[str, int], np.ndarray] = {}  # each float64 (..., t)
        self.frames = 0  # of every clip, if there is one

    def add(self, values: Tensor, clip_ids: Sequence[str], sample: int, frames: int = 0) -> None:
        """`values`: (..., b, t). Raises ValueError if a (clip, sample) comes twice or is of another length.

        frames : of each clip, where t is something else
        """
        stacked = values.movedim(-2, 0).double().cpu().numpy().copy()  # (b, ..., t)
        if len(clip_ids) != len(stacked):
            raise ValueError(f"{len(clip_ids)} clip ids for a batch of {len(stacked)} clips")
        rows = {(clip, sample): row for clip, row in zip(clip_ids, stacked, strict=True)}
        self._take(rows, len(clip_ids), frames or stacked.shape[-1])

    def merge(self, other: "Numbers") -> None:
        self._take(other.rows, len(other.rows), other.frames)

    def pack(self) -> tuple[dict[str, Any], np.ndarray]:
        """All that is kept, as JSON takes it and as one array; `unpack` makes it whole again."""
        keys = [list(key) for key in self.rows]
        return {"keys": keys, "frames": self.frames}, np.stack(list(self.rows.values())) if keys else np.empty(0)

    @classmethod
    def unpack(cls, facts: dict[str, Any], rows: np.ndarray) -> "Numbers":
        numbers = cls()
        numbers.rows = {(clip, sample): row for (clip, sample), row in zip(facts["keys"], rows, strict=True)}
        numbers.frames = facts["frames"]
        return numbers

    def arrays(self, order: Sequence[str] | None) -> tuple[tuple[str, ...], np.ndarray]:
        """Clip ids in `order` (default: sorted) and the numbers (..., clip, sample, frame)."""
        samples = sorted({sample for _, sample in self.rows})
        clips = tuple(sorted({clip for clip, _ in self.rows}) if order is None else order)
        if not clips:
            raise ValueError("no clip was scored")
        for clip in clips:
            lacking = [sample for sample in samples or [0] if (clip, sample) not in self.rows]
            if lacking:
                raise ValueError(f"clip {clip!r}, sample {lacking[0]} was not scored")
        table = [np.stack([self.rows[clip, sample] for sample in samples], -2) for clip in clips]
        return clips, np.stack(table, -3)

    def _take(self, rows: Mapping[tuple[str, int], np.ndarray], count: int, frames: int) -> None:
        again = [clip for clip, sample in rows if (clip, sample) in self.rows]
        if again or len(rows) < count:
            raise ValueError(f"clip {again[0] if again else next(iter(rows))[0]!r} was scored twice")
        if self.rows and rows and self.frames != frames:
            raise ValueError(
                f"all clips of one score must have equal length; got {sorted({self.frames, frames})} frames"
            )
        self.rows.update(rows)
        self.frames = frames if rows else self.frames


@dataclass(frozen=True)
class Score:
    """A metric over a list of clips.

    clip_ids  : the clips, in the order of every array's first axis
    terms     : (clip, frame); their mean over clips is the value at a frame, their spread gives its standard error.
                NaN in a column: undefined at that frame. For a mean these are the numbers, averaged over samples
    per_clip  : (clip,) the metric of each clip over its frames and samples; NaN where undefined
    arrays    : name -> (clip, sample, frame), everything that was kept
    counts    : name -> how often something worth knowing happened, such as `capped_frames`
    extras    : name -> what else belongs beside the number in a result, as JSON takes it
    """

    clip_ids: tuple[str, ...]
    terms: np.ndarray
    per_clip: np.ndarray
    arrays: dict[str, np.ndarray]
    counts: dict[str, int] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def per_frame(self) -> np.ndarray:
        """(frame,) mean over clips."""
        return self.terms.mean(0)

    @property
    def per_frame_stderr(self) -> np.ndarray:
        """(frame,) standard error over clips; NaN for one clip."""
        return stderr(self.terms)

    def window(self, first: int, last: int) -> tuple[float, float]:
        """Mean over clips and frames first..last (counted from 1, both included), and its standard error over clips.

        Frames where the metric is undefined are left out; (nan, nan) if it is undefined at all of them.
        """
        part = self.terms[:, first - 1 : last]
        part = part[:, np.isfinite(part).all(0)]
        if not part.size:
            return float("nan"), float("nan")
        return float(part.mean()), float(stderr(part.mean(1)))

    def best(self, better: str) -> "Score | None":
        """Of each clip only the sample that is best over all its frames, as papers report "best of N".

        None for one sample, and where neither higher nor lower is better.
        """
        values = self.arrays.get("values")
        if values is None or values.shape[1] == 1 or better not in ("higher", "lower"):
            return None
        means = values.mean(2)
        chosen = values[np.arange(len(values)), (means.argmax(1) if better == "higher" else means.argmin(1))]
        return Score(self.clip_ids, chosen, chosen.mean(1), {"values": chosen[:, None]})

    @property
    def mean(self) -> float:
        return self.window(1, self.terms.shape[1])[0]

    @property
    def stderr(self) -> float:
        return self.window(1, self.terms.shape[1])[1]


@dataclass(frozen=True, kw_only=True)
class SetScore(Score):
    """A metric of a set of clips as a whole: one `value`, none per frame or clip, so `terms` is (clip, 0)."""

    value: float

    def window(self, first: int, last: int) -> tuple[float, float]:
        """The value whatever the frames: there is no other. Its standard error is not known."""
        return self.value, float("nan")


class PerFrame:
    """The accumulator of a metric that is one number per frame, averaged over samples, frames and clips.

    measure : two batches of frames (b, t, h, w, c) -> (b, t)
    cap     : the largest value `measure` gives; how many frames reach it is reported as `capped_frames`
    extras  : of the score
    """

    def __init__(
        self,
        measure: Callable[[Tensor, Tensor], Tensor],
        *,
        cap: float | None = None,
        extras: dict[str, Any] | None = None,
    ):
        self.measure = measure
        self.cap = cap
        self.extras = extras or {}
        self.numbers = Numbers()

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None:
        self.numbers.add(self.measure(predicted, target), clip_ids, sample)

    def merge(self, other: "PerFrame") -> None:
        self.numbers.merge(other.numbers)

    def compute(self, order: Sequence[str] | None = None) -> Score:
        clips, values = self.numbers.arrays(order)
        terms = values.mean(1)  # (clip, sample, frame) -> (clip, frame)
        # a device's logarithm may miss the cap by its last bit
        counts = {} if self.cap is None else {"capped_frames": int((values >= self.cap * (1 - 1e-12)).sum())}
        return Score(clips, terms, terms.mean(1), {"values": values}, counts, self.extras)


def stderr(x: np.ndarray) -> np.ndarray:
    return np.std(x, 0, ddof=1) / np.sqrt(len(x)) if len(x) > 1 else np.full(x.shape[1:], np.nan)
