"""Parts: what one batch of clips adds to a result. They can wait on disk for the others, and are joined in order.

This is how an evaluation goes on after an interruption and how processes share it: a batch is computed by itself, the
same whoever computes it and when, so that the result is the same to the last bit.
"""

import hashlib
import json
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from videopred import config
from videopred.data.hold import LOCK
from videopred.data.whole_file import WholeFile
from videopred.metrics import Numbers

UNREADABLE = (OSError, ValueError, RecursionError)  # of a file of JSON


@dataclass
class Tally:
    """What is known of a row, of a batch or of all.

    clip_ids : in the order of evaluation; `failed` are those with a frame that is not finite -> its number, from 1
    samples  : rollouts of each clip
    reasons  : label of a metric -> why it could not be computed
    numbers  : label of a metric -> what it keeps
    flops    : of a predicted frame, and `times` of steps (batch size -> seconds), if the row is a model's
    codes    : how often each code was met, if it is a tokenizer's
    """

    clip_ids: list[str] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)
    samples: int = 1
    reasons: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    flops: int | None = None
    times: dict[int, list[float]] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)

    def join(self, other: "Tally") -> None:
        self.clip_ids += [clip for clip in other.clip_ids if clip not in self.clip_ids]
        self.failed = other.failed | self.failed
        self.samples = max(self.samples, other.samples)
        self.reasons = other.reasons | self.reasons
        for label, numbers in other.numbers.items():
            self.numbers.setdefault(label, Numbers()).merge(numbers)
        self.flops = other.flops if self.flops is None else self.flops
        for size, times in other.times.items():
            self.times.setdefault(size, []).extend(times)
        self.codes = [a + b for a, b in zip_longest(self.codes, other.codes, fillvalue=0)]


@dataclass
class Part:
    """
    rows    : by name, in the order of the result
    digests : SHA-256 of the true clips, in order; they say what data a result is of
    read    : SHA-256 of all that was read, which must be the same if the part is to be used later
    seconds : by what they were spent on
    seen    : of the revisit test: clip -> bool (frame,)
    """

    rows: dict[str, Tally]
    digests: list[str]
    read: str
    seconds: dict[str, float]
    seen: dict[str, np.ndarray] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        rows, arrays = {name: vars(tally) | {"numbers": {}} for name, tally in self.rows.items()}, {}
        for name, tally in self.rows.items():
            for label, numbers in tally.numbers.items():
                rows[name]["numbers"][label], arrays[f"{name}/{label}"] = numbers.pack()
        facts = vars(self) | {"rows": rows, "seen": list(self.seen)}
        arrays["seen"] = np.stack(list(self.seen.values())) if self.seen else np.empty(0)
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        with WholeFile(path) as whole, open(whole.temporary, "wb") as file:
            np.savez(file, **cast(dict[str, Any], arrays))

    @classmethod
    def load(cls, path: Path) -> "Part":
        """Raises whatever the bytes make numpy, zipfile and json raise if it is not there or not whole."""
        with open(path, "rb") as content, np.load(content, allow_pickle=False) as file:
            facts = json.loads(file["facts"].tobytes())
            rows = {}
            for name, row in facts["rows"].items():
                row["numbers"] = {x: Numbers.unpack(y, file[f"{name}/{x}"]) for x, y in row["numbers"].items()}
                row["times"] = {int(size): times for size, times in row["times"].items()}
                rows[name] = Tally(**row)
            seen = dict(zip(facts["seen"], file["seen"], strict=True))
            return cls(**facts | {"rows": rows, "seen": seen})


def digest(*tensors: Tensor) -> str:
    """SHA-256 of what tensors hold, their shapes and types; the same on every machine."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


class Kept:
    """The folder in which finished parts wait. `key.json` says of which evaluation they are."""

    def __init__(self, folder: Path):
        self.folder = folder

    def open(self, key: dict[str, Any]) -> list[str]:
        """Makes the folder that of the evaluation `key`; if it was of another, empties it and says what differs."""
        key, path = json.loads(json.dumps(key)), self.folder / "key.json"
        try:
            differing = config.difference(json.loads(path.read_text()), key)
        except FileNotFoundError:
            differing = []
        except UNREADABLE:
            differing = ["key.json is damaged"]
        if differing or not path.is_file():
            self.drop()
        self.folder.mkdir(parents=True, exist_ok=True)
        with WholeFile(path) as whole:
            whole.temporary.write_text(json.dumps(key, indent=1))
        return differing

    def of(self, key: dict[str, Any]) -> bool:
        """Whether something is kept, of the evaluation `key`."""
        try:
            return json.loads((self.folder / "key.json").read_text()) == json.loads(json.dumps(key))
        except UNREADABLE:
            return False

    def save(self, number: int, part: Part) -> None:
        part.save(self._path(number))

    def load(self, number: int) -> Part | None:
        """The part, or None if there is none that can be read."""
        try:
            return Part.load(self._path(number))
        except Exception:
            return None

    def drop(self) -> None:
        """Removes what is kept, and the folder if nothing else is in it."""
        for path in [*self.folder.glob("part_*.npz"), *self.folder.glob(".part_*.tmp"), self.folder / "key.json"]:
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def tidy(self) -> None:
        """`end` where nothing is kept: a mistake in the command leaves no folder."""
        if self.folder.is_dir() and {path.name for path in self.folder.iterdir()} <= {LOCK}:
            self.end()

    def end(self) -> None:
        """`drop`, and with it the lock of the process that held the folder."""
        (self.folder / LOCK).unlink(missing_ok=True)
        self.drop()

    def _path(self, number: int) -> Path:
        return self.folder / f"part_{number:06d}.npz"
