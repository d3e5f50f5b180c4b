"""One picture of a whole rollout: a column per chosen frame, for each clip a row of truth above its predictions.

Columns are labelled with the number of a context frame, or with how far ahead a frame was predicted: "+1", "+20"; of
frames that were not predicted, such as those made from their own tokens, with their number in the clip. Where frames
have words (the actions that led to them), they stand below each clip.
"""

import numpy as np

from videopred.clip import Format
from videopred.data.drawing import (
    BRIGHT,
    DIM,
    LINE,
    PREDICTED,
    SHOWN,
    TEXT,
    Layout,
    blank,
    length,
    put,
    write,
)

MARGIN, GAP, STEP = 12, 10, 3  # STEP lies between frames, GAP between clips and between context and predictions
ROOM = (1600, 1600)
SIDE = 80
CONTEXT_COLUMNS, COLUMNS = 4, 12


class Strip:
    """`add` takes the rollout frame by frame; `picture` is uint8 (height, width, 3)."""

    def __init__(self, layout: Layout):
        self.layout, self.time = layout, 0
        context = np.linspace(1, layout.context, min(CONTEXT_COLUMNS, layout.context)).round().astype(int)
        self.columns = {int(t) - 1: (f"{t}", SHOWN) for t in context}
        self.columns |= {layout.context + t - 1: (layout.ahead(t), PREDICTED) for t in _spread(layout.horizon)}
        self.scale = layout.fit(self._size, SIDE, ROOM)
        self.picture = blank(self._size(self.scale))
        for column, (label, colour) in enumerate(self.columns.values()):
            write(self.picture, MARGIN // 2, self._x(column, self.scale), label, colour)
        for i in range(len(layout.clips)):
            for j, label in enumerate(layout.labels):
                middle = self._y(i, j, self.scale) + (layout.place(self.scale)[0] - TEXT) // 2
                write(self.picture, middle, MARGIN, label, BRIGHT if j else DIM)
        mark = self._x(len(context), self.scale) - (GAP + STEP) // 2 - 1
        self.picture[MARGIN // 2 : -MARGIN, mark : mark + 2] = LINE

    def add(self, real: np.ndarray | None, fake: np.ndarray) -> None:
        """The next frame: what `Board.draw` takes. It is drawn if its column was chosen."""
        if self.time in self.columns:
            x, colour = self._x(list(self.columns).index(self.time), self.scale), self.columns[self.time][1]
            height, width = self.layout.place(self.scale)
            for i in range(len(self.layout.clips)):
                for j, frame in enumerate((None if real is None else real[i], *fake[i])):
                    y = self._y(i, j, self.scale)
                    put(self.picture[y : y + height, x : x + width], frame, colour if j else LINE, self.scale)
                if self.layout.words:
                    under = self._y(i, len(self.layout.labels), self.scale)
                    write(self.picture, under, x, self.layout.words[i][self.time], DIM)
        self.time += 1

    def _x(self, column: int, scale: int) -> int:
        texts = max(length(*(label for label, _ in self.columns.values())), self.layout.wordiest)
        cell = max(self.layout.place(scale)[1], texts + STEP)
        shown = min(CONTEXT_COLUMNS, self.layout.context)
        return MARGIN + length(*self.layout.labels) + GAP + column * (cell + STEP) + (GAP if column >= shown else 0)

    def _y(self, clip: int, place: int, scale: int) -> int:
        step = self.layout.place(scale)[0] + STEP
        below = TEXT if self.layout.words else 0
        return MARGIN // 2 + TEXT + clip * (len(self.layout.labels) * step + below + GAP) + place * step

    def _size(self, scale: int) -> tuple[int, int]:
        """Height and width of the picture."""
        bottom, right = self._y(len(self.layout.clips), 0, scale) - GAP - STEP, self._x(len(self.columns), scale) - STEP
        return bottom + MARGIN, right + MARGIN


def strip(
    real: np.ndarray, fake: np.ndarray, context: int, scale: int | None = None, made: str = "prediction"
) -> np.ndarray:
    """The strip of whole clips, uint8 (n, t, h, w, c), of which `real` may be shorter: uint8 (height, width, 3)."""
    count, frames, height, width, channels = fake.shape
    layout = Layout(Format(channels, height, width), ("",) * count, context, frames - context, scale=scale, made=made)
    drawn = Strip(layout)
    for t in range(frames):
        drawn.add(real[:, t] if t < real.shape[1] else None, fake[:, t, None])
    return drawn.picture


def _spread(horizon: int) -> list[int]:
    """At most COLUMNS + 2 of the numbers 1..horizon: the first, multiples of a round number, and the last."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    step = next(step for step in steps if horizon <= step * COLUMNS)
    return sorted({1, *range(step, horizon + 1, step), horizon})
