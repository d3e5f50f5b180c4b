"""Frames per second of the shipped Moving-MNIST recipes: of the generator itself, and of batches from the loader.

Then of windows of the same clips in .npz and .mp4 files, read by no, one and two processes.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np

from videopred import config
from videopred.bench.rounds import Row, compare, to_rows
from videopred.data import ClipsConfig, MovingMNISTConfig, Recipe, loader
from videopred.data.video_writer import VideoWriter

RECIPES = (("moving-mnist", 300), ("moving-mnist-small", 64))  # name, frames
BATCH = 8
RECORDINGS, LENGTH = 16, 300  # of files that are read
WINDOW, CALL = 32, 6  # frames, and batches that one call reads: more than the processes read ahead


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    for name, frames in RECIPES:
        recipe = config.from_dict(Recipe, config.read(config.find("recipes", name)), "recipe")
        yield from measure(name, recipe.build("train", frames), frames, rounds=21 if quick else 101)
    for suffix in (".npz", ".mp4"):
        yield from measure_files(suffix, rounds=5 if quick else 15)


def measure(name: str, dataset, frames: int, rounds: int, batch: int = BATCH) -> Iterator[Row]:
    """Both ways to `batch` clips; never the same clip twice, as in training."""
    indices, batches = count(), loader.batches(dataset, batch, seed=0)
    functions = {
        "generator": lambda: [dataset[next(indices) % len(dataset)] for _ in range(batch)],
        "loader": lambda: next(batches),
    }
    size = dataset[0].frames.shape[1:]
    shape = f"{name}: {batch} clips of {frames} frames, {'x'.join(map(str, size))}"
    yield from _rates(functions, shape, rounds, batch * frames)


def measure_files(suffix: str, rounds: int, batch: int = BATCH) -> Iterator[Row]:
    """Windows of Moving-MNIST in 64x64 RGB, generated and from files of one kind."""
    source, indices = MovingMNISTConfig(train_clips=RECORDINGS), count()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        _write(source, Path(folder), suffix)
        files = ClipsConfig(root=folder, image_size=source.image_size, test_share=0).build("train", WINDOW)
        generated = source.build("train", WINDOW)
        functions: dict[str, Callable[[], object]] = {
            "generator": lambda: [generated[next(indices) % RECORDINGS] for _ in range(CALL * batch)]
        }
        for workers in (0, 1, 2):
            batches = stack.enter_context(closing(loader.batches(files, batch, seed=0, workers=workers)))
            functions[f"{workers} workers"] = lambda batches=batches: [next(batches) for _ in range(CALL)]
        shape = f"{suffix}: windows of {WINDOW} frames of {LENGTH}, 64x64x3, batches of {batch}"
        yield from _rates(functions, shape, rounds, CALL * batch * WINDOW)


def _rates(functions: dict[str, Callable[[], object]], shape: str, rounds: int, frames: int) -> Iterator[Row]:
    for row in to_rows(compare(functions, rounds, title=shape.partition(":")[0]), shape, "generator"):
        assert row.median_ms is not None
        yield replace(row, figures={"frames_per_second": frames / row.median_ms * 1e3})


def _write(source: MovingMNISTConfig, folder: Path, suffix: str) -> None:
    clips = source.build("train", LENGTH)
    for number in range(len(clips)):
        frames = np.repeat(clips[number].content.numpy(), 3, 3)
        path = folder / f"{number}{suffix}"
        if suffix == ".npz":
            np.savez(path, video=frames)
            continue
        with VideoWriter(path, Fraction(20)) as writer:
            for frame in frames:
                writer.write(frame)
