"""Time of a frame over the horizon: ConvS5 beside the other memories of `contenders`, one clip; then many at a time.

The state at frame n is that after n frames of a clip; a transformer is shown its window, for it has forgotten the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from videopred.bench import contenders, machine
from videopred.bench.rounds import Row, compare, to_rows
from videopred.clip import Clip

FRAMES = (10, 100, 1000, 10_000)
ROUNDS = {10: 31, 100: 31, 1000: 5, 10_000: 5}
BATCH, AT = 32, 100
CHUNK = 250  # frames that are observed at a time


@torch.no_grad()
def rows(quick: bool) -> Iterator[Row]:
    torch.manual_seed(0)
    predictors = {name: contenders.build(stack).eval() for name, stack in contenders.stacks().items()}
    for frame in FRAMES[:2] if quick else FRAMES:
        yield from steps(predictors, frame, 1, rounds=3 if quick else ROUNDS[frame])
    yield from steps(predictors, AT, BATCH, rounds=1 if quick else 5)


def steps(predictors: dict[str, contenders.PixelPredictor], frame: int, batch: int, rounds: int) -> Iterator[Row]:
    states = {name: observed(predictor, frame, batch) for name, predictor in predictors.items()}
    functions: dict[str, Callable[[], object]] = {
        name: lambda predictor=predictor, state=states[name]: predictor.predict(state)
        for name, predictor in predictors.items()
    }
    work = {name: machine.work(function) for name, function in functions.items()}
    shape = f"frame {frame:,}, B {batch}, 8x8, U {contenders.WIDTH}, {contenders.DEPTH} layers, step of a rollout"
    seconds = compare(functions, rounds, title=f"frame {frame:,}", warmup=1)
    for row in to_rows(seconds, shape, contenders.BASE):
        assert row.median_ms is not None
        figures = {"frames_per_second": 1e3 * batch / row.median_ms, "state_kib": bytes_of(states[row.name]) / 1024}
        yield replace(row, figures=figures, work=work[row.name])


def observed(predictor: contenders.PixelPredictor, frame: int, batch: int) -> Any:
    """The state after `frame` frames of noise, or, of a member with a window, after so many as it can see."""
    window = getattr(predictor.stack.layers[0].dynamics, "window", frame)
    form, left, state = contenders.FORMAT, min(frame, window), None
    while left:
        size = (batch, min(left, CHUNK), form.height, form.width, form.channels)
        state = predictor.observe(Clip(frames=torch.randint(0, 256, size, dtype=torch.uint8)), state)
        left -= size[1]
    return state


def bytes_of(state: Any) -> int:
    if isinstance(state, tuple):
        return sum(map(bytes_of, state))
    return state.nbytes if isinstance(state, torch.Tensor) else 0
