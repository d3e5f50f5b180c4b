"""How far a command has come, on stderr."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

EVERY = 10  # seconds between two lines


def told(things: Iterable[T], total: int, what: str, unit: str) -> Iterator[T]:
    """`things` as they come: with a bar on a terminal, elsewhere with a line now and then, which a log can hold."""
    from tqdm import tqdm

    if sys.stderr.isatty():
        yield from tqdm(things, total=total, desc=what, unit=f" {unit}")
        return
    begun = last = time.monotonic()
    for done, thing in enumerate(things, 1):
        yield thing
        now = time.monotonic()
        if now - last >= EVERY and done < total:
            left = tqdm.format_interval((now - begun) / done * (total - done))
            print(f"{what} {done}/{total} {unit} {left} left", file=sys.stderr, flush=True)
            last = now
