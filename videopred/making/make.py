"""Makes the clips of a folder that are not there yet."""

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from videopred import crew
from videopred.data.hold import hold
from videopred.data.split import SPLITS, Split
from videopred.data.whole_file import DISK_FULL
from videopred.making import files
from videopred.making.plan import Plan

PART = 8  # clips that follow each other and are recorded together: some engines start once for all of them

Part = tuple[Split, tuple[int, ...]]


class Stopped(Exception):
    """Making ended early, through no fault of the config; says what is kept."""

    exit_code = 3


@dataclass(frozen=True)
class Made:
    """`clips` and `there` count both splits: made now, and found there; `frames`, `size` (bytes) are of those made."""

    folder: Path
    clips: int
    there: int
    frames: int
    size: int
    seconds: float

    def __str__(self) -> str:
        clips = f"{self.clips} clip" + "s" * (self.clips != 1)
        there = f" ({self.there} more were there)" if self.there else ""
        rate = f", {self.frames / self.seconds:.0f} frames/s" if self.clips else ""
        return f"{clips} made{there}, {self.frames} frames, {self.size / 1e6:.1f} MB{rate}, in {self.folder}"


def make(plan: Plan, workers: int | None = None) -> Made:
    """Makes what a plan asks for and is not there yet, in so many processes (None: one for every CPU).

    Raises ConfigError if the folder is another's; Stopped, KeyboardInterrupt (SIGTERM too), or what a recorder raises,
    and then leaves a folder that the same call completes.
    """
    source, counts, root = plan.source, plan.counts, plan.folder
    with hold(root, "makes clips"), _hearing_sigterm():
        files.claim(root, source, files.versions(plan.engines))
        files.sweep(root)
        parts, wanted = _missing(root, counts), sum(counts.values())
        made = Made(root, 0, wanted - _clips(parts), 0, 0, 0.0)
        start = time.monotonic()
        try:
            with (
                closing(
                    crew.work(functools.partial(_record, source, root), parts, workers or os.cpu_count() or 1)
                ) as done,
                tqdm(total=wanted, initial=made.there, unit="clip", disable=None) as bar,
            ):
                for frames, size in done:
                    seconds = time.monotonic() - start
                    made = Made(root, made.clips + 1, made.there, made.frames + frames, made.size + size, seconds)
                    bar.set_postfix_str(f"{made.frames / seconds:.0f} frames/s", refresh=False)
                    bar.update()
        except (OSError, crew.WorkerDied, KeyboardInterrupt) as error:
            there = wanted - _clips(_missing(root, counts))  # not all that were written had been heard of
            kept = f"{there} of {wanted} clips are in {root}; the same command goes on from there"
            if isinstance(error, KeyboardInterrupt):
                print(f"videopred: stopped: {kept}", file=sys.stderr)
            elif isinstance(error, crew.WorkerDied) or error.errno in DISK_FULL:
                what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
                raise Stopped(f"{what}; {kept}") from error
            raise
        finally:
            _settle(root)
        return made


def _missing(root: Path, counts: dict[Split, int]) -> list[Part]:
    """What is still to be made; test first, as it is small."""
    groups: dict[tuple[Split, int], list[int]] = {}
    for split in reversed(SPLITS):
        for index in range(counts.get(split, 0)):
            if not files.clip_path(root, split, index).exists():
                groups.setdefault((split, index // PART), []).append(index)
    return [(split, tuple(indices)) for (split, _), indices in groups.items()]


def _clips(parts: list[Part]) -> int:
    return sum(len(indices) for _, indices in parts)


def _record(source: Any, root: Path, part: Part) -> Iterator[tuple[int, int]]:
    """In a worker: makes the clips of a part, and says of each how many frames and bytes it has."""
    split, indices = part
    for index, clip in zip(indices, source.record(split, indices), strict=True):
        yield len(clip.frames), files.write_clip(files.clip_path(root, split, index), clip)


def _settle(root: Path) -> None:
    try:
        files.settle(root)
    except OSError as error:
        if error.errno not in DISK_FULL:  # on a full disk the old count stays
            raise


@contextmanager
def _hearing_sigterm() -> Iterator[None]:
    """SIGTERM as Ctrl-C. What comes after the first of either is not heard: stopping in order takes a few seconds.

    (`timeout` and terminals tell a process and its group, and so twice.) Python hears signals in its main thread only.
    """

    def stop(number: int, frame: object) -> NoReturn:
        for heard in before:
            signal.signal(heard, signal.SIG_IGN)
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM) if main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
