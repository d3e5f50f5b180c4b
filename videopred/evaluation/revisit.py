"""The revisit test: is a place predicted better if it was in the context? That is what long memory is for.

A predicted frame is *seen* if some context frame was taken within `distance` and `angle` of its pose, and *new* if none
was. Each group is scored by itself, and by its gain over the copied last frame, in which what is merely easy cancels.

Soon after the context most frames are seen, and soon after the context everything is easy. So the groups are matched:
at each predicted frame both count for as many clips as the smaller group has there, which gives both the same
distribution over the horizon. `unmatched` are the plain means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from videopred.clip import Clip
from videopred.config import at_least
from videopred.evaluation.cells import Table, digits, pair

BASELINE = "copy-last-frame"
REASONS = {
    "seen": "no predicted frame has a pose that is in its context",
    "new": "every predicted frame has a pose that is in its context",
}
UNMATCHED = "at no horizon are there both seen and new frames"


@dataclass(frozen=True)
class Revisit:
    """`distance` in the recipe's units (128 are one cell of a doom-maze), `angle` in degrees: both included.

    Predicted frames count from number `first` on (from 1): before it, a place is "seen" because it has not been left.
    """

    distance: float
    angle: float
    first: int = 1

    def __post_init__(self):
        at_least(self, distance=0, angle=0, first=1)


class Visits:
    """Collects batch by batch which predicted frames were seen, and adds the test to a result; None: does nothing."""

    def __init__(self, revisit: Revisit | None, context: int):
        self.revisit, self.context = revisit, context
        self.seen: dict[str, np.ndarray] = {}  # clip id -> bool (frame,)

    def take(self, clip: Clip) -> None:
        """A batch. Raises ValueError unless every frame has a pose, finite: x, y, and the angle of view in degrees."""
        if self.revisit is None:
            return
        pose = clip.pose
        if pose is None or pose.shape[-1] != 3 or not pose.isfinite().all():
            has = "none" if pose is None else f"a pose of shape {tuple(pose.shape[1:])}, or one that is not finite"
            raise ValueError(
                f"`revisit` needs the pose (x, y, angle) of every frame, and clip {clip.id[0]} has {has}; give a "
                "recipe that has it, such as doom-maze, or a protocol without `revisit`"
            )
        for name, poses in zip(clip.id, pose.double().cpu().numpy(), strict=True):
            self.seen[name] = seen(poses, self.context, self.revisit)

    def add(self, entries: Sequence[dict[str, Any]], arrays: dict[str, np.ndarray]) -> None:
        """Puts `revisit` into every metric of a result's rows that is a number per frame, and "revisit/seen" beside.

        arrays : "row/metric/values" (clip, sample, frame), as a result has them
        """
        if self.revisit is None:
            return
        arrays["revisit/seen"] = np.stack(list(self.seen.values()))
        baseline = next(entry for entry in entries if entry["name"] == BASELINE)
        for entry in entries:
            clips = entry["clip_ids"]
            for kind, metric in entry["metrics"].items():
                values, copied = (arrays.get(f"{row['name']}/{kind}/values") for row in (entry, baseline))
                if values is None or copied is None:
                    continue
                copied = copied[[baseline["clip_ids"].index(clip) for clip in clips]]
                gains = (values.mean(1) - copied.mean(1)) * (-1 if metric["better"] == "lower" else 1)
                mask = np.stack([self.seen[clip] for clip in clips])
                late = slice(self.revisit.first - 1, None)
                metric["revisit"] = compare(values.mean(1)[:, late], gains[:, late], mask[:, late])


def seen(pose: np.ndarray, context: int, revisit: Revisit) -> np.ndarray:
    """Which frames after the context were seen in it: poses (t, 3) -> bool (t - context,)."""
    gap = pose[context:, None] - pose[None, :context]  # (frame, context frame, 3)
    turned = np.abs((gap[..., 2] + 180) % 360 - 180)
    near = (np.hypot(gap[..., 0], gap[..., 1]) <= revisit.distance) & (turned <= revisit.angle)
    return np.asarray(near.any(1))


def compare(values: np.ndarray, gains: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
    """Both groups of frames: their values and gains over the baseline, all (clip, frame), matched over the horizon.

    `difference` is the gain of seen frames less that of new ones. Standard errors are over clips.
    """
    groups = {"seen": mask, "new": ~mask}
    common = np.minimum(mask.sum(0), (~mask).sum(0))
    matched = {name: group * common / np.maximum(group.sum(0), 1) for name, group in groups.items()}
    reasons = {name: UNMATCHED if group.any() else REASONS[name] for name, group in groups.items()}
    table = {name: _group(values, gains, matched[name], reasons[name]) for name in groups}
    apart = _difference(_Mean(gains, matched["seen"]), _Mean(gains, matched["new"]))
    plain = {name: _group(values, gains, group * 1.0, reasons[name]) for name, group in groups.items()}
    return table | {"difference": apart, "unmatched": plain}


def table(rows: Sequence[dict[str, Any]], metric: str, limits: dict[str, float]) -> tuple[str, Table]:
    """Title and table of one metric's test: both groups, matched, and what each gains over the copied last frame.

    rows, limits : `rows` and the protocol's `revisit` of a result
    """
    found: Table = [["", "seen", "new", "seen: gain", "new: gain", "seen - new"]]
    counts = ""
    for row in rows:
        test = row["metrics"][metric].get("revisit")
        if test is None:
            found.append([row["name"], *["-"] * 5])
            continue
        groups, apart, plain = [test["seen"], test["new"]], test["difference"], test["unmatched"]
        places = digits(max((abs(group["mean"]) for group in groups if group["mean"] is not None), default=0))
        cells = [pair(group["mean"], group["stderr"], places) for group in groups]
        cells += [pair(group["gain"], group["gain_stderr"], places, "+") for group in groups]
        found.append([row["name"], *cells, pair(apart["mean"], apart["stderr"], places, "+")])
        counts = counts or f"{plain['seen']['frames']:,} seen and {plain['new']['frames']:,} new frames"
    where = f"pose within {limits['distance']:g} units and {limits['angle']:g} degrees of one in the context"
    what = f"{counts}, frames {limits.get('first', 1)} on, matched over the horizon"
    return f"revisit, {metric}: {what}; seen: {where}; gain: over {BASELINE}", found


class _Mean:
    """A weighted mean over (clip, frame), None without weight; what each clip adds to its error; which clips count."""

    def __init__(self, values: np.ndarray, weights: np.ndarray):
        total = weights.sum()
        self.mean = float((weights * values).sum() / total) if total else None
        self.clips: np.ndarray = weights.sum(1) > 0
        self.errors = (weights * (values - (self.mean or 0.0))).sum(1) / (total or 1.0)


def _group(values: np.ndarray, gains: np.ndarray, weights: np.ndarray, reason: str) -> dict[str, Any]:
    value, gain = _Mean(values, weights), _Mean(gains, weights)
    table = {
        "mean": value.mean,
        "stderr": _stderr(value.errors, value.clips),
        "gain": gain.mean,
        "gain_stderr": _stderr(gain.errors, gain.clips),
        "frames": int((weights > 0).sum()),
    }
    return table | ({"reason": reason} if value.mean is None else {})


def _difference(first: _Mean, second: _Mean) -> dict[str, float | None]:
    if first.mean is None or second.mean is None:
        return {"mean": None, "stderr": None}
    several = min(first.clips.sum(), second.clips.sum()) > 1  # the mean of a single clip has an error, not a known one
    error = _stderr(first.errors - second.errors, first.clips | second.clips) if several else None
    return {"mean": first.mean - second.mean, "stderr": error}


def _stderr(errors: np.ndarray, clips: np.ndarray) -> float | None:
    """Of a ratio of sums over clips, linearised; None for fewer than two clips."""
    n = int(clips.sum())
    return float(np.sqrt(n / (n - 1) * np.square(errors).sum())) if n > 1 else None
