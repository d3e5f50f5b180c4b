"""What holds for the pixel predictor alone: its loss, its range, what it refuses."""

import dataclasses

import pytest
import torch

from videopred.clip import Clip, Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.metrics.ssim import ssim
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.stack import StackConfig
from videopred.spatial.half_glu import HalfGLUConfig

FORMAT = Format(channels=3, height=4, width=6)
SMALL = PixelConfig(
    codec=ResNetCodecConfig(encoder_widths=(4, 8), decoder_widths=(4, 8), num_groups=2),
    stack=StackConfig(width=4, depth=1, dynamics=ConvS5Config(num_states=4), spatial=HalfGLUConfig()),
    l1_weight=0.3,
)


def clip(length: int = 5) -> Clip:
    return Clip(frames=torch.rand(2, length, 3, 4, 6) * 2 - 1)


def test_loss_is_the_weighted_mean_over_predicted_frames():
    predictor, whole = SMALL.build(FORMAT), clip()
    error = predictor.reconstruct(whole)[0] - whole.frames[:, 1:]
    loss, metrics, _ = predictor(whole)
    torch.testing.assert_close(metrics["l1"], error.abs().mean())
    torch.testing.assert_close(metrics["l2"], error.square().mean())
    torch.testing.assert_close(loss, 0.3 * error.abs().mean() + 0.7 * error.square().mean())


def test_paper_reduction_sums_over_width_and_channels():
    predictor, whole = dataclasses.replace(SMALL, reduction="paper").build(FORMAT), clip()
    error = predictor.reconstruct(whole)[0] - whole.frames[:, 1:]
    want = (0.3 * error.abs() + 0.7 * error.square()).sum((2, 4)).mean()
    torch.testing.assert_close(predictor(whole)[0], want)
    torch.testing.assert_close(predictor(whole)[1]["l1"], error.abs().mean())  # metrics are means all the same


def test_moments_are_relative_errors_of_intensity_and_its_square():
    predictor, whole = dataclasses.replace(SMALL, moments_weight=2.0).build(FORMAT), clip()
    predicted = predictor.reconstruct(whole)[0]
    want = 0
    for power in (1, 2):
        ours, true = (((x + 1) / 2).pow(power).mean((2, 3, 4)) + 1e-4 for x in (predicted, whole.frames[:, 1:]))
        want = want + (ours / true - 1).square().mean()
    loss, metrics, _ = predictor(whole)
    torch.testing.assert_close(metrics["moments"], want)
    torch.testing.assert_close(loss, 0.3 * metrics["l1"] + 0.7 * metrics["l2"] + 2 * want)


def test_ssim_is_that_of_the_metric_at_every_second_place():
    config = dataclasses.replace(SMALL, ssim_weight=0.5)
    predictor, whole = config.build(Format(channels=3, height=14, width=18)), Clip(frames=torch.rand(2, 4, 3, 14, 18))
    predicted = predictor.reconstruct(whole)[0]
    places = [
        [ssim(*(window(x, row, column) for x in (predicted, whole.frames[:, 1:]))) for column in range(0, 8, 2)]
        for row in range(0, 4, 2)
    ]
    want = torch.stack([torch.stack(row) for row in places]).mean()
    loss, metrics, _ = predictor(whole)
    torch.testing.assert_close(metrics["ssim"].double(), want, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss, 0.3 * metrics["l1"] + 0.7 * metrics["l2"] + 0.5 * (1 - metrics["ssim"]))


def window(frames: torch.Tensor, row: int, column: int) -> torch.Tensor:
    """One place of the metric's 11 x 11 window, as frames of their own (b, t, 11, 11, c) in [0, 1]."""
    return (frames[..., row : row + 11, column : column + 11].detach().movedim(2, -1).double() + 1) / 2


def test_ssim_needs_frames_as_large_as_its_window():
    with pytest.raises(ValueError, match=r"ssim_weight = 0\.5: SSIM needs frames of at least 11 x 11"):
        dataclasses.replace(SMALL, ssim_weight=0.5).build(FORMAT)


def test_moments_of_black_frames_are_finite():
    predictor = dataclasses.replace(SMALL, moments_weight=1.0).build(FORMAT)
    loss, _, _ = predictor(Clip(frames=torch.full((1, 3, 3, 4, 6), -1.0)))
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in predictor.parameters())


def test_one_frame_is_nothing_to_predict():
    with pytest.raises(ValueError, match="1 frame leaves nothing to predict"):
        SMALL.build(FORMAT)(clip(1))


def test_one_frame_can_be_observed():
    predictor, whole = SMALL.build(FORMAT), clip(2)
    newest, memory = predictor.observe(whole.slice(0, 1))
    assert memory is None and torch.equal(newest, whole.frames[:, 0])
    frame, _ = predictor.predict((newest, memory))
    torch.testing.assert_close(frame, predictor.reconstruct(whole)[0][:, 0])


def test_tokens_are_refused():
    with pytest.raises(ValueError, match="holds tokens, not frames"):
        SMALL.build(FORMAT)(Clip(tokens=torch.zeros(2, 3, 4, 6, dtype=torch.int64)))


@pytest.mark.parametrize("weight", [-0.1, 1.1])
def test_weight_outside_of_0_to_1_is_refused(weight):
    with pytest.raises(ValueError, match=r"l1_weight .*must lie in 0\.\.1"):
        dataclasses.replace(SMALL, l1_weight=weight).build(FORMAT)


def test_frames_that_the_codec_cannot_halve_are_refused():
    with pytest.raises(ValueError, match="frames of 5x6 cannot be coded with stride 2"):
        SMALL.build(dataclasses.replace(FORMAT, height=5))


@pytest.mark.parametrize("length", [1, 3])
def test_the_loss_of_a_continuation_is_the_mean_over_its_own_frames(length):
    """A clip that goes on from a state and is no chunk of a longer one: all its frames are predicted."""
    predictor, whole = SMALL.build(FORMAT), clip(5 + length)
    state = predictor.observe(whole.slice(0, 5))
    later = whole.slice(5, 5 + length)
    error = predictor.reconstruct(later, state)[0] - later.frames
    torch.testing.assert_close(predictor(later, state)[1]["l1"], error.abs().mean())
