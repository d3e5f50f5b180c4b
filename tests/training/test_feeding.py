"""What a predictor is fed: each recipe beside a slow loop written by hand."""

import pytest
import torch

from videopred import config
from videopred.clip import Clip, Format
from videopred.predictors.pixel import PixelConfig
from videopred.training.feeding import ClosedLoopConfig, ScheduledSamplingConfig, TeacherForcingConfig

SMALL = {
    "codec": {"encoder_widths": [4], "decoder_widths": [4], "num_groups": 2},
    "stack": {"width": 4, "depth": 2, "dynamics": {"num_states": 2}, "spatial": {"num_groups": 2}},
    "actions": {"width": 3},
}


@pytest.fixture
def predictor():
    return config.from_dict(PixelConfig, SMALL).build(Format(1, 8, 8, num_actions=3)).double()


@pytest.fixture
def clip():
    frames = torch.rand(3, 12, 1, 8, 8, dtype=torch.float64) * 2 - 1
    return Clip(frames=frames, actions=torch.randint(0, 3, (3, 12)), id=("a", "b", "c"), start=(0, 0, 0))


@pytest.fixture(autouse=True)
def in_double(monkeypatch):
    """Recipes ask a clip for float32 frames; these tests compare in float64."""
    pixels = Clip.pixels
    monkeypatch.setattr(Clip, "pixels", lambda self, dtype=torch.float64: pixels(self, torch.float64))


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def gradients(predictor, loss):
    predictor.zero_grad()
    loss.backward()
    return {
        name: parameter.grad.clone() for name, parameter in predictor.named_parameters() if parameter.grad is not None
    }


class Spy:
    """Passes everything on to a predictor and keeps what it was fed."""

    def __init__(self, predictor):
        self.predictor, self.fed, self.predicted = predictor, [], []

    def __call__(self, clip, inputs=None):
        self.fed.append(inputs)
        return self.predictor(clip, inputs=inputs)

    def reconstruct(self, clip, inputs=None):
        assert not torch.is_grad_enabled()
        self.fed.append(inputs)
        frames, state = self.predictor.reconstruct(clip, inputs=inputs)
        self.predicted.append(frames)
        return frames, state


@pytest.mark.parametrize(("share", "progress"), [(0.0, 1.0), (0.9, 0.0)])
def test_without_a_share_scheduled_sampling_is_teacher_forcing(share, progress, predictor, clip):
    sampled, _ = ScheduledSamplingConfig(share=share).loss(predictor, clip, progress, dice())
    forced, _ = TeacherForcingConfig().loss(predictor, clip, progress, dice())
    assert sampled.item() == forced.item()


@pytest.mark.parametrize("passes", [1, 2])
def test_frames_are_replaced_after_the_context_only_and_by_predictions_of_them(passes, predictor, clip):
    spy, true = Spy(predictor), clip.frames
    recipe = ScheduledSamplingConfig(share=0.5, passes=passes, min_context=4, max_context=4)
    recipe.loss(spy, clip, 1.0, dice())
    assert len(spy.fed) == passes + 1
    assert torch.equal(spy.fed[0], true)
    for fed, predicted in zip(spy.fed[1:], spy.predicted, strict=True):
        assert torch.equal(fed[:, :4], true[:, :4])
        own = (fed == torch.cat([true[:, :1], predicted], 1)).all((2, 3, 4))
        kept = (fed == true).all((2, 3, 4))
        assert (own | kept).all() and not (own & kept)[:, 4:].any()
        assert own[:, 4:].any() and kept[:, 4:].any()


def test_the_share_ramps(predictor, clip):
    recipe = ScheduledSamplingConfig(share=0.8, ramp=0.5, passes=1, min_context=1, max_context=1)
    shares = []
    for progress in (0.125, 0.25, 0.5, 1.0):
        spy, replaced = Spy(predictor), []
        for seed in range(10):
            recipe.loss(spy, clip, progress, dice(seed))
            replaced.append((spy.fed[-1] != clip.frames).any((2, 3, 4))[:, 1:].double().mean())
        shares.append(torch.stack(replaced).mean().item())
    assert shares == pytest.approx([0.2, 0.4, 0.8, 0.8], abs=0.06)


def test_what_it_feeds_itself_carries_no_gradient(predictor, clip):
    spy = Spy(predictor)
    loss, _ = ScheduledSamplingConfig(min_context=2, max_context=2).loss(spy, clip, 1.0, dice())
    assert not spy.fed[-1].requires_grad
    alone, _, _ = predictor(clip, inputs=spy.fed[-1])
    assert loss.item() == alone.item()
    assert all(gradient.abs().sum() > 0 for gradient in gradients(predictor, loss).values())


def slowly(predictor, clip, context, horizon):
    """Closed loop without any state: every frame is predicted from the whole sequence before it."""
    frames = [clip.frames[:, t] for t in range(context)]
    for t in range(context, context + horizon):
        fed = torch.stack([*frames, torch.zeros_like(frames[0])], 1)
        predicted, _ = predictor.reconstruct(clip.slice(0, t + 1), inputs=fed)
        frames.append(predicted[:, -1])
    fed = torch.stack(frames, 1)
    predicted, _ = predictor.reconstruct(clip.slice(0, context + horizon), inputs=fed)
    return predictor.compare(predicted, clip.slice(0, context + horizon)), frames


@pytest.mark.parametrize("seed", range(8))
def test_a_limited_gradient_is_that_of_a_rollout_which_begins_later(seed, predictor, clip):
    """The frames before are made without gradient, and the loss is of the context and of what comes after them."""
    context, horizon, length = 3, 7, 2
    recipe = ClosedLoopConfig(warmup=0.0, min_context=context, max_context=context, min_horizon=horizon,
                              max_horizon=horizon, max_gradient=length)  # fmt: skip
    loss, metrics = recipe.loss(predictor, clip, 0.5, dice(seed))
    found = gradients(predictor, loss)

    drawn = dice(seed)
    torch.randint(context, context + 1, (), generator=drawn)
    place = int(torch.randint(1 - length, horizon, (), generator=drawn))
    start = context + min(max(place, 0), horizon - length)
    first = predictor.reconstruct(clip.slice(0, context + 1))[0]
    if start > context + 1:  # else the memory is the context's, with its gradient
        with torch.no_grad():
            state = predictor.observe(clip.slice(0, context))
            for t in range(context, start):
                frame, state = predictor.predict(state, None if clip.actions is None else clip.actions[:, t])
    else:
        state = predictor.observe(clip.slice(0, context))
        if start > context:
            frame, state = predictor.predict(state, None if clip.actions is None else clip.actions[:, context])
            state = (frame.detach(), state[1])
    later = []
    for t in range(start, start + length):
        frame, state = predictor.predict(state, None if clip.actions is None else clip.actions[:, t])
        later.append(frame)
    predicted = torch.cat([first[:, : context - 1] if start == context else first, torch.stack(later, 1)], 1)
    times = [*range(1, 1 + predicted.shape[1] - length), *range(start, start + length)]
    error = predicted - clip.frames[:, times]
    assert metrics["l2"].item() == pytest.approx(error.square().mean().item(), rel=1e-12)
    weight = predictor.l1_weight
    wanted = gradients(predictor, weight * error.abs().mean() + (1 - weight) * error.square().mean())
    largest = max(gradient.abs().max() for gradient in wanted.values())
    for name, gradient in found.items():
        assert (gradient - wanted[name]).abs().max() < 1e-12 * largest, name


def test_a_limited_gradient_meets_every_frame_alike(clip, monkeypatch):
    """Of own frames, none is in the loss much less often than another."""
    horizon, length, met = 9, 3, torch.zeros(12)

    class Counting:
        def reconstruct(self, clip):
            return clip.frames[:, 1:], (clip.frames[:, -1], None)

        def predict(self, state, action):
            return state[0], state

        def compare(self, predicted, clip):
            met[clip.num_frames - predicted.shape[1] : clip.num_frames] += 1
            return predicted.sum() * 0, {}

    recipe = ClosedLoopConfig(warmup=0.0, min_context=3, max_context=3, min_horizon=horizon, max_horizon=horizon,
                              max_gradient=length)  # fmt: skip
    for seed in range(400):
        recipe.loss(Counting(), clip, 0.5, dice(seed))
    own = met[4:]  # frame 3 is the first of its own, and is always met
    assert own.min() > 0.6 * own.mean()


@pytest.mark.parametrize(("context", "horizon"), [(1, 1), (3, 5), (7, 5)])
def test_closed_loop_equals_a_slow_one(context, horizon, predictor, clip):
    recipe = ClosedLoopConfig(warmup=0.0, min_context=context, max_context=context,
                              min_horizon=horizon, max_horizon=horizon)  # fmt: skip
    loss, metrics = recipe.loss(predictor, clip, 0.5, dice())
    found = gradients(predictor, loss)
    (slow, slow_metrics), _ = slowly(predictor, clip, context, horizon)
    wanted = gradients(predictor, slow)
    assert loss.item() == pytest.approx(slow.item(), rel=1e-12)
    assert metrics["l2"].item() == pytest.approx(slow_metrics["l2"].item(), rel=1e-12)
    largest = max(gradient.abs().max() for gradient in wanted.values())
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        assert (gradient - wanted[name]).abs().max() < 1e-12 * largest, name


def test_the_gradient_goes_through_its_own_frames(predictor, clip):
    recipe = ClosedLoopConfig(warmup=0.0, min_context=3, max_context=3, min_horizon=5, max_horizon=5)
    found = gradients(predictor, recipe.loss(predictor, clip, 0.5, dice())[0])
    _, frames = slowly(predictor, clip, 3, 5)
    cut = torch.stack(frames, 1).detach()
    wanted = gradients(predictor, predictor(clip.slice(0, 8), inputs=cut)[0])
    difference = sum((found[name] - wanted[name]).norm() for name in found)
    assert difference > 0.01 * sum(gradient.norm() for gradient in wanted.values())


def test_closed_loop_begins_with_the_truth_and_its_horizon_grows(predictor, clip):
    recipe = ClosedLoopConfig(warmup=0.2, ramp=0.7, min_context=2, max_context=3, min_horizon=1, max_horizon=9)
    forced, _, _ = predictor(clip.slice(0, 4))
    assert recipe.loss(predictor, clip, 0.1, dice())[0].item() == forced.item()
    lengths = []
    for progress in (0.2, 0.45, 0.7, 1.0):
        compare, seen = predictor.compare, []
        predictor.compare = lambda frames, part, compare=compare, seen=seen: (seen.append(part.num_frames),
                                                                              compare(frames, part))[1]  # fmt: skip
        recipe.loss(predictor, clip, progress, dice(1))
        lengths.append(seen[0])
        del predictor.compare
    assert [length - lengths[0] for length in lengths] == [0, 4, 8, 8]


@pytest.mark.parametrize("recipe", [ScheduledSamplingConfig(min_context=2, max_context=8),
                                    ClosedLoopConfig(warmup=0.0, min_context=1, max_context=6, min_horizon=3,
                                                     max_horizon=6)], ids=lambda recipe: recipe.kind)  # fmt: skip
def test_the_generator_decides_and_nothing_else(recipe, predictor, clip):
    losses = []
    for seed, other in [(1, 1), (1, 2), (2, 1)]:
        torch.manual_seed(other)
        losses.append(recipe.loss(predictor, clip, 0.9, dice(seed))[0].item())
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("recipe", [TeacherForcingConfig(), ScheduledSamplingConfig(min_context=3, max_context=3),
                                    ClosedLoopConfig(warmup=0.0, min_context=3, max_context=3, min_horizon=4,
                                                     max_horizon=4)], ids=lambda recipe: recipe.kind)  # fmt: skip
def test_in_bfloat16_every_weight_learns_about_the_same(recipe, predictor, clip):
    exact = gradients(predictor, recipe.loss(predictor, clip, 1.0, dice())[0])
    predictor.float()
    with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", torch.bfloat16):
        patch.setattr(Clip, "pixels", lambda self, dtype=None: self.frames.float())
        loss, _ = recipe.loss(predictor, clip, 1.0, dice())
    rough = gradients(predictor, loss)
    assert rough.keys() == exact.keys()
    assert loss.isfinite()
    total = sum(gradient.square().sum() for gradient in exact.values()).sqrt()
    error = sum((rough[name] - gradient).square().sum() for name, gradient in exact.items()).sqrt()
    assert error < 0.1 * total
    assert all(rough[name].abs().sum() > 0 for name, gradient in exact.items() if gradient.abs().sum() > 0)


BAD = [(ScheduledSamplingConfig, {"share": 1.1}), (ScheduledSamplingConfig, {"ramp": 0.0}),
       (ScheduledSamplingConfig, {"passes": 0}), (ScheduledSamplingConfig, {"min_context": 9, "max_context": 8}),
       (ClosedLoopConfig, {"min_horizon": 0}), (ClosedLoopConfig, {"min_context": 0}),
       (ClosedLoopConfig, {"warmup": 0.9})]  # fmt: skip


@pytest.mark.parametrize(("recipe", "numbers"), BAD)
def test_numbers_out_of_range_are_refused(recipe, numbers):
    with pytest.raises(ValueError, match="must"):
        recipe(**numbers)


@pytest.mark.parametrize(
    ("feeding", "frames"), [("closed_loop", 48), ("scheduled_sampling", 8), ("teacher_forcing", 2)]
)
def test_a_clip_too_short_for_the_feeding_is_refused_before_training(feeding, frames, tiny):
    kind = f"training.feeding.kind={feeding}"
    tiny(kind, f"training.clip_frames={frames}")
    with pytest.raises(
        ValueError, match=f"clip_frames = {frames - 1}: must be at least {frames} with feeding {feeding}"
    ):
        tiny(kind, f"training.clip_frames={frames - 1}")


class Counted:
    """A predictor that counts the frames of one clip that pass through it."""

    def __init__(self, predictor):
        self.predictor, self.count = predictor, 0

    def __getattr__(self, name):
        return getattr(self.predictor, name)

    def __call__(self, clip, inputs=None, **rest):
        self.count += clip.num_frames
        return self.predictor(clip, inputs=inputs, **rest)

    def reconstruct(self, clip, inputs=None, **rest):
        self.count += clip.num_frames
        return self.predictor.reconstruct(clip, inputs=inputs, **rest)

    def predict(self, *args, **rest):
        self.count += 1
        return self.predictor.predict(*args, **rest)


@pytest.mark.parametrize("recipe", [TeacherForcingConfig(), ScheduledSamplingConfig(min_context=3, max_context=3),
                                    ClosedLoopConfig(warmup=0.5, ramp=0.75, min_context=2, max_context=3,
                                                     min_horizon=2, max_horizon=4),
                                    ClosedLoopConfig(warmup=0.5, ramp=0.75, min_context=3, max_context=3, min_horizon=2,
                                                     max_horizon=4, max_gradient=2)])  # fmt: skip
@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_frames_are_those_that_pass_through_the_model(recipe, progress, predictor, clip):
    counts = []
    for seed in range(60):
        counted = Counted(predictor)
        recipe.loss(counted, clip, progress, dice(seed))
        counts.append(counted.count)
    assert sum(counts) / len(counts) == pytest.approx(recipe.frames(clip.num_frames, progress), abs=0.3)
