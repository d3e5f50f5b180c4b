"""What every metric must do; a new member of the union is tested here as soon as it is listed."""

import pickle
from typing import get_args

import numpy as np
import pytest
import torch

from videopred.metrics import DiversityConfig, Metric, SetScore

MEMBERS = get_args(Metric)
OF_ONE = [member for member in MEMBERS if member is not DiversityConfig]  # what one sample of a clip can be scored by
KEPT = {"diversity": 129}  # numbers for each frame, else at most 2
# kind -> value at every frame of: predicted a constant 0.5 grey, true a constant 1.0
PARITY = {"psnr": 20 * np.log10(2), "ssim": (2 * 0.5 + 1e-4) / (1.25 + 1e-4), "ink": 0.5, "energy": 0.25}
PARITY |= dict.fromkeys(
    ("lpips", "stlpips", "fvd", "frechet_efficientnet_lite0"), 1.0
)  # of the networks that stand in for theirs
PARITY |= {"psnr_of_mean_mse": 20 * np.log10(2), "openstl_mse": 12 * 13 / 4, "openstl_mae": 12 * 13 / 2}
PERFECT = {
    "psnr": 100.0,
    "psnr_of_mean_mse": 100.0,
    "openstl_mse": 0.0,
    "openstl_mae": 0.0,
    "lpips": 0.0,
    "fvd": 0.0,
    "stlpips": 0.0,
    "frechet_efficientnet_lite0": 0.0,
}  # else 1
IDS = [f"test/{i}" for i in range(7)]
SHAPE = (7, 3, 12, 13, 1)  # b t h w c


@pytest.fixture(autouse=True)
def _networks(stand_ins):
    """Nothing here needs the real ones."""


def frames(seed: int) -> torch.Tensor:
    return torch.randint(0, 256, SHAPE, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def scored(config, batches):
    """One accumulator fed with (clips, sample) batches of the same random videos."""
    metric = config.build()
    for clips, sample in batches:
        ids = [IDS[i] for i in clips]
        metric.update(frames(sample + 1)[list(clips)], frames(0)[list(clips)], ids, sample)
    return metric


def numbers(score) -> list[np.ndarray]:
    return [*score.arrays.values(), score.terms, score.per_frame, score.per_clip, np.array([score.mean, score.stderr])]


WHOLE = [(range(7), 0), (range(7), 1)]


@pytest.mark.parametrize("member", MEMBERS)
def test_merge_equals_a_single_pass_to_the_last_bit(member):
    whole = scored(member(), WHOLE).compute(IDS)
    first = scored(member(), [((5, 1), 1), ((0, 6, 2), 0)])
    first.merge(scored(member(), [((3, 4, 5), 0), ((0, 2, 3, 4, 6), 1)]))
    first.merge(scored(member(), [((1,), 0)]))
    merged = first.compute(IDS)
    assert merged.clip_ids == whole.clip_ids and merged.counts == whole.counts
    for a, b in zip(numbers(whole), numbers(merged), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("member", MEMBERS)
def test_order_of_arrival_does_not_matter(member):
    whole, other = scored(member(), WHOLE), scored(member(), [((i,), s) for s in (1, 0) for i in reversed(range(7))])
    for a, b in zip(numbers(whole.compute()), numbers(other.compute()), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("member", MEMBERS)
def test_compute_takes_the_clips_asked_for_in_their_order(member):
    metric = scored(member(), WHOLE)
    score = metric.compute([IDS[4], IDS[1]])
    alone = scored(member(), [((4, 1), 0), ((4, 1), 1)]).compute([IDS[4], IDS[1]])
    assert score.clip_ids == (IDS[4], IDS[1])
    for a, b in zip(numbers(score), numbers(alone), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="'test/99', sample 0 was not scored"):
        metric.compute(["test/99"])


@pytest.mark.parametrize("member", OF_ONE)
def test_perfect_prediction(member):
    metric = member().build()
    metric.update(frames(0), frames(0), IDS)
    score = metric.compute()
    perfect = PERFECT.get(member().kind, 1.0)
    assert score.mean == pytest.approx(perfect, rel=1e-12, abs=1e-12)
    if not isinstance(score, SetScore):
        np.testing.assert_allclose(score.per_frame, perfect, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(score.per_clip, perfect, rtol=1e-12, atol=1e-12)
        assert score.stderr == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * 2 - 1,  # [-1, 1], what models see
        lambda x: x * 255,
        lambda x: torch.full_like(x, torch.nan),
        lambda x: (x * 255).long(),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_other_ranges_are_refused(member, change, side):
    pair = [frames(0).double() / 255, frames(1).double() / 255]
    pair[side] = change(pair[side])
    with pytest.raises(
        ValueError, match=rf"{['predicted', 'target'][side]} frames .*must be uint8, or floating in \[0, 1\]"
    ):
        member().build().update(*pair, IDS)


@pytest.mark.parametrize("member", OF_ONE)
def test_known_value(member):
    metric = member().build()
    true = torch.ones(SHAPE)
    metric.update(true / 2, true, IDS)
    score = metric.compute()
    np.testing.assert_allclose(score.per_frame, PARITY[member().kind], rtol=1e-12)
    assert score.mean == pytest.approx(PARITY[member().kind], rel=1e-12)


@pytest.mark.parametrize("member", MEMBERS)
def test_floats_and_uint8_give_the_same_and_stay_unchanged(member):
    metric, floating = member().build(), member().build()
    pair = frames(0).double() / 255, frames(1).double() / 255
    copies = [x.clone() for x in pair]
    for sample in range(2):
        metric.update(frames(0), frames(1), IDS, sample)
        floating.update(*pair, IDS, sample)
    for a, b in zip(numbers(metric.compute()), numbers(floating.compute()), strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(torch.equal(x, copy) for x, copy in zip(pair, copies, strict=True))


@pytest.mark.parametrize("member", MEMBERS)
def test_nothing_is_scored_twice_and_shapes_must_agree(member):
    metric = scored(member(), WHOLE)
    with pytest.raises(ValueError, match="'test/0' was scored twice"):
        metric.merge(scored(member(), [((0,), 1)]))
    with pytest.raises(ValueError, match="'test/3' was scored twice"):
        member().build().update(frames(0)[:2], frames(1)[:2], ["test/3", "test/3"])
    with pytest.raises(ValueError, match=r"equal length; got \[2, 3\] frames"):
        metric.update(frames(0)[:1, :2], frames(1)[:1, :2], ["test/8"])
    with pytest.raises(ValueError, match="must have equal shapes"):
        member().build().update(frames(0)[:1], frames(1), IDS)
    with pytest.raises(ValueError, match="got 4 axes"):
        member().build().update(frames(0)[0], frames(1)[0], IDS)
    with pytest.raises(ValueError, match="no clip was scored"):
        member().build().compute()


@pytest.mark.parametrize("member", MEMBERS)
def test_frames_are_not_kept(member):
    def size(side: int) -> int:
        metric, video = member().build(), torch.zeros(4, 20, side, side, 1, dtype=torch.uint8)
        for i in range(3):
            metric.update(video, video, [f"{i}/{j}" for j in range(4)])
        return len(pickle.dumps(metric))

    assert abs(size(64) - size(12)) < 64  # bytes; only 12 x 20 numbers each, or a few times that
    assert size(64) < 12 * 20 * KEPT.get(member().kind, 2) * 8 + 6000
