"""What holds for SimVP: what a block is predicted from, how its loss is made up, how it is rolled out."""

import dataclasses

import pytest
import torch

from videopred import config
from videopred.clip import Clip, Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.predictors.simvp import SimVPConfig
from videopred.rollout import rollout
from videopred.spatial.glu import GLUConfig
from videopred.training import RunConfig
from videopred.training.feeding import ClosedLoopConfig, ScheduledSamplingConfig, TeacherForcingConfig

FORMAT = Format(channels=1, height=4, width=6)
CODEC = ResNetCodecConfig(encoder_widths=(4, 8), decoder_widths=(4, 8), num_groups=2)
SMALL = SimVPConfig(num_frames=3, codec=CODEC, features=4, width=8, depth=1, spatial=GLUConfig(), l1_weight=0.3)


@pytest.fixture
def predictor():
    return SMALL.build(FORMAT).double()


def clip(length: int) -> Clip:
    return Clip(frames=torch.rand(2, length, 1, 4, 6, dtype=torch.float64) * 2 - 1)


def block(predictor, frames: torch.Tensor) -> torch.Tensor:
    """The block that follows these three frames."""
    return predictor._blocks(frames, range(1))[:, 0]


def weighed(error: torch.Tensor) -> torch.Tensor:
    return 0.3 * error.abs().mean() + 0.7 * error.square().mean()


@pytest.mark.parametrize("length", [4, 6, 8])
def test_the_loss_is_of_blocks_after_true_frames(predictor, length):
    whole = clip(length)
    frames = whole.frames
    starts = (0, 3) if length > 6 else (0,)
    blocks = [block(predictor, frames[:, start : start + 3]) for start in starts]
    predicted = torch.cat(blocks, 1)[:, : length - 3]
    loss, metrics, _ = predictor(whole)
    torch.testing.assert_close(loss, weighed(predicted - frames[:, 3:]))
    torch.testing.assert_close(metrics["l2"], (predicted - frames[:, 3:]).square().mean())


def test_losses_of_chunks_add_up_where_chunks_end_as_blocks_do(predictor):
    whole = clip(12)
    want, state, total = predictor(whole)[0], None, 0
    for size in [(0, 6), (6, 9), (9, 12)]:
        chunk = dataclasses.replace(whole.slice(*size), whole=12)
        loss, _, state = predictor(chunk, state)
        total = total + loss
    torch.testing.assert_close(total, want)


def test_a_rollout_gives_a_block_and_then_feeds_it_back(predictor):
    whole = clip(5)
    with torch.no_grad():
        first = block(predictor, whole.frames[:, 2:])
        want = torch.cat([first, block(predictor, first)], 1)
    frames = rollout(predictor, predictor.observe(whole))
    for i in range(6):
        torch.testing.assert_close(next(frames), want[:, i])


def test_the_state_repeats_its_size_after_a_block(predictor):
    with torch.no_grad():
        state, sizes = predictor.observe(clip(2)), []
        for _ in range(7):
            sizes.append((state[1][0].shape[1], state[1][1].shape[1]))
            _, state = predictor.predict(state)
    assert sizes == [(2, 0), (2, 2), (2, 1), (2, 0), (2, 2), (2, 1), (2, 0)]


def test_true_frames_replace_what_waits(predictor):
    whole = clip(6)
    with torch.no_grad():
        _, state = predictor.predict(predictor.observe(whole.slice(0, 3)))
        state = predictor.observe(whole.slice(3, 6), state)
        torch.testing.assert_close(predictor.predict(state)[0], block(predictor, whole.frames[:, 3:])[:, 0])


def test_before_its_first_frame_a_clip_looked_like_it(predictor):
    one = clip(1)
    want = block(predictor, one.frames.expand(-1, 3, -1, -1, -1))[:, 0]
    torch.testing.assert_close(predictor.predict(predictor.observe(one))[0], want)


def test_compare_is_the_mean_over_what_it_is_given(predictor):
    whole, predicted = clip(6), clip(4).frames
    torch.testing.assert_close(predictor.compare(predicted, whole)[0], weighed(predicted - whole.frames[:, 2:]))


def test_clips_no_longer_than_a_block_are_refused(predictor):
    with pytest.raises(ValueError, match=r"a clip of 3 frames: this model is shown 3 .* at least 4 frames"):
        predictor(clip(3))


@pytest.mark.parametrize("key, value", [("num_frames", 0), ("width", 0), ("l1_weight", 2.0), ("moments_weight", -1.0)])
def test_impossible_settings_are_refused(key, value):
    with pytest.raises(ValueError, match=f"{key} = {value}: must"):
        dataclasses.replace(SMALL, **{key: value})


def test_moments_are_added(predictor):
    whole = clip(6)
    heavier = dataclasses.replace(SMALL, moments_weight=2.0).build(FORMAT).double()
    heavier.load_state_dict(predictor.state_dict())
    loss, metrics, _ = heavier(whole)
    torch.testing.assert_close(loss, predictor(whole)[0] + 2 * metrics["moments"])


def test_its_preset_trains_and_rolls_out():
    """One update of the small preset lowers the loss on its batch, and its rollout stays in range."""
    run = config.load(RunConfig, "presets", "moving-mnist-small-simvp")
    predictor = run.predictor.build(run.recipe.format)
    frames = torch.stack([run.recipe.build("train", 20)[i].frames for i in range(2)])
    batch = Clip(frames=frames)
    optimizer = run.training.optimizer.build(predictor)
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss, _, _ = predictor(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    ahead = rollout(predictor, predictor.observe(batch.slice(0, 5)))
    assert all(next(ahead).abs().max() <= 1 for _ in range(12))


@pytest.mark.parametrize(
    "feeding",
    [
        TeacherForcingConfig(),
        ScheduledSamplingConfig(min_context=4, max_context=5),
        ClosedLoopConfig(warmup=0.0, min_context=3, max_context=4, min_horizon=5, max_horizon=6),
    ],
    ids=lambda feeding: feeding.kind,
)
def test_it_learns_under_every_feeding(predictor, feeding):
    loss, metrics = feeding.loss(predictor.float(), clip(10), 0.7, torch.Generator().manual_seed(0))
    loss.backward()
    assert loss.isfinite() and {"l1", "l2"} <= metrics.keys()
    assert all(p.grad.abs().max() > 0 for p in predictor.parameters())
