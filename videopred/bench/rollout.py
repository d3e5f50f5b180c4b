"""A long rollout to an mp4: does a late frame cost what an early one costs, in time and in memory?

Also what is spared: the discretisation that all frames share, and encoding while the next frames are predicted; and how
other memories do (`horizon`).

One rollout of one clip goes to a file, as `videopred rollout` writes it. The states that it passes at frame 100 and at
its last frame are kept, and steps from the two are then timed in turn; resident memory is read at a tenth of the
rollout, when every buffer of the encoder is filled, and at its end.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from videopred import checkpoint as checkpoints
from videopred import config
from videopred.bench import horizon
from videopred.bench.machine import resident_mib
from videopred.bench.rounds import Row, compare, to_rows
from videopred.bench.savings import savings, unknown
from videopred.clip import Clip, stack, to_uint8
from videopred.data import Recipe
from videopred.data.drawing import Layout
from videopred.data.writer import rollout_writer
from videopred.predictors import Predictor
from videopred.rollout import noise_for, rollout

MODEL = "moving-mnist-small"  # the shipped model, and the preset it was trained with
EARLY, HORIZON, CONTEXT = 100, 10_000, 16


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    name, predictor, recipe = model(checkpoint)
    late = HORIZON // 10 if quick else HORIZON
    yield from measure(name, predictor, recipe, EARLY, late, rounds=51 if quick else 201)
    clip = stack([recipe.build("test", CONTEXT)[0]])
    yield from savings(shape(name, recipe), predictor, clip, frames=32 if quick else 128, rounds=3 if quick else 11)
    yield from horizon.rows(quick)


def model(checkpoint: str | None) -> tuple[str, Any, Recipe]:
    """Name, model and recipe of `checkpoint`; None: the shipped one, or where it is missing its preset, untrained."""
    try:
        loaded = checkpoints.load(checkpoint or MODEL)
        return loaded.name, loaded.predictor, loaded.recipe
    except FileNotFoundError:
        if checkpoint is not None:
            raise
    raw = config.read(config.find("presets", MODEL))
    recipe = config.from_dict(Recipe, config.read(config.find("recipes", raw["recipe"])), "recipe")
    torch.manual_seed(0)
    predictor = config.from_dict(Predictor, raw["predictor"], "predictor").build(recipe.format)
    return f"{MODEL} (untrained)", predictor.eval(), recipe


def measure(name: str, predictor, recipe: Recipe, early: int, late: int, rounds: int) -> Iterator[Row]:
    clip = stack([recipe.build("test", CONTEXT)[0]])
    passing = Passing(predictor, (early, late))
    resident = roll_out(passing, clip, late)
    action, noise = unknown(predictor), noise_for(predictor, 0, clip.id, 0, 0)  # type: ignore[arg-type]
    functions = {
        f"step at frame {frame}": lambda state=state: predictor.predict(state, action, noise)
        for frame, state in passing.states.items()
    }
    where = shape(name, recipe)
    with torch.no_grad():
        seconds = compare(functions, rounds, title="steps")
    for row in to_rows(seconds, where, f"step at frame {early}"):
        assert row.median_ms is not None
        yield replace(row, figures={"frames_per_second": 1e3 / row.median_ms})
    yield from memory(resident, where)


def shape(name: str, recipe: Recipe) -> str:
    return f"{name}, {recipe.format.height}x{recipe.format.width}x{recipe.format.channels}, B 1"


class Passing:
    """A predictor that keeps the states from which it predicted the frames numbered `frames`, counted from 1."""

    def __init__(self, predictor, frames: tuple[int, ...]):
        self.predictor, self.frames = predictor, frames
        self.states: dict[int, Any] = {}
        self.count = 0

    def predict(self, state, action, noise):
        self.count += 1
        if self.count in self.frames:
            self.states[self.count] = state
        return self.predictor.predict(state, action, noise)


def roll_out(passing: Passing, clip: Clip, horizon: int) -> dict[int, float | None]:
    """Rolls `clip` out into an mp4 that is thrown away; MiB resident at a tenth and at the end, by frame."""
    predictor, truth = passing.predictor, clip.content.numpy()
    ids: tuple[str, ...] = clip.id  # type: ignore[assignment]
    with torch.no_grad():
        state = predictor.observe(clip)
    actions = None if (action := unknown(predictor)) is None else action[:, None].expand(1, horizon)
    frames = rollout(passing, state, actions=actions, noise=lambda i: noise_for(predictor, 0, ids, 0, i))
    layout = Layout(predictor.format, ids, CONTEXT, horizon)
    resident = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        rollout_writer(Path(folder) / "rollout.mp4", layout, Fraction(20)) as write,
    ):
        for t in range(CONTEXT):
            write(truth[:, t], truth[:, t, None])
        for i in tqdm(range(1, horizon + 1), desc="rollout", unit=" frames", disable=None, leave=False):
            write(None, to_uint8(next(frames).unsqueeze(1)).numpy())
            if i in (horizon // 10, horizon):
                resident[i] = resident_mib()
    return resident


def memory(resident: dict[int, float | None], shape: str) -> Iterator[Row]:
    early, late = (f"memory at frame {frame}" for frame in resident)
    first, last = resident.values()
    if first is None or last is None:
        yield Row(late, shape, None, note="not measured: this system does not tell how much memory a process holds")
        return
    yield Row(early, shape, None, rounds=1, figures={"resident_mib": first})
    yield Row(late, shape, None, early, last / first, rounds=1, figures={"resident_mib": last})
