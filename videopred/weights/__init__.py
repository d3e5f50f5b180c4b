"""Weight files of other people's networks, which metrics need: where they lie, how they come, whether they are right.

A file is looked for in `weights/` of $VIDEOPRED_HOME (default ~/.cache/videopred), then where torch hub keeps what it
downloads. Nothing is fetched unless `fetch` is called. The SHA-256 of a file is written down the first time it is
loaded, in `weights/<file>.sha256`, and from then on a file with another one is refused.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from videopred.weights.content import describe, sha256, tensors_of, torchscript
from videopred.weights.download import download
from videopred.weights.known import KNOWN, Weights


class WeightsMissing(ValueError):
    """A weight file is not on this machine; the message says how to get it."""


class Unreachable(OSError):
    """A download failed; what has arrived is kept."""

    exit_code = 3


def folder() -> Path:
    """Where `fetch` and `add` put files."""
    home = os.environ.get("VIDEOPRED_HOME")
    return (Path(home) if home else _cache() / "videopred") / "weights"


def places() -> list[Path]:
    """Folders in which files are looked for, in this order."""
    hub = os.environ.get("TORCH_HOME")
    return [folder(), (Path(hub) if hub else _cache() / "torch") / "hub" / "checkpoints"]


def known(name: str) -> Weights:
    """Raises ValueError for a name that is not in the list."""
    if name not in KNOWN:
        raise ValueError(f"{name}: no such weights, there are: {', '.join(KNOWN)}")
    return KNOWN[name]


def find(name: str) -> Path | None:
    """Where the file lies, as it is, or None."""
    return next((place / known(name).file for place in places() if (place / known(name).file).is_file()), None)


def load(name: str) -> tuple[Path, str]:
    """The file and its SHA-256, checked. Raises WeightsMissing, or ValueError that says what the file is instead."""
    path = find(name)
    if path is None:
        weights = known(name)
        raise WeightsMissing(
            f"weights missing: run `videopred weights fetch {name}` (about {weights.megabytes} MB); or download "
            f"{weights.url} elsewhere and run `videopred weights add {name} FILE`"
        )
    return path, _checked(name, path)


def recorded(name: str) -> str | None:
    """The SHA-256 that was written down when the file was first loaded."""
    record = _record(name)
    words = record.read_text(errors="replace").split() if record.is_file() else []
    return words[0] if words else None  # an empty record is what a full disk left


def add(name: str, source: Path) -> Path:
    """Copies a file that somebody has into `folder()`. Raises ValueError if it is not what `name` means."""
    if not source.is_file():
        raise ValueError(f"{source}: no such file")
    _require(name, source)
    target = folder() / known(name).file
    with _temporary(target) as copy:
        try:
            shutil.copyfile(source, copy)
        except OSError as error:  # it may name the source, whose disk is not the one that is full
            raise OSError(error.errno, error.strerror, str(target)) from error
        return _arrived(name, copy, target)


def fetch(name: str, *, progress: bool = False) -> Path:
    """Downloads a file into `folder()`, going on where an earlier try stopped. Does nothing if it is there.

    Raises Unreachable if the network fails, ValueError if what arrives is something else.
    """
    target = folder() / known(name).file
    if target.is_file():
        return target
    part = _part(target)
    if why := download(known(name).url, part, progress):
        raise Unreachable(
            f"{name}: {known(name).url} cannot be fetched ({why}). Run this again to go on, or download the file "
            f"elsewhere and run `videopred weights add {name} FILE`, or put it at {target}"
        )
    try:
        _require(name, part)
    except ValueError:
        part.unlink()
        raise
    return _arrived(name, part, target)


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else Path.home() / ".cache"


def _record(name: str) -> Path:
    return folder() / f"{known(name).file}.sha256"


def _part(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name(f"{target.name}.part")


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A name beside `target` for what shall become it; what is still there at the end is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _arrived(name: str, part: Path, target: Path) -> Path:
    _record(name).unlink(missing_ok=True)  # of another file, that this one replaces on purpose
    os.replace(part, target)
    _checked(name, target)
    return target


def _checked(name: str, path: Path) -> str:
    """The SHA-256 of a file: the one that was written down, or now is."""
    before = recorded(name)
    if before is None:
        _require(name, path)
    found = sha256(path)
    if before not in (None, found):
        raise ValueError(
            f"{path}: its SHA-256 is {found[:16]}..., it was {before[:16]}... when first loaded; it is now "
            f"{describe(path)}. Get it again, or, if you mean it, delete {_record(name)}"
        )
    if before is None:
        # A folder that cannot be written: checked against what it holds each time.
        with contextlib.suppress(OSError), _temporary(_record(name)) as record:
            record.write_text(f"{found}  {path.name}\n")
            os.replace(record, _record(name))
    return found


def _require(name: str, path: Path) -> None:
    """Raises ValueError unless the file is what `name` means."""
    weights, found = known(name), sha256(path)
    holds = weights.holds and (tensors_of(path) or {}).get(weights.holds[0]) == weights.holds[1]
    right = torchscript(path) if weights.holds is None else holds
    if not right or not found.startswith(weights.prefix):
        wanted = f", whose SHA-256 begins with {weights.prefix}" if weights.prefix else ""
        raise ValueError(
            f"{path}: not {weights.file} ({weights.about.partition(' (')[0]}){wanted}: it is {describe(path)}, "
            f"SHA-256 {found[:16]}..."
        )


__all__ = [
    "KNOWN",
    "Unreachable",
    "Weights",
    "WeightsMissing",
    "add",
    "describe",
    "fetch",
    "find",
    "folder",
    "load",
    "recorded",
    "sha256",
]
