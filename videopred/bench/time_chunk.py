"""Training in chunks of time: memory beside that of whole clips, and how far the gradients lie apart.

Each measurement is the loss of one clip and its gradient, of the preset's model in float32, in a process of its own,
for memory once held is kept. `peak_mib` is the most the process held above what it held before there was a clip;
`seconds` is how long it took, once.
`gradient_error` is the largest difference to the gradient of the whole clip, relative to the largest value of its
tensor, of the worst tensor; measured on the two shortest clips, for it needs the memory of a whole one.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from videopred import allocator, config
from videopred.bench.machine import MIB
from videopred.bench.rounds import Row
from videopred.chunked import Chunked
from videopred.clip import Clip, Format
from videopred.data import Recipe
from videopred.predictors import Predictor

PRESET = "moving-mnist-small"
CHUNK, SHORT = 50, 100  # frames


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    yield from measure(PRESET, CHUNK, (SHORT, 10 * SHORT) if quick else (SHORT, 10 * SHORT, 100 * SHORT))


def measure(preset: str, chunk: int, lengths: tuple[int, ...]) -> Iterator[Row]:
    """Whole clips of the first two lengths, clips in chunks of all; each compared with the shortest of its kind."""
    shape = f"{preset}, loss and gradient, B 1"
    for size, frames in ((0, lengths[:2]), (chunk, lengths)):
        kind, first = f"chunks of {size}" if size else "whole clip", None
        for length in frames:
            figures = apart(cost, preset, length, size)
            if size and length in lengths[:2]:
                figures["gradient_error"] = apart(gradient_error, preset, length, size)
            first = first or figures["peak_mib"]
            pair = (f"{kind}, {frames[0]} frames", figures["peak_mib"] / first) if length != frames[0] else (None, None)
            yield Row(f"{kind}, {length} frames", shape, None, *pair, rounds=1, figures=figures)


def apart(function: Any, *arguments: Any) -> Any:
    """What `function` gives in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def cost(preset: str, frames: int, chunk: int) -> dict[str, float]:
    """Peak memory above idle, and time, of a model's first gradient."""
    allocator.keep_memory()
    predictor, format = build(preset)
    idle = held_mib()
    started = time.perf_counter()
    backward(predictor, clip(format, frames), chunk)
    return {"peak_mib": peak_mib() - idle, "seconds": time.perf_counter() - started}


def gradient_error(preset: str, frames: int, chunk: int) -> float:
    predictor, format = build(preset)
    given = clip(format, frames)
    whole = [g.clone() for g in backward(predictor, given, 0)]
    return max(
        float((g - w).abs().max() / w.abs().max())
        for g, w in zip(backward(predictor, given, chunk), whole, strict=True)
    )


def build(preset: str) -> tuple[Any, Format]:
    raw = config.read(config.find("presets", preset))
    recipe = config.from_dict(Recipe, config.read(config.find("recipes", raw["recipe"])), "recipe")
    torch.manual_seed(0)
    return config.from_dict(Predictor, raw["predictor"], "predictor").build(recipe.format), recipe.format


def clip(format: Format, frames: int) -> Clip:
    """Noise: what it costs does not depend on what is to be seen."""
    size = (1, frames, format.height, format.width, format.channels)
    actions = torch.zeros(1, frames, dtype=torch.int64) if format.num_actions else None
    return Clip(frames=torch.randint(0, 256, size, dtype=torch.uint8), actions=actions)


def backward(predictor: Any, given: Clip, chunk: int) -> list[Tensor]:
    predictor.zero_grad()
    (Chunked(predictor, chunk) if chunk else predictor)(given)[0].backward()
    return [p.grad for p in predictor.parameters() if p.grad is not None]


def held_mib() -> float:
    return _status("VmRSS")


def peak_mib() -> float:
    return _status("VmHWM")


def _status(key: str) -> float:
    """A number of this process that Linux tells, in MiB. (`resource` would count what its parent held.)"""
    if not sys.platform.startswith("linux"):
        raise ValueError("bench time_chunk needs Linux, which tells how much memory a process has held")
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))
    return kib * 1024 / MIB
