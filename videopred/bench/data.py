"""Frames per second of the shipped Moving-MNIST recipes: of the generator itself, and of batches from the loader."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from videopred import config
from videopred.bench.rounds import Row, compare, to_rows
from videopred.data import Recipe, loader

RECIPES = (("moving-mnist", 300), ("moving-mnist-small", 64))  # name, frames
BATCH = 8


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    for name, frames in RECIPES:
        recipe = config.from_dict(Recipe, config.read(config.find("recipes", name)), "recipe")
        yield from measure(name, recipe.build("train", frames), frames, rounds=21 if quick else 101)


def measure(name: str, dataset, frames: int, rounds: int, batch: int = BATCH) -> Iterator[Row]:
    """Both ways to `batch` clips; never the same clip twice, as in training."""
    indices, batches = count(), loader.batches(dataset, batch, seed=0)
    functions = {
        "generator": lambda: [dataset[next(indices) % len(dataset)] for _ in range(batch)],
        "loader": lambda: next(batches),
    }
    size = dataset[0].frames.shape[1:]
    shape = f"{name}: {batch} clips of {frames} frames, {'x'.join(map(str, size))}"
    for row in to_rows(compare(functions, rounds, title=name), shape, "generator"):
        assert row.median_ms is not None
        yield replace(row, figures={"frames_per_second": batch * frames / row.median_ms * 1e3})
