"""What pictures of rollouts are made of: a layout, colours, text and enlarged frames. `board` and `strip` arrange them.

Frames are enlarged by whole numbers and never drawn upon: labels, marks and the time line stand on the ground around
them. What the model was shown is marked blue, what it predicted orange.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from videopred.clip import Format

Colour = tuple[int, int, int]
GROUND, EMPTY, LINE, DIM, BRIGHT = (19, 21, 27), (36, 40, 50), (74, 81, 96), (134, 142, 158), (226, 230, 238)
SHOWN, PREDICTED = (92, 164, 255), (255, 168, 76)
BORDER, TEXT = 2, 18  # pixels around a frame; height of a line of text
FONT_SIZE = 12
PREDICTION = "prediction"
LARGEST = 8192  # pixels along a side: what players and encoders take


@dataclass(frozen=True)
class Layout:
    """What is drawn: `samples` predictions of each clip of `clips` (their ids), `context` + `horizon` frames long.

    `scale` makes every pixel a square of so many; None chooses one that suits the number of clips. `words` says, for
    each clip, what led to each of its frames (its action); it may be empty. `made` is what a frame beside the truth is.
    """

    format: Format
    clips: tuple[str, ...]
    context: int
    horizon: int
    samples: int = 1
    scale: int | None = None
    words: tuple[tuple[str, ...], ...] = ()
    made: str = PREDICTION

    @property
    def labels(self) -> list[str]:
        """Of the places of one clip: truth and predictions."""
        return ["truth", *([self.made] if self.samples == 1 else [f"sample {i + 1}" for i in range(self.samples)])]

    def ahead(self, number: int) -> str:
        """How a frame after the context is labelled: if predicted, how far ahead; else its number in the clip."""
        return f"+{number}" if self.made == PREDICTION else f"{self.context + number}"

    @functools.cached_property
    def wordiest(self) -> int:
        """Pixels that the longest of the words takes."""
        return length("", *{word for clip in self.words for word in clip})

    def place(self, scale: int) -> tuple[int, int]:
        """Height and width that a frame takes with its border."""
        return self.format.height * scale + 2 * BORDER, self.format.width * scale + 2 * BORDER

    def fit(self, size: Callable[[int], tuple[int, int]], side: int, room: tuple[int, int]) -> int:
        """The scale: as asked for, or the largest at which frames stay within `side` pixels and all fits `room`.

        `size` tells (height, width) of the picture at a scale. Raises ValueError if it is too large for an encoder.
        """
        most = max(1, side // max(self.format.height, self.format.width))
        scales = [self.scale] if self.scale else range(most, 0, -1)
        scale = next((s for s in scales if all(a <= b for a, b in zip(size(s), room))), scales[-1])
        height, width = size(scale)
        if max(height, width) > LARGEST:
            raise ValueError(f"the picture would be {width} x {height} pixels, and at most {LARGEST} along a side are "
                             "possible; use fewer clips, fewer samples or a smaller scale")  # fmt: skip
        return scale


def blank(size: tuple[int, int]) -> np.ndarray:
    """An empty picture, uint8 (height, width, 3)."""
    return np.full((*size, 3), GROUND, np.uint8)


def put(place: np.ndarray, frame: np.ndarray | None, border: Colour, scale: int) -> None:
    """Fills a place (`Layout.place`) of a picture with an enlarged frame (h, w, c) and its border, or as empty."""
    place[:] = EMPTY if frame is None else border
    if frame is not None:
        inside = place[BORDER:-BORDER, BORDER:-BORDER]
        inside.reshape(frame.shape[0], scale, frame.shape[1], scale, 3)[:] = frame[:, None, :, None]  # a view


def write(picture: np.ndarray, y: int, x: int, words: str, colour: Colour, ground: Colour = GROUND) -> None:
    """A line of text, its upper left corner at (y, x)."""
    letters = _letters(words, colour, ground)
    picture[y : y + letters.shape[0], x : x + letters.shape[1]] = letters


def length(*lines: str) -> int:
    """Pixels that the longest of some lines of text takes."""
    return max(math.ceil(_font().getlength(line)) for line in lines)


@functools.lru_cache(256)
def _letters(words: str, colour: Colour, ground: Colour) -> np.ndarray:
    image = Image.new("RGB", (max(1, length(words)), TEXT), ground)
    ImageDraw.Draw(image).text((0, 0), words, colour, _font())
    return np.asarray(image)


@functools.cache
def _font():
    return ImageFont.load_default(FONT_SIZE)
