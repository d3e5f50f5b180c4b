"""Rollout: frames for ever at constant cost, noise that no batch changes, the caller's gradient mode as it was."""

import itertools

import pytest
import torch
from torch import nn

from videopred.rollout import Recorded, _Steps, noise_for, rollout


class Drift(nn.Module):
    """The next frame is half the last one, plus noise, plus a tenth of the action; counts the frames it has made."""

    def __init__(self, noisy: bool = True):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.5))
        self.noisy = noisy

    def noise_shape(self):
        return (3, 4) if self.noisy else None

    def predict(self, state, action=None, noise=None):
        frame, count = state
        frame = self.gain * frame + (0 if noise is None else 0.1 * noise.mean((1, 2), keepdim=True)[..., None])
        if action is not None:
            frame = frame + 0.1 * action.float()[:, None, None, None]
        return frame, (frame, count + 1)


def start(batch: int):
    return torch.ones(batch, 1, 2, 2), torch.zeros(batch, dtype=torch.int64)


def sampled(predictor, ids, seed=0, sample=0, frames=5):
    """(b, frames, c, h, w)"""
    made = rollout(predictor, start(len(ids)), noise=lambda i: noise_for(predictor, seed, ids, sample, i))
    return torch.stack(list(itertools.islice(made, frames)), 1)


def test_every_frame_is_fed_back():
    frames = list(itertools.islice(rollout(Drift(noisy=False), start(2)), 4))
    assert [frame.mean().item() for frame in frames] == [0.5, 0.25, 0.125, 0.0625]


def test_goes_on_as_long_as_there_are_actions_and_uses_each_once():
    actions = torch.tensor([[1, 0, 2], [0, 0, 0]])
    frames = list(rollout(Drift(noisy=False), start(2), actions=actions))
    assert (
        torch.stack(frames, 1).mean((2, 3, 4)).allclose(torch.tensor([[0.6, 0.3, 0.35], [0.5, 0.25, 0.125]]))
    )  # each action leads to the frame of its own place


def test_does_not_leak_its_gradient_mode():
    predictor = Drift(noisy=False)
    frames = rollout(predictor, start(1))
    for frame in itertools.islice(frames, 3):
        assert torch.is_grad_enabled()
        assert not frame.requires_grad
        (predictor.gain * frame).sum().backward()  # a frame may take part in the caller's own graph
    with torch.no_grad():
        next(frames)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_the_state_it_was_given_is_not_changed():
    state = start(1)
    list(itertools.islice(rollout(Drift(noisy=False), state), 3))
    assert state[0].eq(1).all() and state[1].eq(0).all()


def test_it_holds_one_state_however_long_it_goes_on():
    sizes = []

    class Watched(Drift):
        def predict(self, state, action=None, noise=None):
            sizes.append(sum(part.numel() for part in state))
            return super().predict(state, action, noise)

    predictor = Watched(noisy=False)
    frames = rollout(predictor, start(1))
    next(itertools.islice(frames, 999, None))
    assert len(sizes) == 1000 and set(sizes) == {5}
    assert len([v for v in frames.gi_frame.f_locals.values() if isinstance(v, (tuple, torch.Tensor))]) <= 3


def test_a_sample_does_not_depend_on_its_batch():
    predictor = Drift()
    together = sampled(predictor, ["test/0", "test/1", "test/2"])
    for i in range(3):
        assert sampled(predictor, [f"test/{i}"]).equal(together[i : i + 1])
    assert sampled(predictor, ["test/2", "test/0"]).equal(together[[2, 0]])


@pytest.mark.parametrize("change", [{"seed": 1}, {"sample": 1}, {"ids": ["test/1"]}], ids=str)
def test_seed_sample_and_clip_each_give_other_noise(change):
    predictor = Drift()
    first = sampled(predictor, ["test/0"])
    assert sampled(predictor, ["test/0"]).equal(first)
    assert not sampled(predictor, **({"ids": ["test/0"]} | change)).eq(first).any()


def test_noise_is_standard_normal_and_never_repeats():
    draws = torch.cat([noise_for(Drift(), 0, ["a", "b"], 0, i) for i in range(2000)])
    assert draws.shape == (4000, 3, 4) and draws.dtype == torch.float32
    assert abs(draws.mean()) < 0.02 and abs(draws.std() - 1) < 0.02
    assert draws.unique().numel() > 0.99 * draws.numel()


def test_noise_of_a_frame_can_be_had_without_those_before():
    assert noise_for(Drift(), 3, ["a"], 1, 700).equal(noise_for(Drift(), 3, ["b", "a"], 1, 700)[1:])


def test_a_deterministic_predictor_gets_no_noise():
    assert noise_for(Drift(noisy=False), 0, ["a"], 0, 0) is None


def test_faults_of_the_caller_show_at_the_call():
    with pytest.raises(ValueError, match=r"actions of shape \(3,\)"):
        rollout(Drift(noisy=False), start(1), actions=torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="stochastic"):
        rollout(Drift(), start(1))


def stepped(predictor, actions: torch.Tensor, noise: bool, record) -> list[torch.Tensor]:
    """A rollout of which all but the first step are recorded."""
    noises = [noise_for(predictor, 0, ["a", "b"], 0, i) if noise else None for i in range(actions.shape[1])]
    first, state = predictor.predict(start(2), actions[:, 0], noises[0])
    steps = Recorded(predictor.predict, state, actions[:, 1], noises[1], record)
    return [first, *(steps(actions[:, i], noises[i]) for i in range(1, actions.shape[1]))]


def eagerly(step):
    """Stands in for a GPU's recording: goes through the step while recording, and does it again on every replay."""
    step()
    return step


@torch.no_grad()
@pytest.mark.parametrize("noisy", [True, False])
def test_a_recorded_step_goes_on_from_its_own_buffers_and_gives_the_same_frames(noisy):
    predictor, actions = Drift(noisy), torch.tensor([[1, 0, 2, 1, 1], [0, 0, 0, 3, 0]])
    noise = (lambda i: noise_for(predictor, 0, ["a", "b"], 0, i)) if noisy else None
    want = list(rollout(predictor, start(2), actions=actions, noise=noise))
    got = stepped(predictor, actions, noisy, eagerly)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert len({frame.data_ptr() for frame in got}) == len(got), "a frame that was given must stay what it is"


@torch.no_grad()
def test_every_dynamics_can_be_recorded_or_changes_the_shape_of_its_state(monkeypatch):
    """What a buffer needs: after a clip's first frames the state is a tree of tensors of constant shapes."""
    from videopred.bench import contenders
    from videopred.clip import Clip
    from videopred.rollout import _shapes

    monkeypatch.setattr(contenders, "WINDOW", 8)
    for name, stack in contenders.stacks().items():
        predictor = contenders.build(stack).eval()
        state = predictor.observe(Clip(frames=torch.zeros(1, 3, 32, 32, 1, dtype=torch.uint8)))
        frame, after = predictor.predict(state)
        if _shapes(state) != _shapes(after):
            assert name == contenders.RE_ENCODING
            continue
        steps = Recorded(predictor.predict, after, None, None, eagerly)
        for _ in range(3):
            frame, after = predictor.predict(after)
            assert torch.equal(steps(None, None), frame), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@torch.no_grad()
def test_on_a_gpu_the_recorded_rollout_is_the_same():
    from videopred import config
    from videopred.clip import Clip
    from videopred.training import RunConfig

    run = config.load(RunConfig, "presets", "debug")
    predictor = run.predictor.build(run.recipe.format).eval().cuda()
    state = predictor.observe(Clip(frames=torch.randint(0, 256, (2, 4, 32, 32, 1), dtype=torch.uint8).cuda()))
    frames = list(itertools.islice(rollout(predictor, state), 20))
    for frame in frames:
        want, state = predictor.predict(state)
        torch.testing.assert_close(frame, want, rtol=1e-4, atol=1e-4)


class OnGPU(torch.Tensor):
    is_cuda = True  # type: ignore[assignment]


@pytest.mark.parametrize(("record", "calls"), [(True, 2), (False, 5)])
def test_unrecorded_steps_run_each_time(monkeypatch, record, calls):
    """As who watches the parts of a predictor needs it: hooks are not called where a step is replayed."""
    predictor, called = Drift(noisy=False), []
    plain = predictor.predict

    def predict(*args):
        called.append(1)
        frame, after = plain(*args)
        return frame.as_subclass(OnGPU), after

    def recorded(step):
        step()
        return lambda: None  # the buffers go on by themselves

    predictor.predict = predict
    monkeypatch.setitem(_Steps.__init__.__globals__, "cuda_graph", recorded)
    list(itertools.islice(rollout(predictor, start(1), record=record), 5))
    assert len(called) == calls
