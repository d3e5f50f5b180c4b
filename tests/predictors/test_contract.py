"""What every member of `videopred.predictors` must do."""

import dataclasses
import typing

import pytest
import torch

from videopred.clip import Clip, Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.codecs.vqgan import VQGANConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.predictors import Predictor
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.frozen import FrozenConfig
from videopred.predictors.heads import FlowConfig, TransportConfig
from videopred.predictors.maskgit import MaskGitConfig
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.simvp import SimVPConfig
from videopred.predictors.stack import StackConfig
from videopred.predictors.teco import TecoConfig
from videopred.predictors.token import TokenConfig
from videopred.spatial.convnext import ConvNeXtConfig
from videopred.spatial.resnet import ResNetConfig

FORMAT = Format(channels=1, height=8, width=12, num_actions=3)
CODEC = ResNetCodecConfig(encoder_widths=(4, 8), decoder_widths=(4, 8), num_groups=2)
STACK = StackConfig(width=6, depth=2, dynamics=ConvS5Config(num_states=4), spatial=ResNetConfig(num_groups=2))
PIXEL = PixelConfig(codec=CODEC, stack=STACK, actions=ActionsConfig(width=2))
FROZEN = FrozenConfig(
    codec=VQGANConfig(
        width=4, multipliers=(1,), num_blocks=1, attention=(), num_groups=2, patch=2, code_width=5, num_codes=7
    )
)
FLAT = dataclasses.replace(CODEC, encoder_widths=(8,), decoder_widths=(8,))
TOKEN = TokenConfig(tokenizer=FROZEN, codec=FLAT, stack=STACK, actions=ActionsConfig(width=2))
TECO = TecoConfig(
    tokenizer=FROZEN,
    codec=CODEC,
    latent_width=6,
    num_codes=5,
    code_width=3,
    stack=STACK,
    actions=ActionsConfig(width=2),
    prior=MaskGitConfig(vocab_width=4, token_width=8, mlp_width=8, num_heads=2, depth=1, draft_steps=3, revise_steps=2),
    drop_loss=0.0,
)
CASES = {
    "token": TOKEN,
    "token-causal": dataclasses.replace(TOKEN, causal_context=2),
    "teco": TECO,
    "teco-causal": dataclasses.replace(TECO, causal_context=2),
    "pixel": PIXEL,
    "pixel-flow": dataclasses.replace(PIXEL, head=FlowConfig(reach=2.0)),
    "pixel-flow-mean": dataclasses.replace(PIXEL, head=FlowConfig(reach=2.0, keep_mean=True)),
    "pixel-transport": dataclasses.replace(PIXEL, head=TransportConfig(radius=1), moments_weight=0.1),
    "simvp": SimVPConfig(num_frames=2, codec=CODEC, features=6, width=8, depth=2, spatial=ConvNeXtConfig(ratio=1)),
    "pixel-paper": dataclasses.replace(PIXEL, reduction="paper", stack=dataclasses.replace(STACK, norm="pre")),
}
NOT_SUMS = {"perplexity"}  # metrics that are of one chunk, and said so
# Tests whose rule a member does not keep. Its docstring says so too, and its own tests hold what holds in its place.
EXEMPT = {
    SimVPConfig: {
        "test_losses_of_chunks_add_up_to_the_loss_of_the_whole_and_so_do_gradients": "a block lies in one chunk",
        "test_the_loss_is_of_predictions_under_teacher_forcing": "the loss is of whole blocks",
        "test_an_action_changes_the_frame_it_leads_to_and_nothing_before": "it is unconditional",
        "test_missing_and_impossible_actions_are_refused": "it is unconditional",
        "test_a_long_rollout_keeps_the_size_of_its_state": "the rest of a block waits in the state",
    }
}


@pytest.fixture(autouse=True)
def exempt(request):
    config = request.node.callspec.params.get("config") if hasattr(request.node, "callspec") else None
    if reason := EXEMPT.get(type(config), {}).get(request.node.originalname):
        pytest.skip(reason)


def test_exemptions_name_tests():
    assert {name for reasons in EXEMPT.values() for name in reasons} <= set(globals())


def test_every_member_has_a_case():
    members = typing.get_args(Predictor) or (Predictor,)
    assert {type(config) for config in CASES.values()} == set(members)


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def config(request):
    return request.param


@pytest.fixture
def predictor(config):
    torch.manual_seed(0)
    predictor = config.build(FORMAT).double()
    if hasattr(predictor, "tokenizer"):  # untrained, all tokens are as likely whatever it sees: make it decided
        with torch.no_grad():
            for module in predictor.codec.decoder.head, predictor.mix, getattr(predictor, "project", None):
                if module is not None:
                    module.weight.mul_(20)
    return predictor


def clip(length: int = 7, batch: int = 2) -> Clip:
    """Random frames in [-1, 1] and random actions, one of them masked."""
    frames = torch.rand(batch, length, FORMAT.channels, FORMAT.height, FORMAT.width, dtype=torch.float64) * 2 - 1
    actions = torch.randint(0, FORMAT.num_actions, (batch, length))
    actions[0, length // 2] = -1
    return Clip(frames=frames, actions=actions, id=tuple(f"test/{i}" for i in range(batch)))


def leaves(state) -> list[torch.Tensor]:
    return [state] if isinstance(state, torch.Tensor) else [leaf for part in state for leaf in leaves(part)]


def assert_close(got, want, tolerance: float = 1e-11) -> None:
    for g, w in zip(leaves(got), leaves(want), strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=tolerance)


def newest(predictor, state) -> torch.Tensor:
    """The frame that waits in a state, as tokens where the predictor is fed tokens."""
    return predictor.tokenizer.decode(state[0][:, None])[:, 0] if hasattr(predictor, "tokenizer") else state[0]


def noise_of(predictor, *shape: int) -> torch.Tensor | None:
    """Noise for frames of clips; None where the predictor takes none."""
    one = predictor.noise_shape()
    return None if one is None else torch.randn(*shape, *one, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_losses_of_chunks_add_up_to_the_loss_of_the_whole_and_so_do_gradients(predictor, size):
    whole, noise = clip(7), noise_of(predictor, 2, 7)
    loss, metrics, last = predictor(whole, noise=noise)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in predictor.named_parameters()}
    predictor.zero_grad()
    state, total, sums = None, 0, dict.fromkeys(metrics, 0)
    for start, chunk in zip(range(0, 7, size), whole.chunks(size), strict=True):
        part = None if noise is None else noise[:, start : start + size]
        chunk_loss, chunk_metrics, state = predictor(chunk, state, noise=part)
        total, sums = total + chunk_loss, {key: sums[key] + chunk_metrics[key] for key in sums}
    total.backward()
    for name in NOT_SUMS & metrics.keys():
        del sums[name], metrics[name]
    assert_close((total, *sums.values(), state), (loss, *metrics.values(), last))
    for name, p in predictor.named_parameters():
        torch.testing.assert_close(p.grad, gradients[name], rtol=1e-9, atol=1e-11, msg=name)


def test_metrics_carry_no_graph(predictor):
    loss, metrics, _ = predictor(clip(3), noise=noise_of(predictor, 2, 3))
    assert loss.requires_grad and loss.dim() == 0
    assert metrics and not any(value.requires_grad for value in metrics.values())


def test_predictions_under_teacher_forcing_are_those_of_the_rollout(predictor):
    """predict(observe(k frames)) is reconstruct's frame k, also when observed in two parts."""
    whole, noise = clip(6), noise_of(predictor, 2, 6)
    frames, last = predictor.reconstruct(whole, noise=noise)
    assert frames.shape == whole.slice(1, 6).frames.shape and frames.abs().max() <= 1
    for k in range(1, 6):
        state = predictor.observe(whole.slice(0, k))
        frame, after = predictor.predict(state, whole.actions[:, k], None if noise is None else noise[:, k])
        assert_close(frame, frames[:, k - 1])
        assert_close(newest(predictor, after), frame)
        for cut in range(1, k):
            parts = predictor.observe(whole.slice(cut, k), predictor.observe(whole.slice(0, cut)))
            assert_close(parts, state)
    assert_close(predictor.observe(whole), last)


def test_a_chunk_with_a_state_predicts_each_of_its_frames(predictor):
    whole = clip(6)
    noise = noise_of(predictor, 2, 6)
    want, _ = predictor.reconstruct(whole, noise=noise)
    later = None if noise is None else noise[:, 2:]
    got, _ = predictor.reconstruct(whole.slice(2, 6), predictor.observe(whole.slice(0, 2)), noise=later)
    assert_close(got, want[:, 1:])


def test_inputs_are_fed_and_targets_stay_true(predictor):
    whole, noise = clip(5), noise_of(predictor, 2, 5)
    loss, _, _ = predictor(whole, inputs=whole.frames.clone(), noise=noise)
    assert_close(loss, predictor(whole, noise=noise)[0])
    other = whole.frames.clone()
    other[:, 2] = -other[:, 2]
    frames, state = predictor.reconstruct(whole, inputs=other, noise=noise)
    as_if, want_state = predictor.reconstruct(dataclasses.replace(whole, frames=other), noise=noise)
    assert_close((frames, state), (as_if, want_state))
    assert not torch.allclose(frames[:, 2:], predictor.reconstruct(whole, noise=noise)[0][:, 2:])


def test_the_loss_is_of_predictions_under_teacher_forcing(predictor):
    if hasattr(predictor, "compare"):
        whole, noise = clip(5), noise_of(predictor, 2, 5)
        inputs = -whole.frames
        frames, _ = predictor.reconstruct(whole, inputs=inputs, noise=noise)
        assert_close(predictor(whole, inputs=inputs, noise=noise)[0], predictor.compare(frames, whole)[0])


def test_inputs_of_a_chunk_leave_the_waiting_frame(predictor):
    whole = clip(5)
    state, other, noise = predictor.observe(whole.slice(0, 2)), -whole.frames[:, 2:], noise_of(predictor, 2, 5)
    later = None if noise is None else noise[:, 2:]
    got, _ = predictor.reconstruct(whole.slice(2, 5), state, inputs=other, noise=later)
    joined = dataclasses.replace(whole, frames=torch.cat([whole.frames[:, :2], other], 1))
    assert_close(got, predictor.reconstruct(joined, noise=noise)[0][:, 1:])


def test_an_action_changes_the_frame_it_leads_to_and_nothing_before(predictor):
    whole, noise = clip(6), noise_of(predictor, 2, 6)
    want, _ = predictor.reconstruct(whole, noise=noise)
    another, unknown = (whole.actions[:, 3] + 1) % FORMAT.num_actions, torch.full((2,), -1)
    for time, ids in (3, another), (5, unknown), (0, another):
        actions = whole.actions.clone()
        actions[:, time] = ids
        got, _ = predictor.reconstruct(dataclasses.replace(whole, actions=actions), noise=noise)
        changed = (got - want).abs().amax((0, 2, 3, 4)) > 1e-4  # of the predictions of frames 1..5
        assert not changed[: max(0, time - 1)].any()
        assert changed[time - 1] if time else not changed.any()  # no frame is predicted under the first action


def test_missing_and_impossible_actions_are_refused(predictor):
    whole = clip(4)
    state = predictor.observe(whole)
    for actions, message in (
        (None, r"needs an action \(0\.\.2, or -1 for unknown\)"),
        (whole.actions[:, :3], r"shape \(2, 3\): must be \(2, 4\)"),
        (whole.actions.clamp(min=3), r"lie in 3\.\.3: must be 0\.\.2"),
        (whole.actions.clamp(max=-2), "lie in -2..-2"),
    ):
        with pytest.raises(ValueError, match=message):
            predictor(dataclasses.replace(whole, actions=actions))
    with pytest.raises(ValueError, match="needs an action"):
        predictor.predict(state)
    with pytest.raises(ValueError, match=r"lie in 0\.\.3"):
        predictor.predict(state, torch.tensor([0, 3]))


def test_frames_of_another_size_are_refused(predictor):
    with pytest.raises(ValueError, match=r"\(1, 8, 8\): this model takes \(1, 8, 12\)"):
        predictor(dataclasses.replace(clip(3), frames=clip(3).frames[..., :8]))


def test_clips_of_a_batch_are_independent(predictor):
    whole, noise = clip(4, batch=3), noise_of(predictor, 3, 4)
    together, _ = predictor.reconstruct(whole, noise=noise)
    for i in range(3):
        one = Clip(frames=whole.frames[i : i + 1], actions=whole.actions[i : i + 1])
        alone, _ = predictor.reconstruct(one, noise=None if noise is None else noise[i : i + 1])
        assert_close(alone, together[i : i + 1])


def test_given_state_and_clip_stay_as_they_are(predictor):
    whole = clip(4)
    state = predictor.observe(whole)
    given = [whole.frames, whole.actions, *leaves(state)]
    before = [tensor.clone() for tensor in given]
    noise = noise_of(predictor, 2, 4)
    predictor(whole, state, noise=noise)[0].backward()
    predictor.predict(state, whole.actions[:, 0], None if noise is None else noise[:, 0])
    predictor.observe(whole, state)
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(given, before, strict=True))


def test_a_long_rollout_keeps_the_size_of_its_state(predictor):
    with torch.no_grad():
        state = predictor.observe(clip(3))
        sizes = [leaf.shape for leaf in leaves(state)]
        for _ in range(20):
            frame, state = predictor.predict(state, torch.tensor([-1, 2]), noise_of(predictor, 2))
    assert [leaf.shape for leaf in leaves(state)] == sizes
    assert frame.isfinite().all() and frame.abs().max() <= 1


def test_uint8_clips_are_the_same_as_their_floats(config):
    predictor = config.build(FORMAT)
    stored = torch.randint(0, 256, (2, 4, FORMAT.height, FORMAT.width, FORMAT.channels), dtype=torch.uint8)
    actions, noise = torch.zeros(2, 4, dtype=torch.int64), noise_of(predictor, 2, 4)
    floats = stored.float().div(255).mul(2).sub(1).permute(0, 1, 4, 2, 3)
    loss, _, _ = predictor(Clip(frames=stored, actions=actions), noise=noise)
    assert_close(loss, predictor(Clip(frames=floats, actions=actions), noise=noise)[0], 1e-6)


def test_bfloat16_autocast_is_near_float32(config):
    predictor, whole = config.build(FORMAT), clip(6)
    noise = noise_of(predictor, 2, 6)
    loss, _, _ = predictor(whole, noise=noise)
    with torch.autocast("cpu", torch.bfloat16):
        short, _, state = predictor(whole, noise=noise)
    short.backward()
    assert short.dtype == torch.float32
    assert short.item() == pytest.approx(loss.item(), rel=0.02)
    assert all(leaf.dtype == torch.float32 for leaf in leaves(state) if leaf.is_floating_point())
    assert all(p.grad.isfinite().all() for p in predictor.parameters() if p.grad is not None)


def test_noise_is_a_shape_or_none(predictor):
    shape = predictor.noise_shape()
    assert shape is None or all(isinstance(side, int) for side in shape)
    noise = noise_of(predictor, 2, 4)
    whole = clip(4)
    torch.manual_seed(1)
    first = predictor.reconstruct(whole, noise=noise)[0]
    torch.manual_seed(2)
    assert torch.equal(predictor.reconstruct(whole, noise=noise)[0], first)  # nothing is drawn inside


def test_saved_and_loaded_it_is_the_same(config, predictor, tmp_path):
    other, whole = config.build(FORMAT).double(), clip(4)
    noise = noise_of(predictor, 2, 4)
    torch.save(predictor.state_dict(), tmp_path / "predictor.pt")
    assert not torch.equal(other(whole, noise=noise)[0], predictor(whole, noise=noise)[0])
    other.load_state_dict(torch.load(tmp_path / "predictor.pt", weights_only=True))
    assert torch.equal(other(whole, noise=noise)[0], predictor(whole, noise=noise)[0])


def test_every_parameter_learns(predictor):
    predictor(clip(5), noise=noise_of(predictor, 2, 5))[0].backward()
    for name, p in predictor.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


@pytest.mark.parametrize("config", {type(config): config for config in CASES.values()}.values(), ids=lambda c: c.kind)
def test_compiles_without_a_graph_break(config):
    """Captured as one graph; the eager backend runs it, because generating code would take a minute."""
    predictor = config.build(FORMAT)
    whole = dataclasses.replace(clip(4), frames=clip(4).frames.float())
    noise = noise_of(predictor, 2, 4)
    compiled = torch.compile(predictor, fullgraph=True, backend="eager")
    assert_close(compiled(whole, noise=noise)[0], predictor(whole, noise=noise)[0], 1e-6)
