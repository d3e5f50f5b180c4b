"""The digits that move: 28x28 grey images, one fixed pool per split, never mixed.

`bundled` are 10,000 digits of the MNIST training set that travel with the package (digits.npz; digits_LICENSE.md says
where they come from). Every fifth goes to the test pool: 8,000 and 2,000, every class in the same proportion.
`torchvision` is the whole MNIST as torchvision stores it below `root`: its train file and its test file.
"""

import functools
from importlib.resources import files
from typing import Literal

import numpy as np

from videopred.data.split import Split

Source = Literal["bundled", "torchvision"]


@functools.cache
def pool(source: Source, root: str, split: Split, size: int) -> np.ndarray:
    """uint8 (n, size, size), read-only. Raises ValueError if the files of `torchvision` are not below `root`."""
    images = bundled()[0] if source == "bundled" else _torchvision(root, split)
    if source == "bundled":
        images = images[in_test(len(images)) == (split == "test")]
    images = images if size == images.shape[-1] else resized(images, size)
    images.setflags(write=False)
    return images


def bundled() -> tuple[np.ndarray, np.ndarray]:
    """All bundled digits, sorted by class: images uint8 (10000, 28, 28), labels uint8 (10000,)."""
    with (files("videopred.data") / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["images"], arrays["labels"]


def in_test(count: int) -> np.ndarray:
    """bool (count,): which of the bundled digits belong to the test split."""
    return np.arange(count) % 5 == 4


def resized(images: np.ndarray, size: int) -> np.ndarray:
    """uint8 (n, s, s) -> (n, size, size): the mean over the area of each new pixel; bilinear where it is enlarged."""
    old = images.shape[-1]
    scale = old / size
    left, pixels = np.arange(size)[:, None] * scale, np.arange(old)
    if scale > 1:  # overlap of [left, left + scale] with each old pixel
        weights = (np.minimum(left + scale, pixels + 1) - np.maximum(left, pixels)).clip(0) / scale
    else:  # a hat around the new pixel's middle
        weights = (1 - np.abs((left + scale / 2 - 0.5).clip(0, old - 1) - pixels)).clip(0)
    weights = weights.astype(np.float32)  # (size, old), for rows and columns alike
    return np.rint(weights @ images.astype(np.float32) @ weights.T).astype(np.uint8)


def _torchvision(root: str, split: Split) -> np.ndarray:
    from torchvision.datasets import MNIST

    try:
        return MNIST(root, train=split == "train", download=False).data.numpy()
    except (RuntimeError, OSError, ValueError) as error:
        fetch = f"from torchvision.datasets import MNIST; MNIST({root!r}, download=True)"
        raise ValueError(
            f"digits = 'torchvision': no MNIST below root = {root!r} ({' '.join(str(error).split())}). "
            f"Use digits = 'bundled', or fetch it: python -c \"{fetch}\""
        ) from error
