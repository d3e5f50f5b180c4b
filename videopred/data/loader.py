"""Batches for ever, in an order that depends on (dataset length, batch size, seed, world) and on nothing else.

Clips are dealt as one endless sequence, epoch after epoch; each epoch holds every clip once, in an order of its own.
Batch k of rank r is the r-th piece of `batch_size` clips of the k-th piece of `world * batch_size`. So ranks share no
clip, together they see what one process with their total batch size sees, and to resume is to start at a position.
"""

import re
import signal
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from videopred import clip
from videopred.clip import Clip

ROUNDS = 6
GRACE = 5  # seconds that a reading process goes on after SIGTERM, for the parent to finish its step


def batches(
    dataset: Any,
    batch_size: int,
    seed: int,
    *,
    position: int = 0,
    shuffle: bool = True,
    workers: int = 0,
    rank: int = 0,
    world: int = 1,
) -> Generator[Clip]:
    """Endless batches of `batch_size` clips (per rank), uint8; the first is the one after `position` batches.

    Shuffled, a dataset that has `window` gives another window of a recording for each epoch.
    `workers` processes read ahead (0: read in this process); their number never changes what is read.
    Raises ValueError for an empty dataset or a number out of range.
    """
    if len(dataset) < 1:
        raise ValueError("the dataset has no clips")
    if batch_size < 1 or position < 0 or workers < 0 or not 0 <= rank < world:
        raise ValueError(
            f"batch_size = {batch_size} and world = {world} must be at least 1, position = {position} and "
            f"workers = {workers} at least 0, rank = {rank} in 0..world - 1"
        )
    loader = DataLoader(
        _Source(dataset, shuffle),  # type: ignore[arg-type]
        batch_sampler=_indices(len(dataset), batch_size, seed, position, shuffle, rank, world),  # type: ignore[arg-type]
        collate_fn=clip.stack,
        num_workers=workers,
        worker_init_fn=_leave_interrupts if workers else None,
        generator=torch.Generator(),  # else it would draw from, and so move, the caller's generator
    )
    return _read(loader)


def _read(loader: DataLoader) -> Generator[Clip]:
    try:
        yield from loader
    except ValueError as error:
        *traceback, line = str(error).strip().splitlines() or [""]
        if not traceback:
            raise
        # torch puts a worker's whole traceback into the message; the reader's own words are its last line
        raise ValueError(re.sub(r"^(ValueError|videopred\.[\w.]+): ", "", line)) from error


def _indices(
    length: int, batch_size: int, seed: int, position: int, shuffle: bool, rank: int, world: int
) -> Iterator[list[tuple[int, int]]]:
    """Which clips make each batch, and in which epoch each of them stands."""
    while True:
        first = (position * world + rank) * batch_size
        dealt = (divmod(n, length) for n in range(first, first + batch_size))
        yield [(permuted(i, length, seed, epoch) if shuffle else i, epoch) for epoch, i in dealt]
        position += 1


class _Source:
    """A dataset as the loader's processes read it: by clip and epoch."""

    def __init__(self, dataset: Any, shuffle: bool):
        self.dataset, self.windows = dataset, shuffle and hasattr(dataset, "window")

    def __getitem__(self, key: tuple[int, int]) -> Clip:
        return self.dataset.window(*key) if self.windows else self.dataset[key[0]]


def permuted(index: int, length: int, seed: int, epoch: int) -> int:
    """Where `index` goes in the permutation of 0..length-1 that belongs to (seed, epoch), without a table of it.

    A Feistel network over the next power of four; what falls outside is sent through again until it falls inside.
    """
    keys = np.random.SeedSequence([seed, epoch]).generate_state(ROUNDS, np.uint64).tolist()
    half = ((length - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        index = left << half | right
        if index < length:
            return index


def _mixed(x: int) -> int:
    """splitmix64's finaliser: a 64-bit number whose every bit depends on every bit of x."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ x >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return x ^ x >> 31


def _leave_interrupts(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal, SIGTERM often a whole group; the parent decides when to stop.

    SIGTERM is also how a parent that ends ends its workers, so it is obeyed, but only after `GRACE`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.alarm(GRACE))
