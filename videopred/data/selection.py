"""Which recordings of an index a recipe can use."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from videopred.data.index import NONE, Index

if TYPE_CHECKING:
    from videopred.data.clips import ClipsConfig


Rule = tuple[np.ndarray, Callable[[Any], str]]  # which clips break it, and what to say of one of them


@dataclass(frozen=True)
class Selection:
    """
    files   : number of files (or folders of pictures) of the split
    rows    : int64 (m,), places in `Index.clips` of the clips that can be used
    lengths : int64 (m,), how many frames each has, after stride and fps
    broken  : a line for every file that cannot be used: its name and why; all clips of such a file are left out
    """

    files: int
    rows: np.ndarray
    lengths: np.ndarray
    broken: tuple[str, ...]


def select(config: "ClipsConfig", index: Index, mine: np.ndarray) -> Selection:
    """Of the recordings that `mine` (n,) marks."""
    clips = index.clips
    broken = {int(i): str(index.reasons[index.faults[i]]) for i in np.nonzero(mine & (index.faults != NONE))[0]}
    for bad, reason in _rules(config, index):
        for row in np.nonzero(bad & mine[clips["recording"]])[0]:
            number = int(clips["recording"][row])
            broken.setdefault(number, reason(clips[row]))
    good = mine.copy()
    good[list(broken)] = False
    rows = np.nonzero(good[clips["recording"]])[0]
    lines = tuple(f"{index.folder / index.path(number)}: {broken[number]}" for number in sorted(broken))
    return Selection(int(mine.sum()), rows, _lengths(config, index, rows), lines)


def _rules(config: "ClipsConfig", index: Index) -> Iterator[Rule]:
    clips, wanted = index.clips, config.float_range
    floating, low, high = ~np.isnan(clips["low"]), clips["low"], clips["high"]
    outside = (low < 0) | (high > (1 if wanted == "0..1" else 255)) | ((high > 0) & (high <= 1) & (wanted == "0..255"))
    advice = (
        f"the recipe says float_range = {wanted!r}" if wanted else 'say float_range = "0..1" or "0..255" in the recipe'
    )
    yield floating & (outside | (wanted == "")), lambda clip: f"is floating, in {clip['low']}..{clip['high']}; {advice}"
    if config.actions:
        yield clips["unfit"] != NONE, index.unfit
        yield from _action_rules(config, clips)
    if config.fps:
        yield from _rate_rules(config, index)


def _action_rules(config: "ClipsConfig", clips: np.ndarray) -> Iterator[Rule]:
    names, last = ", ".join(config.actions), len(config.actions) - 1
    if config.missing_actions == "refuse":
        advice = 'missing_actions = "zeros" takes 0 for all of them'
        yield clips["actions"] == NONE, lambda clip: f"has no actions, the recipe has {names}; {advice}"
    advice = f"they must be 0..{last} ({names}), or -1 for unknown"
    wrong = (clips["least"] < -1) | (clips["most"] > last)
    yield wrong, lambda clip: f"its actions lie in {clip['least']}..{clip['most']}; {advice}"


def _rate_rules(config: "ClipsConfig", index: Index) -> Iterator[Rule]:
    clips, fps = index.clips, f"fps = {config.fps:g}"
    timed = (clips["step"] > 0) | (clips["times"] != NONE)
    yield ~timed, lambda clip: f"does not say when its frames are shown; leave out {fps}"
    if config.actions:
        gaps = [_gaps(config, index, row) if timed[row] else (1, 1) for row in range(len(clips))]
        least, most = np.array(gaps, np.int64).reshape(-1, 2).T
        yield least < 1, lambda clip: f"{fps} shows frames of it twice, and no action leads to the second; lower it"
        advice = 'say what becomes of their actions: action_pool = "last"'
        yield (most > 1) & (config.action_pool == ""), lambda clip: f"{fps} leaves out frames of it; {advice}"


def _gaps(config: "ClipsConfig", index: Index, row: int) -> tuple[int, int]:
    """The least and the greatest distance of two frames that follow each other in a clip, wherever it starts."""
    facts = index.facts(row)
    taken = facts.steps(0, facts.count(1, config.fps), 1, config.fps)
    gaps = taken[config.stride :] - taken[: -config.stride]
    return (int(gaps.min()), int(gaps.max())) if len(gaps) else (1, 1)


def _lengths(config: "ClipsConfig", index: Index, rows: np.ndarray) -> np.ndarray:
    if config.fps:
        return np.array([index.facts(int(row)).count(config.stride, config.fps) for row in rows], np.int64)
    return -(-index.clips["length"][rows].astype(np.int64) // config.stride)
