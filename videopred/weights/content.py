"""What a weight file holds, whatever its name says."""

import hashlib
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from videopred.weights.known import KNOWN

BLOCK = 2**20  # bytes


def describe(path: Path) -> str:
    """What a file is, as far as can be told."""
    with open(path, "rb") as file:
        start = file.read(64).lstrip().lower()
    if not start:
        return "an empty file"
    if start.startswith((b"<!doctype", b"<html")):
        return "a web page, not weights"
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself"
    if torchscript(path):
        return "a TorchScript archive"
    tensors = tensors_of(path)
    if tensors is None:
        return "nothing that torch can load as weights"
    for weights in KNOWN.values():
        if weights.holds and tensors.get(weights.holds[0]) == weights.holds[1]:
            return f"{weights.about.partition(' (')[0]}, {len(tensors)} tensors"
    return f"{len(tensors)} tensors of another network ({', '.join(list(tensors)[:2])}, ...)"


def sha256(path: Path) -> str:
    """Of the file as it is; read once for each state that the file is in."""
    state = path.stat()
    return _sha256(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _sha256(path: Path, size: int, changed: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # only its end is that of a zip file
        return False


def tensors_of(path: Path) -> dict[str, tuple[int, ...]] | None:
    """Names and shapes in a state dict, or None if the file is not one."""
    import torch

    if torchscript(path):
        return None
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tuple(value.shape) for name, value in state.items()}
    except MemoryError:
        raise
    except Exception:  # torch.load raises whatever the bytes make it do
        return None
