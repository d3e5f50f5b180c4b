"""Pictures of rollouts: frames stand in them pixel for pixel, marks around them, and what is where."""

import numpy as np
import pytest

from videopred.clip import Format
from videopred.data.board import GAP, Board
from videopred.data.drawing import BORDER, DIM, EMPTY, GROUND, PREDICTED, SHOWN, TEXT, Layout, length, write
from videopred.data.strip import STEP, Strip, strip


def layout(count=1, samples=1, scale=3, context=2, horizon=3, channels=3, words=(), made="prediction") -> Layout:
    ids = tuple(f"test/{i}" for i in range(count))
    return Layout(Format(channels, 7, 9), ids, context, horizon, samples, scale, words, made)


def frames(count, samples, seed=0, channels=3):
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, 256, (count, 7, 9, channels), dtype=np.uint8),
        rng.integers(0, 256, (count, samples, 7, 9, channels), dtype=np.uint8),
    )


def enlarged(frame: np.ndarray, scale: int) -> np.ndarray:
    return np.broadcast_to(frame, (*frame.shape[:2], 3)).repeat(scale, 0).repeat(scale, 1)


def find(picture: np.ndarray, wanted: np.ndarray) -> list[tuple[int, int]]:
    """Every corner at which `wanted` stands in the picture, pixel for pixel."""
    height, width = wanted.shape[:2]
    ys, xs = np.nonzero((picture[: 1 - height or None, : 1 - width or None] == wanted[0, 0]).all(-1))
    corners = zip(ys.tolist(), xs.tolist())
    return [(y, x) for y, x in corners if np.array_equal(picture[y : y + height, x : x + width], wanted)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("count", "samples", "scale"), [(1, 1, 1), (1, 1, 4), (5, 1, 2), (2, 3, 3)])
def test_board_shows_every_pixel_of_every_frame_once(count, samples, scale, channels):
    real, fake = frames(count, samples, channels=channels)
    picture = Board(layout(count, samples, scale, channels=channels)).draw(real, fake)
    assert picture.dtype == np.uint8
    for i in range(count):
        places = [find(picture, enlarged(frame, scale)) for frame in (real[i], *fake[i])]
        assert all(len(place) == 1 for place in places)
        corners = [place[0] for place in places]
        assert corners == sorted(corners) and len({y for y, _ in corners}) == 1, "truth left, then the samples"


def test_board_marks_the_context():
    board, (real, fake) = Board(layout()), frames(1, 1)
    colours = []
    for _ in range(5):
        picture = board.draw(real, fake)
        [(y, x)] = find(picture, enlarged(fake[0, 0], 3))
        ring = picture[y - BORDER : y + 21 + BORDER, x - BORDER : x + 27 + BORDER].copy()
        ring[BORDER:-BORDER, BORDER:-BORDER] = ring[0, 0]
        assert (ring == ring[0, 0]).all()
        colours.append(tuple(ring[0, 0].tolist()))
    assert colours == [SHOWN] * 2 + [PREDICTED] * 3


def test_the_time_line_turns_at_the_end_of_the_context_and_ends_full():
    board, (real, fake) = Board(layout(context=4, horizon=6)), frames(1, 1)
    for t in range(10):
        line = board.draw(real, fake)[-14, 12:-12]
        shares = [(line == colour).all(-1).mean() for colour in (SHOWN, PREDICTED, EMPTY)]
        expected = [min(t + 1, 4) / 10, max(0, t - 3) / 10, (9 - t) / 10]
        assert shares == pytest.approx(expected, abs=0.01)


def test_text_never_touches_a_frame_and_is_never_cut():
    tiny = Layout(Format(1, 4, 4), ("a-clip-of-a-very-long-name/0", "b"), 1000, 100_000, 2, 1)
    board = Board(tiny)
    assert board.cell >= length("sample 2") and board.blank.shape[1] > length("predicted 100000 / 100000")
    real = np.zeros((2, 4, 4, 1), np.uint8)
    first, second = (board.draw(real, np.full((2, 2, 4, 4, 1), v, np.uint8)) for v in (9, 200))
    changed = np.argwhere((first != second).any(-1))
    inside = [tuple(place) for place in changed if second[tuple(place)].tolist() == [200] * 3]
    assert len(inside) == 4 * 16
    foot = board.blank.shape[0] - 12 - 4 - TEXT
    assert all(place in set(inside) or place[0] >= foot for place in map(tuple, changed))


def test_board_goes_on_after_the_truth_has_ended():
    board, (_, fake) = Board(layout(scale=6)), frames(1, 1)
    picture = board.draw(None, fake)
    [(y, x)] = find(picture, enlarged(fake[0, 0], 6))
    left = picture[y : y + 42, x - board.cell - GAP :][:, :54]
    assert 0.8 < (left == EMPTY).all(-1).mean() < 1, "an empty place, and the word"


def test_what_was_not_predicted_is_labelled_by_its_number_in_the_clip():
    predicted, made = (Strip(layout(made=word)) for word in ("prediction", "from tokens"))
    labels = [[label for label, _ in drawn.columns.values()] for drawn in (predicted, made)]
    ahead = [int(label) for label in labels[0] if label.startswith("+")]
    assert ahead and labels[1][-len(ahead) :] == [str(predicted.layout.context + t) for t in ahead]


def test_the_scale_suits_the_number_of_clips():
    scales = [Board(layout(count, scale=None)).scale for count in (1, 4, 40, 400)]
    assert scales == sorted(scales, reverse=True) and scales[0] > 10 and scales[-1] >= 1
    assert all(side <= 1600 for side in Board(layout(40, scale=None)).blank.shape)


@pytest.mark.parametrize("drawn", [Board, Strip])
def test_a_picture_too_large_is_refused_before_it_is_made(drawn):
    with pytest.raises(ValueError, match=r"would be \d+ x \d+ pixels.*smaller scale"):
        drawn(layout(scale=100_000))


def test_strip_has_truth_above_prediction_and_context_before_it():
    rng = np.random.default_rng(0)
    real, fake = rng.integers(0, 256, (2, 2, 30, 7, 9, 1), dtype=np.uint8)
    fake[:, :5] = real[:, :5]
    picture = strip(real[:, :20], fake, context=5, scale=2)
    places = {
        (name, i, t): find(picture, enlarged(clips[i, t], 2))
        for name, clips in (("real", real), ("fake", fake))
        for i in range(2)
        for t in range(30)
    }
    shown = sorted({t for (name, _, t), found in places.items() if name == "fake" and found})
    assert shown == [0, 1, 3, 4, 5, 9, 14, 19, 24, 29], "4 of the context, then +1, +5, +10, ... +25"
    assert all(len(places["fake", i, t]) == (2 if t < 5 else 1) for i in range(2) for t in shown)
    assert all(len(places["real", i, t]) == (t < 20) + (t < 5) for i in range(2) for t in shown)
    columns = [places["fake", 0, t][0][1] for t in shown]
    assert columns == sorted(columns)
    for t in (5, 9, 14, 19):
        (real_y, real_x), (fake_y, fake_x) = places["real", 1, t][0], places["fake", 1, t][0]
        assert real_x == fake_x and real_y < fake_y


@pytest.mark.parametrize("horizon", [1, 2, 12, 13, 48, 200, 400, 1200, 10_000])
def test_strip_spreads_its_columns_over_any_horizon(horizon):
    labels = [label for label, _ in Strip(layout(context=16, horizon=horizon)).columns.values()]
    assert labels[:4] == ["1", "6", "11", "16"]
    assert labels[4] == "+1" and labels[-1] == f"+{horizon}" and len(labels) <= 18
    steps = {int(label) % 5 for label in labels[5:-1]} if horizon > 24 else {0}
    assert steps == {0}


def text(words, colour):
    picture = np.full((TEXT, length(words), 3), GROUND, np.uint8)
    write(picture, 0, 0, words, colour)
    return picture


def test_board_tells_the_newest_action_of_every_clip():
    said = (("left", "left", "forward"), ("unknown", "right", "left"))
    board, (real, fake) = Board(layout(2, samples=2, context=1, horizon=2, words=said)), frames(2, 2)
    for t, colour in enumerate((SHOWN, PREDICTED, PREDICTED)):
        picture = board.draw(real, fake)
        for clip in range(2):
            [(y, x)] = find(picture, enlarged(fake[clip, 0], 3))
            above = picture[y - BORDER - TEXT : y - BORDER, x - BORDER : x - BORDER + board.cell]
            written = [word for word in {*said[0], *said[1]} if ends_with(above, word, colour)]
            assert written == [said[clip][t]]


def ends_with(line: np.ndarray, word: str, colour) -> bool:
    return np.array_equal(line[:, line.shape[1] - length(word) :], text(word, colour))


def test_strip_tells_the_action_of_every_column():
    said = (("left", "forward", "left"), ("right", "unknown", "right"))
    drawn, (real, fake) = Strip(layout(2, context=1, horizon=2, words=said)), frames(2, 1)
    for _ in range(3):
        drawn.add(real, fake)
    for clip in range(2):
        corners = sorted(find(drawn.picture, enlarged(fake[clip, 0], 3)), key=lambda corner: corner[1])
        assert len(corners) == 3, "words hide nothing"
        for word, (y, x) in zip(said[clip], corners, strict=True):
            below, left = y + 7 * 3 + BORDER + STEP, x - BORDER
            got = drawn.picture[below : below + TEXT, left : left + length(word)]
            assert np.array_equal(got, text(word, DIM))


def test_without_words_pictures_are_as_they_were():
    with_words = tuple(("forward",) * 5 for _ in range(2))
    for kind in (Board, Strip):
        plain, worded = (kind(layout(2, words=words)) for words in ((), with_words))
        assert plain._size(3)[1] < worded._size(3)[1]
    assert Strip(layout(2)).picture.shape[0] + 2 * TEXT == Strip(layout(2, words=with_words)).picture.shape[0]
