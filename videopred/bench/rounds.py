"""Timing by turns: every round runs each function once, so that what slows the machine slows them all."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tqdm import tqdm

Seconds = dict[str, list[float]]
WARMUP = 2


@dataclass(frozen=True)
class Row:
    """One line of a bench.

    median_ms        : of one call; None where it is not a time, or could not be measured (then `note` says why)
    ratio_to, ratio  : the row compared with, and this row over that one: above 1, this one takes more
    rounds           : how many times it was measured
    figures          : more numbers, by name with unit ("frames_per_second")
    work             : of one call, by the peak it is to be measured by (`machine.peaks`): GFLOP, or GB read and written
    """

    name: str
    shape: str
    median_ms: float | None
    ratio_to: str | None = None
    ratio: float | None = None
    rounds: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def compare(
    functions: Mapping[str, Callable[[], object]], rounds: int, *, title: str = "", warmup: int = WARMUP, calls: int = 2
) -> Seconds:
    """Seconds of one call of each function, once a round, after `warmup` rounds that do not count.

    A turn is `calls` calls, of which the last is timed: those before leave the caches as this function, not the one
    before it, leaves them (1 is enough for what takes seconds). Every other round runs backward. No garbage is
    collected meanwhile.
    """
    seconds: Seconds = {name: [] for name in functions}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i in tqdm(range(-warmup, rounds), desc=title, unit="round", disable=None, leave=False):
            for name in functions if i % 2 == 0 else reversed(list(functions)):
                for _ in range(calls - 1):
                    functions[name]()
                started = time.perf_counter()
                functions[name]()
                ended = time.perf_counter()
                if i >= 0:
                    seconds[name].append(ended - started)
    finally:
        if collecting:
            gc.enable()
    return seconds


def median_ms(seconds: list[float]) -> float:
    return 1e3 * statistics.median(seconds)


def ratio(seconds: list[float], other: list[float]) -> float:
    """Median over rounds of this time over the other's time in the same round."""
    return statistics.median(mine / its for mine, its in zip(seconds, other, strict=True))


def to_rows(seconds: Seconds, shape: str, ratio_to: str) -> list[Row]:
    """What `compare` found, each compared with `ratio_to` (which has no ratio itself)."""
    found = []
    for name, times in seconds.items():
        pair = (None, None) if name == ratio_to else (ratio_to, ratio(times, seconds[ratio_to]))
        found.append(Row(name, shape, median_ms(times), *pair, rounds=len(times)))
    return found
