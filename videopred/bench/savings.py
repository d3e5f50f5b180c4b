"""What a rollout spares: a discretisation for every frame, and waiting until a frame is encoded.

steps       from one state; discretised once for all of them, or each time anew
frames      of a short rollout into an mp4, drawn and encoded in another thread, or in turn with the predictions
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch

from videopred.bench.rounds import Row, compare, to_rows
from videopred.clip import Clip, to_uint8
from videopred.data.board import Board
from videopred.data.drawing import Layout
from videopred.data.video_writer import VideoWriter
from videopred.data.writer import rollout_writer
from videopred.nn.recall import Recall
from videopred.rollout import noise_for, rollout

FPS = Fraction(20)
Writer = Callable[[Path, Layout, Fraction], AbstractContextManager[Callable]]


def unknown(predictor) -> torch.Tensor | None:
    """For a model that needs actions one (1,) that says nothing; None for others."""
    return torch.full((1,), -1) if predictor.format.num_actions > 1 else None


@torch.no_grad()
def savings(shape: str, predictor, clip: Clip, frames: int, rounds: int) -> Iterator[Row]:
    ids: tuple[str, ...] = clip.id  # type: ignore[assignment]
    state, action, noise = predictor.observe(clip), unknown(predictor), noise_for(predictor, 0, ids, 0, 0)
    actions = None if action is None else action[:, None].expand(1, frames)
    recalls = [part for module in predictor.modules() for part in vars(module).values() if isinstance(part, Recall)]

    def anew() -> None:
        for recall in recalls:
            recall.forget()
        predictor.predict(state, action, noise)

    steps = {"discretised once": lambda: predictor.predict(state, action, noise), "discretised anew": anew}
    yield from to_rows(compare(steps, 10 * rounds, title="steps"), f"{shape}, step", "discretised once")

    def write(writer: Writer) -> None:
        made = rollout(predictor, state, actions=actions, noise=lambda i: noise_for(predictor, 0, ids, 0, i))
        layout = Layout(predictor.format, ids, 1, frames)
        with tempfile.TemporaryDirectory() as folder, writer(Path(folder) / "rollout.mp4", layout, FPS) as take:
            for frame in itertools.islice(made, frames):
                take(None, to_uint8(frame.unsqueeze(1)).numpy())

    files = {"encoded meanwhile": lambda: write(rollout_writer), "encoded in turn": lambda: write(in_turn)}
    for row in to_rows(compare(files, rounds, title="files"), f"{shape}, {frames} frames to mp4", "encoded meanwhile"):
        assert row.median_ms is not None
        yield replace(row, figures={"frames_per_second": 1e3 * frames / row.median_ms})


@contextmanager
def in_turn(path: Path, layout: Layout, fps: Fraction) -> Iterator[Callable]:
    """As `rollout_writer` for a video, but in the caller's thread."""
    board = Board(layout)
    with VideoWriter(path, fps) as video:
        yield lambda real, fake: video.write(board.draw(real, fake))
