"""Causal masking and drop_loss, of both predictors of tokens."""

import dataclasses

import pytest
import torch

from videopred.clip import Clip, Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.codecs.vqgan import VQGANConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.predictors.frozen import FrozenConfig
from videopred.predictors.maskgit import MaskGitConfig
from videopred.predictors.stack import StackConfig
from videopred.predictors.teco import TecoConfig
from videopred.predictors.token import TokenConfig
from videopred.spatial.resnet import ResNetConfig

FORMAT = Format(channels=1, height=4, width=4, num_actions=3)
PARTS = {
    "tokenizer": FrozenConfig(
        codec=VQGANConfig(
            width=4, multipliers=(1,), num_blocks=1, attention=(), num_groups=2, code_width=3, num_codes=7
        )
    ),
    "codec": ResNetCodecConfig(encoder_widths=(4,), decoder_widths=(4,), num_groups=2),
    "stack": StackConfig(width=4, depth=1, dynamics=ConvS5Config(num_states=4), spatial=ResNetConfig(num_groups=2)),
}
PRIOR = MaskGitConfig(vocab_width=4, token_width=4, mlp_width=4, num_heads=1, depth=1, draft_steps=2, revise_steps=2)
TECO = TecoConfig(**PARTS, latent_width=4, num_codes=5, code_width=3, prior=PRIOR, drop_loss=0.0)
TOKEN = TokenConfig(**PARTS)


@pytest.fixture(params=[TOKEN, TECO], ids=["token", "teco"])
def config(request):
    return request.param


def build(config, **changes):
    torch.manual_seed(0)
    return dataclasses.replace(config, **changes).build(FORMAT).double()


def clip(length: int = 6, batch: int = 2) -> Clip:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(7, (batch, length, 4, 4), generator=generator)
    return Clip(tokens=tokens, actions=torch.randint(3, (batch, length), generator=generator))


def features(predictor, clip: Clip, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Output of the stack for all frames of a training clip, and the loss."""
    kept = []
    with predictor.stack.register_forward_hook(lambda module, inputs, outputs: kept.append(outputs[0])):
        loss, _, _ = predictor(clip, noise=noise)
    return kept[0], loss


def noise_of(predictor, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(*shape, *predictor.noise_shape(), generator=generator, dtype=torch.float64)


def test_frames_from_the_context_on_are_hidden_where_the_action_is_known(config):
    """Clip 0 knows its actions, clip 1 does not: a change of frame 3 is felt in clip 1 alone, of frame 2 in both."""
    predictor, whole = build(config, causal_context=3), clip()
    whole.actions[1] = -1
    noise = noise_of(predictor, 2, 6)
    before, _ = features(predictor, whole, noise)
    for time, felt in (3, [False, True]), (2, [True, True]):
        tokens = whole.tokens.clone()
        tokens[:, time] = (tokens[:, time] + 1) % 7
        after, _ = features(predictor, dataclasses.replace(whole, tokens=tokens), noise)
        assert ((after - before)[:, 4:].abs().amax((1, 2, 3, 4)) > 1e-9).tolist() == felt


def test_a_rollout_shows_the_last_true_frame_and_hides_its_own(config):
    """As training does: the features of imagined frames are those of a training clip with the same actions."""
    predictor, whole = build(config, causal_context=3), clip()
    want, _ = features(predictor, whole, noise_of(predictor, 2, 6))
    kept, noise = [], noise_of(predictor, 2, 6)
    state = predictor.observe(whole.slice(0, 3))
    with predictor.stack.register_forward_hook(lambda module, inputs, outputs: kept.append(outputs[0])):
        for t in range(3, 6):
            _, state = predictor.predict(state, whole.actions[:, t], noise[:, t])
    torch.testing.assert_close(torch.cat(kept, 1), want[:, 2:], rtol=0, atol=1e-12)


def test_without_actions_a_rollout_sees_its_own_frames(config):
    """By the unknown action a causal model goes on as one that is not."""
    whole = clip()
    causal, plain = build(config, causal_context=3), build(config)
    unknown = torch.full((2,), -1)
    noise = noise_of(plain, 2, 6)
    first, second = (predictor.observe(dataclasses.replace(whole, actions=unknown[:, None].expand(2, 6)))
                     for predictor in (causal, plain))  # fmt: skip
    for t in range(3):
        one, first = causal.predict(first, unknown, noise[:, t])
        two, second = plain.predict(second, unknown, noise[:, t])
        assert torch.equal(one, two)


def test_scored_are_later_frames_or_those_whose_action_is_unknown():
    """Token loss by hand: known clips count frames after the last that is seen, unknown ones all, each as a mean."""
    causal, whole = build(TOKEN, causal_context=3), clip()
    whole.actions[1] = -1
    out, loss = features(causal, whole, noise_of(causal, 2, 6))
    logits = causal.codec.decode(out).movedim(2, -1)
    each = torch.nn.functional.cross_entropy(
        logits.flatten(0, 3), whole.tokens[:, 1:].flatten(), reduction="none", label_smoothing=0.01
    ).view(2, 5, 16).sum(2)  # fmt: skip
    torch.testing.assert_close(loss, (each[0, 2:].mean() + each[1].mean()) / 2)


def test_dropped_frames_change_nothing_and_the_others_count_for_them(config):
    """The mean over many draws is the loss of all frames; a frame that is left out is not decoded."""
    whole, plain, dropping = clip(), build(config), build(config, drop_loss=0.6)
    decoded, noise = [], noise_of(plain, 2, 6)
    dropping.codec.decoder.register_forward_hook(lambda module, inputs, outputs: decoded.append(len(inputs[0])))
    full = plain(whole, noise=noise)[1]["nats"]
    draws = []
    for number in range(100):
        noise[..., 0] = torch.randn(2, 6, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        draws.append(dropping(whole, noise=noise)[1]["nats"])
    assert set(decoded) == {2 * 2}, "2 of 5 frames of each of 2 clips"
    assert torch.stack(draws).mean().item() == pytest.approx(full.item(), rel=1e-2)
    assert torch.stack(draws).std() > 1e-4


def test_a_clip_that_ends_in_the_context_is_refused(config):
    predictor = build(config, causal_context=4)
    with pytest.raises(ValueError, match="a clip of 4 frames leaves nothing to predict; give clips of at least 5"):
        predictor(clip(4), noise=noise_of(predictor, 2, 4))


@pytest.mark.parametrize("change", [{"drop_loss": 1.0}, {"causal_context": -1}, {"smoothing": -0.1}])
def test_impossible_settings_are_refused(config, change):
    (name, value), = change.items()  # fmt: skip
    with pytest.raises(ValueError, match=f"{name} = {value}: must be at least 0"):
        dataclasses.replace(config, **change)


def test_the_papers_reduction_weighs_masked_codes_alike():
    """Equal where each frame has as many masked codes; else the mean over codes, not over frames."""
    whole, mean, paper = clip(), build(TECO), build(TECO, reduction="paper")
    frames, mask = torch.arange(5).expand(2, -1), torch.zeros(2, 5, 4, 4, dtype=torch.bool)
    mask[:, :, 0] = True
    noise = noise_of(mean, 2, 6)
    for predictor in mean, paper:
        predictor._drawn = lambda noise: (frames, mask)
    equal = [predictor(whole, noise=noise)[1]["prior_nats"] for predictor in (mean, paper)]
    torch.testing.assert_close(*equal)
    mask[0, 0] = True
    one, other = (predictor(whole, noise=noise)[1]["prior_nats"] for predictor in (mean, paper))
    assert abs(one - other) > 1e-6
