"""What only a GPU can show, in a few minutes: how near it comes to the limits of the machine.

    scan        the recurrence of moving-mnist-600, each way, against kernels of torch that move as many bytes
    training    a step of moving-mnist-600 (600 frames, 8 clips, bfloat16, in chunks of time), with ConvS5 and ConvLSTM
    compile     a step of one chunk, eager and compiled as one graph; `compile_seconds` is for forward and backward
    rollout     frames of 8 clips, step by step, and as `rollout` makes them

Without a GPU the same is done on the CPU, at the size of `debug`: to see that it runs, not for its numbers.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from videopred import config
from videopred.bench.rounds import Row, compare, to_rows
from videopred.chunked import Chunked
from videopred.clip import Clip, Format
from videopred.data import Recipe
from videopred.dynamics.convlstm import ConvLSTMConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.scan import scan
from videopred.predictors import Predictor
from videopred.predictors.pixel import PixelConfig
from videopred.rollout import rollout


@dataclass(frozen=True)
class Size:
    """What is measured where: preset, clips, frames of a clip and of a chunk, frames rolled out."""

    preset: str
    batch: int
    frames: int
    chunk: int
    horizon: int


CALLS = 10  # of a scan in one measurement, so that starting a kernel is no part of it
ON_GPU = Size("moving-mnist-600", batch=8, frames=600, chunk=50, horizon=400)
ON_CPU = Size("debug", batch=2, frames=12, chunk=6, horizon=4)


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = ON_GPU if device.type == "cuda" else ON_CPU
    rounds = 3 if quick else 9
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    for row in measure(size, device, rounds):
        yield replace(row, shape=f"{name}: {row.shape}")


def measure(size: Size, device: torch.device, rounds: int) -> Iterator[Row]:
    yield from scans(size, device, rounds)
    yield from training(size, device, rounds)
    yield from compiled(size, device, rounds)
    yield from rollouts(size, device, rounds)


def scans(size: Size, device: torch.device, rounds: int) -> Iterator[Row]:
    """`share_of_copy` is the rate at which the bytes that must be moved are moved, over that of a copy."""
    for varying, dtype in ((False, torch.float32), (False, torch.bfloat16), (True, torch.float32)):
        shape, states = _scan_shape(size)
        b = torch.randn(shape, device=device, dtype=dtype, requires_grad=True)
        a = (torch.rand(shape if varying else (states, 2), device=device) * 0.7).requires_grad_()
        functions, moved = _scan(a, b, device)
        kind = f"scan, A {'varies' if varying else 'constant'}, {str(dtype).removeprefix('torch.')}"
        where = f"{kind}, b t h w p {'x'.join(map(str, shape[:-1]))}"
        found = to_rows(compare(functions, rounds, title=kind), where, "copy")
        times = {row.name: row.median_ms / CALLS for row in found if row.median_ms is not None}
        rates = {name: moved[name] / ms / 1e6 for name, ms in times.items()}
        for row in found:
            figures = {"gbytes_per_second": rates[row.name], "share_of_copy": rates[row.name] / rates["copy"]}
            yield replace(row, median_ms=times[row.name], figures=figures)


def _scan(a: Tensor, b: Tensor, device: torch.device) -> tuple[dict[str, Callable[[], object]], dict[str, int]]:
    """Both ways of a scan and torch's kernels beside them; and the bytes that each has to read and write."""
    start = torch.zeros_like(b[:, 0], dtype=torch.float32)
    x = scan(a, b, start)
    grad, out, given, constant = torch.randn_like(x), torch.empty_like(x), b.detach(), a.detach()
    varying = a.nbytes if a.dim() == b.dim() else 0
    functions = {
        "copy": lambda: out.copy_(given),
        "add": lambda: torch.add(grad, given, out=out),
        "scan, forward": lambda: scan(constant, given, start),
        "scan, backward": lambda: torch.autograd.grad(x, (a, b), grad, retain_graph=True),
    }
    moved = {
        "copy": b.nbytes + x.nbytes,
        "add": b.nbytes + 2 * x.nbytes,
        "scan, forward": b.nbytes + x.nbytes + varying,
        "scan, backward": b.nbytes + 2 * x.nbytes + 2 * varying,
    }
    return {name: _ended(function, device, calls=CALLS) for name, function in functions.items()}, moved


def training(size: Size, device: torch.device, rounds: int) -> Iterator[Row]:
    functions: dict[str, Callable[[], object]] = {}
    figures: dict[str, dict[str, float]] = {}
    for name, dynamics in (("convs5", None), ("convlstm", ConvLSTMConfig())):
        predictor, format = build(size.preset, device, dynamics)
        functions[name] = step(Chunked(predictor, size.chunk), clip(format, size.batch, size.frames, device), predictor)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        functions[name]()
        figures[name] = {"parameters": sum(p.numel() for p in predictor.parameters())}
        if device.type == "cuda":
            figures[name]["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    where = (
        f"{size.preset}, training step, {size.batch} clips of {size.frames} frames in chunks of {size.chunk}, bfloat16"
    )
    for row in to_rows(compare(functions, max(1, rounds // 3), title="training"), where, "convs5"):
        assert row.median_ms is not None
        rate = {"frames_per_second": 1e3 * size.batch * size.frames / row.median_ms}
        yield replace(row, figures=rate | figures[row.name])


def compiled(size: Size, device: torch.device, rounds: int) -> Iterator[Row]:
    where = f"{size.preset}, training step, {size.batch} clips of {size.chunk} frames, bfloat16"
    predictor, format = build(size.preset, device)
    given = clip(format, size.batch, size.chunk, device)
    function = step(torch.compile(predictor, fullgraph=True, dynamic=False), given, predictor)
    started = time.perf_counter()
    try:
        function()
    except Exception as error:  # no compiler for C++ or for the GPU: what is raised differs from machine to machine
        yield Row(
            "compiled", where, None, note=f"not measured: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        )
        return
    seconds = {"compile_seconds": time.perf_counter() - started}
    functions = {"eager": step(predictor, given, predictor), "compiled": function}
    for row in to_rows(compare(functions, rounds, title="compile"), where, "eager"):
        yield replace(row, figures=seconds if row.name == "compiled" else {})


def rollouts(size: Size, device: torch.device, rounds: int) -> Iterator[Row]:
    predictor, format = build(size.preset, device)
    predictor.eval()
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        state = predictor.observe(clip(format, size.batch, 4, device))

    def by_step() -> None:
        after = state
        with torch.no_grad():
            for _ in range(size.horizon):
                _, after = predictor.predict(after)

    def by_rollout() -> None:
        for _ in islice(rollout(predictor, state), size.horizon):
            pass

    functions = {
        "predict": _ended(by_step, device, bfloat16=True),
        "rollout": _ended(by_rollout, device, bfloat16=True),
    }
    where = f"{size.preset}, {size.horizon} frames of {size.batch} clips, bfloat16"
    for row in to_rows(compare(functions, max(1, rounds // 3), title="rollout"), where, "predict"):
        assert row.median_ms is not None
        yield replace(row, figures={"frames_per_second": 1e3 * size.batch * size.horizon / row.median_ms})


def build(preset: str, device: torch.device, dynamics: Any = None) -> tuple[Any, Format]:
    """The preset's model, with other dynamics in it if they are given, and what its frames look like."""
    predictor, recipe = _parts(preset)
    if dynamics is not None:
        predictor = replace(predictor, stack=replace(predictor.stack, dynamics=dynamics))
    torch.manual_seed(0)
    return predictor.build(recipe.format).to(device), recipe.format


def clip(format: Format, batch: int, frames: int, device: torch.device) -> Clip:
    """Noise: what it costs does not depend on what is to be seen."""
    size = (batch, frames, format.height, format.width, format.channels)
    return Clip(frames=torch.randint(0, 256, size, dtype=torch.uint8)).to(device)


def step(fed: Any, given: Clip, predictor: torch.nn.Module) -> Callable[[], object]:
    """An update by a predictor as it is fed: loss and gradient in bfloat16, AdamW."""
    device = given.content.device
    optimizer = torch.optim.AdamW(predictor.parameters())

    def call() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss, *_ = fed(given)
        loss.backward()
        optimizer.step()

    return _ended(call, device)


def _ended(
    function: Callable[[], Any], device: torch.device, *, calls: int = 1, bfloat16: bool = False
) -> Callable[[], object]:
    """So many calls of the function, over when the device is done."""

    def call() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            for _ in range(calls):
                function()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return call


def _parts(preset: str) -> tuple[PixelConfig, Recipe]:
    raw = config.read(config.find("presets", preset))
    recipe = config.from_dict(Recipe, config.read(config.find("recipes", raw["recipe"])), "recipe")
    return config.from_dict(Predictor, raw["predictor"], "predictor"), recipe


def _scan_shape(size: Size) -> tuple[tuple[int, ...], int]:
    """(b, t, h, w, p, 2) of the scan in the preset's ConvS5, and p."""
    predictor, recipe = _parts(size.preset)
    stride, dynamics = predictor.codec.stride, predictor.stack.dynamics
    assert isinstance(dynamics, ConvS5Config)
    latent, states = (recipe.format.height // stride, recipe.format.width // stride), dynamics.num_states // 2
    return (size.batch, size.frames, *latent, states, 2), states
