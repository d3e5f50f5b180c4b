"""Videos that others made, from the packages that `make test-videos` fetches: what each gives, or why nothing."""

from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from videopred.data import video
from videopred.data.index import open_index

FOLDER = Path(__file__).parents[1] / ".videos"
GIVES = {  # frames by decoding, height, width, frames per second; or the error
    "10min.mkv": (600, 288, 384, 1),
    "Megamind.avi": (270, 528, 720, 23.976),
    "Megamind_bugy.avi": (270, 528, 720, 30),  # its packets hold several frames
    "bigbuckbunny.mp4": (132, 720, 1280, 25),
    "bikes.mp4": (250, 272, 640, 25),
    "box.mp4": (455, 480, 640, 29.966),  # its header says 456
    "breakdance.flv": (44, 240, 320, 24),  # the file ends within 46.9 seconds that its header promises
    "carphone_distorted.mp4": (120, 144, 176, 29.97),
    "carphone_pristine.mp4": (120, 144, 176, 29.97),
    "cityCC0.mpg": (190, 405, 720, 25),
    "empty.gif": (1, 1, 1, 10),
    "flashmob.mkv": (446, 288, 384, 25),
    "india_map.gif": (1, 794, 790, 100),
    "issue55.flv": "holds no video",
    "matrix_ping_pong.wmv": "holds no frame that can be decoded",  # 63,324 are promised
    "mp4-with-audio.mp4": "holds no video",
    "mpeg4.mp4": "holds no video",
    "pentax_320x240.mov": "holds no frame that can be decoded",
    "quicktime.mp4": (149, 240, 190, 30),
    "sample.mkv": "not a video, or damaged: End of file",
    "sample.mp4": (23, 1080, 1920, 23.976),
    "simple_cv_joint_animated.gif": (22, 240, 320, 20),
    "smallville.s03e02.avi": "holds no frame that can be decoded",
    "tree.avi": (68, 240, 320, 15),  # its header says 444
    "vtest.avi": (795, 576, 768, 10),
}
ENTERED = ("10min.mkv", "cityCC0.mpg", "flashmob.mkv", "quicktime.mp4", "tree.avi")  # in the middle, and quickly


@pytest.fixture(scope="module")
def found():
    """Name: facts, or what is wrong, of every video that was fetched, read as a recipe reads them."""
    if not FOLDER.is_dir():
        return {}
    index = open_index(FOLDER)
    clips = {index.path(number): index.facts(row) for row, number in enumerate(index.clips["recording"])}
    faults = {index.path(i): str(index.reasons[j]) for i, j in enumerate(index.faults) if j >= 0}
    return clips | faults


@pytest.mark.parametrize("name", GIVES)
def test_it_gives_what_it_holds(found, name):
    if name not in found:
        pytest.skip("not fetched: make test-videos")
    if isinstance(GIVES[name], str):
        assert found[name] == GIVES[name]
        return
    facts, (*size, rate) = found[name], GIVES[name]
    assert [facts.length, facts.height, facts.width] == size
    assert float(video.glance(FOLDER / name)[1] or 0) == pytest.approx(rate, rel=1e-3)
    if len(facts.times) > 1 and name not in ("tree.avi", "breakdance.flv"):  # whose frames come unevenly
        assert (facts.times[-1] - facts.times[0]) * float(facts.unit) == pytest.approx((size[0] - 1) / rate, rel=0.01)


@pytest.mark.parametrize("name", ENTERED)
def test_a_window_is_what_decoding_from_the_start_gives(found, name):
    if name not in found:
        pytest.skip("not fetched: make test-videos")
    facts, start = found[name], int(found[name].keys[-1])
    steps = np.arange(start - 2, min(start + 3, facts.length))
    whole = [frame[0] for frame in islice(video.first(FOLDER / name, 0, start + 3), start - 2, None)]
    window = [frame[0] for frame in video.frames(FOLDER / name, 0, facts, steps)]
    assert len(facts.keys) > 1 and np.array_equal(window, whole)


def test_a_reference_and_its_distorted_copy_are_alike(found):
    if not {"carphone_pristine.mp4", "carphone_distorted.mp4"} <= found.keys():
        pytest.skip("not fetched: make test-videos")
    pair = [video.first(FOLDER / f"carphone_{name}.mp4", 0, 3) for name in ("pristine", "distorted")]
    pristine, distorted = ([frame[0].astype(float) for frame in frames] for frames in pair)
    assert 3 < np.abs(pristine[2] - distorted[2]).mean() < 15  # levels
    assert np.abs(pristine[2] - distorted[2]).mean() < np.abs(pristine[2] - np.roll(distorted[2], 30, 1)).mean() / 2


def test_the_gif_of_scikit_image():
    spec = find_spec("skimage")
    path = Path(spec.origin if spec and spec.origin else "").parent / "data" / "no_time_for_that_tiny.gif"
    if not path.is_file():
        pytest.skip("scikit-image comes without it")
    [facts] = video.facts(path)
    assert (facts.length, facts.height, facts.width) == (24, 25, 14)
    assert next(video.first(path, 0, 1)).std() > 10
