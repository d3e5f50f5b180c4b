"""A rollout as one picture per frame: for each clip truth and predictions side by side, below them a time line.

Where frames have words (the actions that led to them), the newest stands beside the label of the first prediction.
"""

import math

import numpy as np

from videopred.data.drawing import (
    BRIGHT,
    DIM,
    EMPTY,
    LINE,
    PREDICTED,
    SHOWN,
    TEXT,
    Colour,
    Layout,
    blank,
    length,
    put,
    write,
)

MARGIN, GAP, BAR = 12, 10, 4
ROOM = (1000, 1600)
SIDE = 192
NO_TRUTH = "no truth"  # the clip has ended, or other actions were given than its own


class Board:
    """`draw` takes the rollout frame by frame and gives its pictures, all of one size."""

    def __init__(self, layout: Layout):
        self.layout, self.time = layout, 0
        self.scale = layout.fit(self._size, SIDE, ROOM)
        self.cell, self.tile, self.across = self._grid(self.scale)
        self.blank = blank(self._size(self.scale))
        for i, clip in enumerate(layout.clips):
            for j, label in enumerate(layout.labels):
                write(self.blank, *self._corner(i, j), label, BRIGHT if j else DIM)
            y, x = self._corner(i, 0)
            if len(layout.clips) > 1 and length("truth") + length(clip) + GAP <= self.cell:
                write(self.blank, y, x + self.cell - length(clip), clip, DIM)

    def draw(self, real: np.ndarray | None, fake: np.ndarray) -> np.ndarray:
        """The next frame: uint8 (height, width, 3).

        real : uint8 (n, h, w, c), or None where there is no truth (any more)
        fake : uint8 (n, samples, h, w, c); during the context, the frames that the model is shown
        """
        picture = self.blank.copy()
        colour = SHOWN if self.time < self.layout.context else PREDICTED
        for i in range(len(self.layout.clips)):
            self._put(picture, i, 0, None if real is None else real[i], LINE)
            for j, frame in enumerate(fake[i], 1):
                self._put(picture, i, j, frame, colour)
            if self.layout.words:
                word, (y, x) = self.layout.words[i][self.time], self._corner(i, 1)
                write(picture, y, x + self.cell - length(word), word, colour)
        self.time += 1
        self._foot(picture, colour)
        return picture

    def _put(self, picture: np.ndarray, clip: int, place: int, frame: np.ndarray | None, colour: Colour) -> None:
        y, x = self._corner(clip, place)
        height, width = self.layout.place(self.scale)
        put(picture[y + TEXT : y + TEXT + height, x : x + width], frame, colour, self.scale)
        if frame is None and (wide := length(NO_TRUTH)) < width:
            write(picture, y + (TEXT + height) // 2, x + (width - wide) // 2, NO_TRUTH, DIM, EMPTY)

    def _foot(self, picture: np.ndarray, colour: Colour) -> None:
        """What the newest frame is, and where it stands in the whole."""
        context, horizon, now = self.layout.context, self.layout.horizon, self.time
        words = f"context {now} / {context}" if now <= context else f"predicted {now - context} / {horizon}"
        count = f"frame {now} / {context + horizon}"
        height, width = picture.shape[:2]
        write(picture, height - MARGIN - BAR - TEXT, MARGIN, words, colour)
        write(picture, height - MARGIN - BAR - TEXT, width - MARGIN - length(count), count, DIM)
        line = picture[height - MARGIN - BAR : height - MARGIN, MARGIN : width - MARGIN]
        line[:] = EMPTY
        line[:, : round(line.shape[1] * now / (context + horizon))] = PREDICTED
        line[:, : round(line.shape[1] * min(now, context) / (context + horizon))] = SHOWN

    def _corner(self, clip: int, place: int) -> tuple[int, int]:
        """Where the label of a place stands: upper left corner (y, x)."""
        row, column = divmod(clip, self.across)
        (height, width), inner = self.tile, self.blank.shape[1] - 2 * MARGIN
        left = MARGIN + (inner - self.across * (width + 2 * GAP) + 2 * GAP) // 2
        return MARGIN // 2 + row * (height + GAP), left + column * (width + 2 * GAP) + place * (self.cell + GAP)

    def _size(self, scale: int) -> tuple[int, int]:
        """Height and width of the picture."""
        _, (height, width), across = self._grid(scale)
        context, horizon = self.layout.context, self.layout.horizon
        total = context + horizon
        left = length(f"context {context} / {context}", f"predicted {horizon} / {horizon}")
        foot = left + 2 * GAP + length(f"frame {total} / {total}")
        down = math.ceil(len(self.layout.clips) / across)
        inner = max(across * (width + 2 * GAP) - 2 * GAP, foot)
        return MARGIN // 2 + down * (height + GAP) + TEXT + BAR + MARGIN, inner + 2 * MARGIN

    def _grid(self, scale: int) -> tuple[int, tuple[int, int], int]:
        """Width of a place, (height, width) of a clip's places, and how many clips stand side by side."""
        labels, (height, width) = self.layout.labels, self.layout.place(scale)
        cell = max(width, length(*labels) + (GAP + self.layout.wordiest if self.layout.words else 0))
        tile = height + TEXT, len(labels) * (cell + GAP) - GAP
        return cell, tile, _like_a_screen(len(self.layout.clips), tile)


def _like_a_screen(count: int, tile: tuple[int, int]) -> int:
    """How many tiles (height, width) must stand side by side for all to look like 16:9, with few places left over."""

    def off(across: int) -> float:
        down = math.ceil(count / across)
        ratio = (across * tile[1]) / (down * tile[0])
        return abs(math.log(ratio * 9 / 16)) + (across * down - count) / count

    return min(range(1, count + 1), key=off)
