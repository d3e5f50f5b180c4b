"""Moving-MNIST as people have it on disk.

`root` is one of
    a .npy file     mnist_test_seq.npy: uint8 (20, n, 64, 64), time first. It holds test clips and nothing else.
    a folder        the ConvS5 paper's tree <root>/{train,test}/*/*.npz, key `data`: (t, 64, 64, 1), one clip per file,
                    or (n, t, 64, 64, 1) as its generator writes; float 0..255 or uint8. No actions.
A clip is the first `frames` frames of a recording. To build, only headers are read; a clip is read from its place in
the file, so that a file of any size costs the memory of one clip. Nothing is ever unpickled.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from videopred.clip import Clip, Format
from videopred.data import array, npz
from videopred.data.array import arrays
from videopred.data.split import NoClips, Split, require_frames, require_index, require_request

KEYS = ("data",)


@dataclass(frozen=True)
class MovingMNISTFilesConfig:
    root: str
    kind: Literal["moving_mnist_files"] = "moving_mnist_files"
    name: str = ""
    image_size: int = 64

    def __post_init__(self):
        if self.image_size < 1:
            raise ValueError(f"image_size = {self.image_size}: must be at least 1")

    @property
    def format(self) -> Format:
        return Format(1, self.image_size, self.image_size)

    def build(self, split: Split, frames: int) -> "SequenceFile | SequenceTree":
        require_request(split, frames)
        root = Path(self.root)
        if root.is_dir():
            return SequenceTree(root, split, frames, self.image_size)
        if root.suffix != ".npy" or not root.is_file():
            raise ValueError(f"root = {self.root!r}: must be an .npy file or a folder that holds train/ and test/")
        if split == "train":
            raise NoClips(f"{root}: an .npy file of sequences holds test clips only; train on recipe moving-mnist")
        return SequenceFile(root, frames, self.image_size)


class SequenceFile:
    """The clips of one .npy file, memory-mapped."""

    def __init__(self, path: Path, frames: int, image_size: int):
        try:
            self.array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path}: not a readable .npy file: {error}") from error
        shape, dtype = self.array.shape, self.array.dtype
        if dtype != np.uint8 or len(shape) != 4 or shape[2:] != (image_size, image_size):
            raise ValueError(f"{path}: is {dtype} {shape}; must be uint8 (t, n, {image_size}, {image_size})")
        if not shape[1]:
            raise ValueError(f"{path}: has shape {shape}; it holds no clip")
        require_frames(path, shape[0], frames)
        self.frames, self.max_frames = frames, shape[0]

    def __len__(self) -> int:
        return self.array.shape[1]

    def __getitem__(self, index: int) -> Clip:
        require_index("test", index, len(self))
        frames = np.array(self.array[: self.frames, index])  # a copy: a clip is not a window into the file
        return Clip(frames=torch.from_numpy(frames)[..., None], id=f"test/{index}")


class SequenceTree:
    """The clips of <root>/<split>/*/*.npz, in the order of their paths."""

    def __init__(self, root: Path, split: Split, frames: int, image_size: int):
        self.split, self.frames = split, frames
        self.paths = sorted((root / split).glob("*/*.npz"))
        if not self.paths:
            raise NoClips(f"{root}: no clips at {split}/*/*.npz")
        shapes = [_shape(path, image_size, frames) for path in self.paths]
        self.stops = np.cumsum([math.prod(shape[:-4]) for shape in shapes])  # number of clips in files 0..i
        self.max_frames = min(shape[-4] for shape in shapes)

    def __len__(self) -> int:
        return int(self.stops[-1])

    def __getitem__(self, index: int) -> Clip:
        require_index(self.split, index, len(self))
        which = int(np.searchsorted(self.stops, index, side="right"))
        path, place = self.paths[which], index - (int(self.stops[which - 1]) if which else 0)
        with arrays(path) as file:
            frames = array.uint8(path, npz.span(path, file.frames(KEYS), place, 0, self.frames), "data")
        return Clip(frames=torch.from_numpy(frames), id=f"{self.split}/{index}")


def _shape(path: Path, size: int, frames: int) -> tuple[int, ...]:
    with arrays(path) as file:
        shape = file.frames(KEYS).shape
    if len(shape) not in (4, 5) or shape[-3:] != (size, size, 1):
        raise ValueError(f"{path}: data has shape {shape}; must be (t, {size}, {size}, 1) or (n, t, {size}, {size}, 1)")
    if math.prod(shape[:-4]) == 0:
        raise ValueError(f"{path}: data has shape {shape}; it holds no clip")
    require_frames(path, shape[-4], frames)
    return shape
