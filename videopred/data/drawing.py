"""Rollouts as pictures for people: truth beside (`Board`) or above (`Strip`) prediction.

Frames are enlarged by whole numbers and never drawn upon: labels, marks and the time line stand on the padding around
them. What the model was shown is blue, what it predicted orange.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from videopred.clip import Format

Colour = tuple[int, int, int]
GROUND, EMPTY, LINE = (19, 21, 27), (28, 31, 39), (70, 76, 90)
BRIGHT, DIM = (226, 230, 238), (134, 142, 158)
SHOWN, PREDICTED = (92, 164, 255), (255, 168, 76)

MARGIN, GAP, BORDER, FONT_SIZE, TEXT = 12, 10, 2, 12, 16  # pixels; TEXT is the height of a line of text
BAR = 4  # height of the time line
LARGEST = 8192  # pixels along a side: what players and encoders take


@dataclass(frozen=True)
class Layout:
    """What is drawn: `samples` predictions of each clip of `clips` (their ids), `context` + `horizon` frames long.

    `scale` enlarges every pixel to a square of so many; None chooses one that suits the number of clips.
    """

    format: Format
    clips: tuple[str, ...]
    context: int
    horizon: int
    samples: int = 1
    scale: int | None = None

    @property
    def predictions(self) -> list[str]:
        """Labels of the predictions of a clip."""
        return ["prediction"] if self.samples == 1 else [f"sample {i + 1}" for i in range(self.samples)]


class Board:
    """One picture per frame: for each clip truth and predictions side by side; a counter and a time line below."""

    def __init__(self, layout: Layout):
        self.layout, self.time = layout, 0
        columns = ["truth", *layout.predictions]
        ids = [clip if len(layout.clips) > 1 else "" for clip in layout.clips]
        footer = _width(f"context {layout.context} / {layout.context}", _counted("predicted", layout.horizon))
        footer += GAP + _width(_counted("frame", layout.context + layout.horizon))

        def measure(scale: int) -> tuple[int, int]:
            """Size of the board; sets where everything stands."""
            height, width = layout.format.height * scale + 2 * BORDER, layout.format.width * scale + 2 * BORDER
            self.cell = max(width, _width(*columns))
            tile = len(columns) * (self.cell + GAP) - GAP, height + TEXT
            self.across = _most_like_a_screen(len(ids), tile)
            down = math.ceil(len(ids) / self.across)
            inner = max(self.across * (tile[0] + 2 * GAP) - 2 * GAP, footer)
            left = MARGIN + (inner - self.across * (tile[0] + 2 * GAP) + 2 * GAP) // 2
            self.tiles = [
                (MARGIN - 4 + row * (tile[1] + GAP), left + column * (tile[0] + 2 * GAP))
                for row in range(down)
                for column in range(self.across)
            ][: len(ids)]
            return 2 * MARGIN - 4 + down * (tile[1] + GAP) + TEXT + BAR + 2, inner + 2 * MARGIN

        self.scale, (height, width) = _fit(layout, measure, most=192, room=(1000, 1600))
        self.blank = np.full((height, width, 3), GROUND, np.uint8)
        for (y, x), name in zip(self.tiles, ids, strict=True):
            for i, label in enumerate(columns):
                _write(self.blank, y, x + i * (self.cell + GAP), label, BRIGHT if i else DIM)
            if name and _width("truth", name) + GAP <= self.cell:
                _write(self.blank, y, x + self.cell - _width(name), name, LINE)

    def draw(self, real: np.ndarray | None, fake: np.ndarray) -> np.ndarray:
        """The next frame: uint8 (height, width, 3).

        real : uint8 (n, h, w, c), or None where the truth has ended
        fake : uint8 (n, samples, h, w, c); during the context, the frames that the model is shown
        """
        layout, picture = self.layout, self.blank.copy()
        shown = self.time < layout.context
        colour = SHOWN if shown else PREDICTED
        for i, (y, x) in enumerate(self.tiles):
            y += TEXT
            self._place(picture, y, x, None if real is None else real[i], LINE)
            for sample in fake[i]:
                x += self.cell + GAP
                self._place(picture, y, x, sample, colour)
        number = self.time + 1
        words = f"context {number} / {layout.context}" if shown else _counted("predicted", layout.horizon, number - layout.context)
        total = layout.context + layout.horizon
        count = _counted("frame", total, number)
        height, width = picture.shape[:2]
        y = height - MARGIN - BAR - TEXT - 2
        _write(picture, y, MARGIN, words, colour)
        _write(picture, y, width - MARGIN - _width(count), count, DIM)
        y, length = height - MARGIN - BAR, width - 2 * MARGIN
        ends = [round(length * frames / total) for frames in (min(number, layout.context), number, total)]
        for start, end, part in zip([0, *ends], ends, (SHOWN, PREDICTED, EMPTY)):
            picture[y : y + BAR, MARGIN + start : MARGIN + end] = part
        self.time += 1
        return picture

    def _place(self, picture: np.ndarray, y: int, x: int, frame: np.ndarray | None, colour: Colour) -> None:
        _frame(picture, y, x, frame, colour, self.layout.format, self.scale)


class Strip:
    """One picture of a whole rollout: a column per chosen frame, for each clip a row of truth above its predictions."""

    def __init__(self, layout: Layout):
        self.layout, self.time = layout, 0
        context = np.unique(np.linspace(1, layout.context, min(4, layout.context)).round().astype(int))
        self.labels = {int(t) - 1: (str(t), SHOWN) for t in context}
        self.labels |= {layout.context + t - 1: (f"+{t}", PREDICTED) for t in _spread(layout.horizon)}
        rows = ["truth", *layout.predictions]

        def measure(scale: int) -> tuple[int, int]:
            height, width = layout.format.height * scale + 2 * BORDER, layout.format.width * scale + 2 * BORDER
            cell = max(width, _width(*(label for label, _ in self.labels.values())) + 4)
            left = MARGIN + _width(*rows) + GAP
            places = [left + i * (cell + 3) for i in range(len(self.labels))]
            places = [x if i < len(context) else x + GAP for i, x in enumerate(places)]
            self.columns = dict(zip(self.labels, places, strict=True))
            tile = len(rows) * (height + 3) + GAP - 3
            self.rows = [[MARGIN + TEXT + i * tile + j * (height + 3) for j in range(len(rows))]
                         for i in range(len(layout.clips))]  # fmt: skip
            self.middle = height // 2 - TEXT // 2
            self.mark = places[len(context)] - (GAP + 3) // 2 - 1
            return MARGIN + TEXT + len(layout.clips) * tile - GAP + MARGIN, places[-1] + cell + MARGIN

        self.scale, (height, width) = _fit(layout, measure, most=80, room=(1600, 1600))
        self.picture = np.full((height, width, 3), GROUND, np.uint8)
        for t, (label, colour) in self.labels.items():
            _write(self.picture, MARGIN - 4, self.columns[t], label, colour)
        for tops in self.rows:
            for y, label in zip(tops, rows, strict=True):
                _write(self.picture, y + self.middle, MARGIN, label, DIM if label == "truth" else BRIGHT)
        self.picture[MARGIN - 2 : height - MARGIN, self.mark : self.mark + 2] = LINE

    def add(self, real: np.ndarray | None, fake: np.ndarray) -> None:
        """The next frame, as `Board.draw` takes it; it is drawn if it is among the chosen."""
        if self.time in self.columns:
            x = self.columns[self.time]
            colour = self.labels[self.time][1]
            for i, tops in enumerate(self.rows):
                frames = [None if real is None else real[i], *fake[i]]
                for j, (y, frame) in enumerate(zip(tops, frames, strict=True)):
                    _frame(self.picture, y, x, frame, colour if j else LINE, self.layout.format, self.scale)
        self.time += 1


def strip(real: np.ndarray, fake: np.ndarray, context: int, scale: int | None = None) -> np.ndarray:
    """The strip of whole clips, uint8 (n, t, h, w, c); `real` may be shorter. Gives uint8 (height, width, 3)."""
    count, frames, height, width, channels = fake.shape
    layout = Layout(Format(channels, height, width), ("",) * count, context, frames - context, scale=scale)
    drawn = Strip(layout)
    for t in range(frames):
        drawn.add(real[:, t] if t < real.shape[1] else None, fake[:, t, None])
    return drawn.picture


def _frame(
    picture: np.ndarray, y: int, x: int, frame: np.ndarray | None, colour: Colour, format: Format, scale: int
) -> None:
    """A frame enlarged, with a border around it; where there is none, an empty place."""
    height, width = format.height * scale, format.width * scale
    picture[y : y + height + 2 * BORDER, x : x + width + 2 * BORDER] = EMPTY if frame is None else colour
    if frame is not None:
        inside = picture[y + BORDER : y + BORDER + height, x + BORDER : x + BORDER + width]
        squares = inside.reshape(format.height, scale, format.width, scale, 3)  # a view: axes are only split
        squares[:] = frame[:, None, :, None]


def _fit(layout: Layout, measure, most: int, room: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """The scale asked for, or the largest at which a frame is at most `most` wide and all fits `room`; and the size."""
    side = max(layout.format.height, layout.format.width)
    for scale in [layout.scale] if layout.scale else range(max(1, most // side), 0, -1):
        size = measure(scale)
        if size[0] <= room[0] and size[1] <= room[1]:
            break
    if max(size) > LARGEST:
        raise ValueError(f"the picture would be {size[1]} x {size[0]} pixels, at most {LARGEST} along a side are "
                         "possible; use fewer clips, fewer samples or a smaller scale")  # fmt: skip
    return scale, size


def _most_like_a_screen(count: int, tile: tuple[int, int]) -> int:
    """How many tiles (width, height) stand side by side, so that all together look most like 16:9."""
    def off(across: int) -> float:
        down = math.ceil(count / across)
        return abs(math.log(across * tile[0] / (down * tile[1]) * 9 / 16)) + 0.2 * (across * down - count) / count
    return min(range(1, count + 1), key=off)


def _spread(horizon: int, most: int = 12) -> list[int]:
    """At most `most` + 1 of the numbers 1..horizon: the first, round ones, and the last."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    step = next(step for step in steps if horizon <= step * most)
    return sorted({1, *range(step, horizon + 1, step), horizon})


def _counted(what: str, total: int, number: int | None = None) -> str:
    return f"{what} {total if number is None else number} / {total}"


def _write(picture: np.ndarray, y: int, x: int, words: str, colour: Colour) -> None:
    """A line of text with its upper left corner at (y, x), cut at the picture's edge."""
    letters = _text(words, colour)[:, : picture.shape[1] - x]
    picture[y : y + letters.shape[0], x : x + letters.shape[1]] = letters


@functools.lru_cache(256)
def _text(words: str, colour: Colour) -> np.ndarray:
    image = Image.new("RGB", (max(1, _width(words)), TEXT), GROUND)
    ImageDraw.Draw(image).text((0, 0), words, colour, _font())
    return np.asarray(image)


def _width(*lines: str) -> int:
    """Pixels that the longest of some lines of text takes."""
    return max(math.ceil(_font().getlength(line)) for line in lines)


@functools.cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(FONT_SIZE)
