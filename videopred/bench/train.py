"""A step of training on ever longer clips: ConvS5 beside the other memories of `contenders`.

One clip through the whole predictor: loss, backward, AdamW. A step at each length counts its work, warms the model up,
and is not timed. The transformer sees all of the clip; that it has a cache does not matter here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from videopred.bench import contenders, machine
from videopred.bench.rounds import Row, compare, to_rows
from videopred.clip import Clip

LENGTHS = (64, 256, 1024)  # frames to predict
ROUNDS = {64: 11, 256: 5, 1024: 3}


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    for length in LENGTHS[:-1] if quick else LENGTHS:
        yield from steps(length, rounds=1 if quick else ROUNDS[length])


def steps(length: int, rounds: int) -> Iterator[Row]:
    torch.manual_seed(0)
    form = contenders.FORMAT
    frames = torch.randint(0, 256, (1, length + 1, form.height, form.width, form.channels), dtype=torch.uint8)
    stacks = {name: stack for name, stack in contenders.stacks().items() if name != contenders.RE_ENCODING}
    predictors = {name: contenders.build(stack) for name, stack in stacks.items()}
    functions = {name: step(predictor, Clip(frames=frames)) for name, predictor in predictors.items()}
    work = {name: machine.work(function) for name, function in functions.items()}
    seconds = compare(functions, rounds, title=f"T {length}", warmup=0, calls=1)
    shape = f"T {length}, B 1, 8x8, U {contenders.WIDTH}, {contenders.DEPTH} layers, training step"
    for row in to_rows(seconds, shape, contenders.BASE):
        assert row.median_ms is not None
        parameters = contenders.size(predictors[row.name].stack)
        figures = {"parameters": parameters, "frames_per_second": 1e3 * length / row.median_ms}
        yield replace(row, figures=figures, work=work[row.name])


def step(predictor: torch.nn.Module, clip: Clip) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(predictor.parameters())

    def call() -> None:
        optimizer.zero_grad()
        loss, *_ = predictor(clip)
        loss.backward()
        optimizer.step()

    return call
