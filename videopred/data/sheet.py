"""A contact sheet: some clips of every split, a row for each, with the actions that led to the frames below them."""

import numpy as np

from videopred.clip import Format
from videopred.data.drawing import BORDER, BRIGHT, DIM, LINE, TEXT, blank, length, put, write

MARGIN, GAP, STEP = 12, 10, 3
COLUMNS, WIDTH, SIDE = 12, 1600, 80  # at most so many frames and pixels in a row; a small frame is enlarged to SIDE


class Sheet:
    """`add` takes a clip after the other, `picture` is uint8 (height, width, 3)."""

    def __init__(self, format: Format, names: tuple[str, ...] = ()):
        """`names` are those of the actions."""
        self.names = names
        self.scale = max(1, SIDE // max(format.height, format.width))
        self.cell = format.height * self.scale + 2 * BORDER, format.width * self.scale + 2 * BORDER
        self.columns = min(COLUMNS, max(2, WIDTH // (self.cell[1] + STEP)))
        self.rows: list[np.ndarray] = []

    def head(self, words: str) -> None:
        """A line above the clips that follow."""
        self._row(TEXT + GAP)
        write(self.rows[-1], GAP, MARGIN, self._fitting(words, self._width - 2 * MARGIN), BRIGHT)

    def add(self, words: str, frames: np.ndarray, actions: np.ndarray | None) -> None:
        """A clip: what it is called, at most `columns` of its frames (n, h, w, c), and what led to each (n,)."""
        height, width = self.cell
        self._row(TEXT + height + (0 if actions is None else TEXT) + GAP)
        row = self.rows[-1]
        write(row, 0, MARGIN, self._fitting(words, self._width - 2 * MARGIN), DIM)
        for i, frame in enumerate(frames):
            x = MARGIN + i * (width + STEP)
            put(row[TEXT : TEXT + height, x : x + width], frame, LINE, self.scale)
            if actions is not None:
                write(row, TEXT + height, x, self._fitting(self._word(int(actions[i])), width), DIM)

    @property
    def picture(self) -> np.ndarray:
        return np.concatenate([*self.rows, blank((MARGIN, self._width))])

    @property
    def _width(self) -> int:
        return 2 * MARGIN + self.columns * (self.cell[1] + STEP) - STEP

    def _row(self, height: int) -> None:
        self.rows.append(blank((height, self._width)))

    def _word(self, action: int) -> str:
        return self.names[action] if 0 <= action < len(self.names) else str(action)

    def _fitting(self, words: str, width: int) -> str:
        while words and length(words) > width:
            words = words[:-1]
        return words
