"""collect(): all parts of an evaluation, those kept from an earlier try and the others, made here or by N processes.

A job is what can be cut into batches:

    len(job)              how many there are
    job.frames(i)         frames that batch i has to predict or to read, for the progress bar
    job(i)                yields how many frames are done, time after time, and at last the `Part`
    job.fingerprint(i)    `read` of the part, found by reading the clips once more
    job.key()             what must be the same if kept parts are to be used, as JSON takes it
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from tqdm import tqdm

from videopred import allocator, crew
from videopred.evaluation.parts import Kept, Part
from videopred.evaluation.protocol import Protocol as Evaluated
from videopred.evaluation.result import Result
from videopred.evaluation.revisit import Visits
from videopred.evaluation.rows import Row
from videopred.metrics import label


class Job(Protocol):
    device: torch.device

    def __len__(self) -> int: ...

    def frames(self, number: int) -> int: ...

    def __call__(self, number: int) -> Iterator[int | Part]: ...

    def fingerprint(self, number: int) -> str: ...

    def key(self) -> dict: ...


def collect(job: Job, keep: Path | None, workers: int, progress: bool) -> list[Part]:
    """The parts of a job, in order.

    keep    : folder in which finished parts wait, and are found by the next try; what does not fit the job is dropped
    workers : processes; each has as many threads as this one, so that numbers do not depend on it
    """
    if workers < 1:
        raise ValueError(f"workers = {workers}: must be at least 1")
    workers = min(workers, len(job))
    with contextlib.ExitStack() as stack:
        if keep is None and workers > 1:
            keep = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept = None if keep is None else Kept(keep)
        found = {} if kept is None else _found(job, kept, progress)
        missing = [number for number in range(len(job)) if number not in found]
        done, total = sum(map(job.frames, found)), sum(map(job.frames, range(len(job))))
        hidden = None if progress else True
        bar = stack.enter_context(tqdm(total=total, initial=done, unit=" frames", desc="eval", disable=hidden))
        if kept is None or workers == 1:
            for number in missing:
                found[number] = _made(job, number, kept, bar)
        else:
            _advise(workers)
            ranked = [(number, place % workers) for place, number in enumerate(missing)]
            for step in crew.work(_Worker(job, kept), ranked, workers, start="spawn"):
                bar.update(step)
            found |= {number: part for number in missing if (part := kept.load(number)) is not None}
    return [found[number] for number in range(len(job))]


def _found(job: Job, kept: Kept, progress: bool) -> dict[int, Part]:
    """Parts of an earlier try, if they are of this job and of the same data."""
    differing = []
    with _unless_disk_fails():
        differing = kept.open(job.key())
    found = {number: part for number in range(len(job)) if (part := kept.load(number)) is not None}
    bar = tqdm(found, desc="checking what is kept", unit=" batches", leave=False, disable=None if progress else True)
    if changed := any(found[number].read != job.fingerprint(number) for number in bar):
        kept.drop()
        kept.open(job.key())
    if differing or changed:
        what = "; ".join(differing[:3]) or "the clips have changed"
        print(
            f"videopred: what is kept in {kept.folder} is of another evaluation ({what}); starting over",
            file=sys.stderr,
        )
    return {} if changed else found


def _made(job: Job, number: int, kept: Kept | None, bar: tqdm) -> Part:
    for step in job(number):
        if isinstance(step, Part):
            with _unless_disk_fails():
                if kept is not None:
                    kept.save(number, step)
            return step
        bar.update(step)
    raise AssertionError("a job ends with its part")


@contextlib.contextmanager
def _unless_disk_fails() -> Iterator[None]:
    """What cannot be kept is only not there the next time."""
    try:
        yield
    except OSError as error:
        print(
            f"videopred: {error.filename}: {error.strerror}; an interruption would lose what is done", file=sys.stderr
        )


class _Worker:
    """What a process does: it puts parts where they are kept, and says how many frames it has done."""

    def __init__(self, job: Job, kept: Kept):
        self.job, self.kept = job, kept
        self.settings = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.get_default_dtype()

    def __call__(self, item: tuple[int, int]) -> Iterator[int]:
        number, rank = item
        allocator.keep_memory()
        threads, precision, dtype = self.settings
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.set_default_dtype(dtype)
        if self.job.device.type == "cuda":  # one GPU each, as far as there are
            self.job.device = torch.device("cuda", rank % torch.cuda.device_count())
        for step in self.job(number):
            if isinstance(step, Part):
                self.kept.save(number, step)
            else:
                yield step


def _advise(workers: int) -> None:
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    if workers * threads > cores:
        print(
            f"videopred: {workers} processes of {threads} threads each share {cores} cores; OMP_NUM_THREADS="
            f"{max(1, cores // workers)} is faster",
            file=sys.stderr,
        )


def joined(
    rows: Sequence[Row], parts: Sequence[Part], protocol: Evaluated, checkpoint: dict[str, Any], environment: dict
) -> Result:
    """The result that parts make together; `rows` are empty ones of the same names."""
    for row in rows:
        row.join([part.rows[row.name] for part in parts if row.name in part.rows])
    entries = [row.entry() for row in rows]
    arrays = {key: array for row in rows for key, array in row.arrays.items()}
    visits = Visits(protocol.revisit, protocol.context)
    visits.seen = {clip: seen for part in parts for clip, seen in part.seen.items()}
    visits.add(entries, arrays)
    digests = "".join(text for part in parts for text in part.digests)
    data = {
        "protocol": protocol.to_dict() | {"data": hashlib.sha256(digests.encode()).hexdigest()[:16]},
        "checkpoint": checkpoint,
        "environment": environment,
        "seconds": _seconds(parts, [label(metric) for metric in protocol.metrics]),
        "rows": entries,
    }
    return Result(data, arrays)


def _seconds(parts: Sequence[Part], metrics: Sequence[str]) -> dict[str, Any]:
    """What was spent on each part of the work, all processes together."""
    total: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.seconds.items():
            total[name] = total.get(name, 0.0) + seconds
    work = {name: seconds for name, seconds in total.items() if name not in metrics}
    return work | {"metrics": {name: total.get(name, 0.0) for name in metrics}}
