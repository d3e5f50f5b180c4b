"""Training in chunks of time: the loss and the gradient of the whole clip, from a chunk's memory."""

import pytest
import torch

from videopred import config
from videopred.chunked import Chunked
from videopred.clip import Clip, Format
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.simvp import SimVPConfig
from videopred.predictors.token import TokenConfig
from videopred.training import TrainingConfig
from videopred.training.feeding import ClosedLoopConfig, ScheduledSamplingConfig, TeacherForcingConfig

FORMAT = Format(1, 8, 8, num_actions=3)
CODEC = {"encoder_widths": [4], "decoder_widths": [4], "num_groups": 2}
DYNAMICS = {
    "convs5": {"kind": "convs5", "num_states": 4},
    "gated": {"kind": "gated", "num_states": 4},
    "convlstm": {"kind": "convlstm"},
    "transformer": {"kind": "transformer", "num_heads": 2, "window": 4, "patch": 4},
    "linear_attention": {"kind": "linear_attention", "num_heads": 2},
}
RESNET = {"kind": "resnet", "num_groups": 2}


def build(dynamics="convs5", head="direct", spatial=RESNET, **stack):
    stack = {"width": 4, "depth": 2, "dynamics": DYNAMICS[dynamics], "spatial": spatial} | stack
    fields = {"codec": CODEC, "stack": stack, "head": {"kind": head}, "actions": {"width": 2}, "moments_weight": 0.1}
    return config.from_dict(PixelConfig, fields).build(FORMAT)


def clip(length=11, batch=2):
    """uint8 frames, as training gets them, and actions."""
    frames = torch.randint(0, 256, (batch, length, 8, 8, 1), dtype=torch.uint8)
    return Clip(frames=frames, actions=torch.randint(-1, 3, (batch, length)))


def gradients(predictor, loss):
    predictor.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in predictor.named_parameters() if p.grad is not None}


def assert_same(predictor, part, whole, tolerance):
    """Loss, metrics and gradients of two ways through a predictor; tolerance relative to a tensor's largest value."""
    (loss, metrics, *_), (want, numbers, *_) = part, whole
    assert loss.item() == pytest.approx(want.item(), rel=tolerance)
    assert {k: v.item() for k, v in metrics.items()} == pytest.approx({k: v.item() for k, v in numbers.items()},
                                                                      rel=tolerance)  # fmt: skip
    want = gradients(predictor, want)
    got = gradients(predictor, loss)
    assert got.keys() == want.keys()
    for name, gradient in want.items():
        torch.testing.assert_close(got[name], gradient, rtol=0, atol=tolerance * gradient.abs().max().item(), msg=name)


@pytest.mark.parametrize("head", ["direct", "transport", "flow"])
@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_the_gradient_is_that_of_the_whole_clip(dynamics, head):
    predictor, whole = build(dynamics, head).double(), clip()
    for size in (1, 4) if head == "direct" else (3,):
        assert_same(predictor, Chunked(predictor, size)(whole), predictor(whole), 1e-11)


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_in_float32_too(dynamics):
    """Within 1e-5 of the whole gradient; single numbers are sums of large ones that cancel, and differ by more."""
    predictor, whole = build(dynamics), clip(30)
    part, want = (gradients(predictor, way(whole)[0]) for way in (Chunked(predictor, 7), predictor))
    assert part.keys() == want.keys()
    part, want = (torch.cat([gradient.flatten() for gradient in found.values()]) for found in (part, want))
    assert (part - want).norm() <= 1e-5 * want.norm()


def test_what_a_block_recalls_is_computed_for_each_chunk():
    """The kernel of ssm2d is kept between calls and belongs to the graph of one of them."""
    predictor, whole = build(spatial={"kind": "ssm2d", "num_states": 2}).double(), clip()
    assert_same(predictor, Chunked(predictor, 3)(whole), predictor(whole), 1e-10)


def test_a_mask_of_dropout_is_one_for_all_chunks():
    predictor, whole = build(dropout=0.5).double().train(), clip()
    torch.manual_seed(5)
    want = predictor(whole)
    after = torch.rand(3)
    torch.manual_seed(5)
    got = Chunked(predictor, 3)(whole)
    assert torch.equal(torch.rand(3), after)
    assert_same(predictor, got, want, 1e-11)
    torch.manual_seed(6)
    assert Chunked(predictor, 3)(whole)[0].item() != got[0].item()


def test_bfloat16_is_computed_again_as_it_was():
    """As near to the whole clip in bfloat16 as rounding of other sums lets it be, and the weights stay float32."""
    predictor, whole = build(), clip(30)
    with torch.autocast("cpu", torch.bfloat16):
        got, want = Chunked(predictor, 7)(whole), predictor(whole)
    exact = gradients(predictor, predictor(whole)[0])
    rough, part = gradients(predictor, want[0]), gradients(predictor, got[0])
    assert got[0].item() == pytest.approx(want[0].item(), rel=1e-3)
    for name, gradient in rough.items():
        assert part[name].dtype == torch.float32
        assert (part[name] - gradient).norm() <= (gradient - exact[name]).norm() + 1e-2 * gradient.norm(), name
    assert any(not torch.equal(part[name], exact[name]) for name in exact)


def test_scheduled_sampling_in_chunks(monkeypatch):
    pixels = Clip.pixels  # the recipe asks for float32 frames
    monkeypatch.setattr(Clip, "pixels", lambda self, dtype=torch.float64: pixels(self, torch.float64))
    predictor, whole = build().double(), clip()
    recipe = ScheduledSamplingConfig(share=0.7, passes=2, min_context=2, max_context=3)
    losses = [
        recipe.loss(fed, whole, 1.0, torch.Generator().manual_seed(3)) for fed in (Chunked(predictor, 4), predictor)
    ]
    assert_same(predictor, *losses, 1e-11)


def test_a_predictor_that_takes_noise_gets_that_of_each_chunk():
    patch = {"width": 4, "multipliers": [1], "num_blocks": 1, "attention": [], "num_groups": 2, "patch": 2}
    tokenizer = {"codec": {"kind": "vqgan", **patch, "code_width": 5, "num_codes": 7}}
    stack = {"width": 4, "depth": 1, "dynamics": DYNAMICS["convs5"], "spatial": RESNET}
    fields = {"tokenizer": tokenizer, "codec": {"kind": "resnet", **CODEC}, "stack": stack, "drop_loss": 0.0}
    predictor, whole = config.from_dict(TokenConfig, fields).build(FORMAT).double(), clip()
    chunks = Chunked(predictor, 3)
    assert chunks.noise_shape() == predictor.noise_shape()
    noise = torch.randn(2, 11, *predictor.noise_shape(), dtype=torch.float64)
    assert_same(predictor, chunks(whole, noise=noise), predictor(whole, noise=noise), 1e-11)


def test_blocks_of_frames_lie_within_chunks():
    predictor = config.from_dict(SimVPConfig, {"num_frames": 2, "codec": {"kind": "resnet", **CODEC}, "features": 4,
                                               "width": 4, "depth": 1}).build(FORMAT).double()  # fmt: skip
    whole = clip(12)
    assert_same(predictor, Chunked(predictor, 4)(whole), predictor(whole), 1e-11)
    for size in (2, 5):
        with pytest.raises(
            ValueError, match=f"time_chunk = {size}: this predictor predicts blocks of 2 frames; give a"
        ):
            Chunked(predictor, size)


def test_closed_loop_is_refused():
    with pytest.raises(ValueError, match="time_chunk = 4: not with feeding closed_loop"):
        TrainingConfig(1, 1, 64, time_chunk=4, feeding=ClosedLoopConfig())
    assert isinstance(TrainingConfig(1, 1, 64, time_chunk=4).feeding, TeacherForcingConfig)


def test_without_gradient_there_is_a_loss():
    predictor, whole = build().double(), clip()
    with torch.no_grad():
        assert Chunked(predictor, 3)(whole)[0].item() == pytest.approx(predictor(whole)[0].item(), rel=1e-12)
