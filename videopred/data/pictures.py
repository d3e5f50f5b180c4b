"""Recordings that are folders of pictures, a frame each, in the order of their names: 2.png stands before 10.png."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from videopred.data.array import Unreadable
from videopred.data.facts import Facts
from videopred.data.fit import opaque

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")


def names(files: list[str]) -> list[str]:
    """Of the pictures among the names of files, in the order of time."""
    found = [name for name in files if os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")]
    return sorted(found, key=lambda name: ([(word, int(n)) for word, n in re.findall(r"(\D*)(\d+)", name)], name))


def glance(path: Path) -> tuple[int, None]:
    return 1, None


def first(path: Path, clip: int, count: int) -> Iterator[np.ndarray]:
    for name in _names(path)[:count]:
        yield _read(path / name)[None]


def facts(path: Path) -> list[Facts]:
    """Reads every picture, so that damage is found now."""
    files = _names(path)
    shapes = {name: _read(path / name).shape for name in files}
    height, width, channels = shapes[files[0]]
    for name, size in shapes.items():
        if size[:2] != (height, width):
            raise ValueError(
                f"{path}: {name} is {size[0]} x {size[1]} and {files[0]} {height} x {width}; must be of one size"
            )
    return [Facts(len(files), height, width, channels)]


def frames(path: Path, clip: int, facts: Facts, steps: np.ndarray) -> Iterator[np.ndarray]:
    files = _names(path)
    if len(files) != facts.length:
        raise ValueError(f"{path}: has {len(files)} pictures, and had {facts.length} when it was indexed")
    for step in steps.tolist():
        yield _read(path / files[step])[None]


def _names(path: Path) -> list[str]:
    try:
        files = names(os.listdir(path))
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}") from error
    if not files:
        raise ValueError(f"{path}: is a folder without pictures; give a file, or a folder of {' '.join(SUFFIXES)}")
    return files


def _read(path: Path) -> np.ndarray:
    """uint8 (h, w, 1 or 3)."""
    try:
        with Image.open(path) as file:
            picture = ImageOps.exif_transpose(file)
            if picture.mode in ("L", "1"):
                return np.asarray(picture.convert("L"))[..., None]
            if picture.mode.startswith("I"):
                return (np.asarray(picture).astype(np.int64) // 257).clip(0, 255).astype(np.uint8)[..., None]
            if picture.has_transparency_data:
                return opaque(np.asarray(picture.convert("RGBA")))
            return np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path.parent}: {path.name} is not a picture, or damaged: {error}") from error
    except OSError as error:
        if error.errno is None:  # Pillow's own word for a picture that ends too early
            raise ValueError(f"{path.parent}: {path.name} is damaged: {error}") from error
        raise Unreadable(f"{path.parent}: {path.name} cannot be read: {error.strerror}") from error
