"""What is counted as work, and how time is shared by the frames of a block."""

import math

import pytest
import torch
from torch import nn

from videopred import config
from videopred.clip import Clip
from videopred.dynamics.convgru import ConvGRUConfig
from videopred.dynamics.convlstm import ConvLSTMConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.dynamics.linear_attention import LinearAttentionConfig
from videopred.dynamics.transformer import TransformerConfig
from videopred.evaluation.cost import Clock, flops_by_part, flops_per_frame, speed
from videopred.nn.flops import counting
from videopred.predictors.parts import parameters
from videopred.spatial.attention import AttentionConfig
from videopred.spatial.ssm2d import SSM2DMixerConfig
from videopred.training import RunConfig


class Once(nn.Module):
    """Predicts by one spatial block."""

    def __init__(self, inner: nn.Module, block: int = 1):
        super().__init__()
        self.inner, self.block = inner, block

    def predict(self, state, action=None, noise=None):
        return self.inner(state), state


@torch.no_grad()
def count(predictor: nn.Module, frames: torch.Tensor) -> int:
    return flops_per_frame(predictor, frames, None, None, len(frames))


def test_fourier_transforms_are_counted():
    """Of 8 channels, there and back: 6 rows, real, of 20 points and 11 columns of 12; not of the kernel, made once."""
    predictor, frames = Once(SSM2DMixerConfig().build(8)), torch.randn(3, 8, 6, 10)
    rows, columns = 6 * 2.5 * 20 * math.log2(20), 11 * 5 * 12 * math.log2(12)
    assert count(predictor, frames) == pytest.approx(2 * 8 * (rows + columns), rel=1e-3)
    fresh = Once(SSM2DMixerConfig().build(8))
    with torch.no_grad():
        assert flops_by_part(fresh, frames[:1], None, None).total() == pytest.approx(count(predictor, frames), rel=1e-3)


def test_attention_is_counted():
    frames, pixels, width, inner = torch.randn(2, 16, 3, 4), 12, 16, 2 * 8
    block = AttentionConfig(num_heads=2, head_size=8, ratio=2).build(width)
    maps = 3 * inner * width + inner * width + 2 * 2 * width * width
    assert count(Once(block), frames) == 2 * pixels * maps + 2 * 2 * pixels * pixels * inner


PIXELS, WIDTH, HEADS = 12, 8, 2
PRODUCT = 2 * PIXELS * WIDTH * WIDTH  # of a 1x1 convolution
OF_A_FRAME = {  # FLOPs of one frame, by hand: what a layer multiplies, whatever was seen before
    "convs5": (ConvS5Config(num_states=4), 2 * 9 * PRODUCT // 2),  # 2p = 4 channels out, and 4 in
    "convlstm": (ConvLSTMConfig(), 8 * 9 * PRODUCT),
    "convgru": (ConvGRUConfig(), 6 * 9 * PRODUCT),
    "transformer": (TransformerConfig(num_heads=HEADS, window=5), 4 * PRODUCT + 4 * PIXELS * 5 * PIXELS * WIDTH),
    "linear_attention": (LinearAttentionConfig(num_heads=HEADS), 4 * PRODUCT + 4 * PIXELS * WIDTH * (WIDTH // 2 + 1)),
}


@torch.no_grad()
@pytest.mark.parametrize("config, flops", OF_A_FRAME.values(), ids=OF_A_FRAME)
def test_dynamics_are_counted(config, flops):
    layer, frame = config.build(WIDTH), torch.randn(2, 1, WIDTH, 3, 4)
    _, state = layer(frame)
    with counting() as counter:
        layer(frame, state)
    assert counter.get_total_flops() == 2 * flops


def test_attention_is_counted_with_its_gradient():
    x = torch.randn(2, 4, 3, 8, requires_grad=True)
    with counting() as counter:
        nn.functional.scaled_dot_product_attention(x, x, x).sum().backward()
    product = 2 * 2 * 4 * 3 * 3 * 8
    assert counter.get_total_flops() == 2 * product + 5 * product  # backward makes the scores once more


def test_frames_of_a_block_share_its_cost():
    inner, frames = nn.Conv2d(4, 4, 3, padding=1), torch.randn(2, 4, 5, 5)
    assert count(Once(inner, block=5), frames) * 5 == count(Once(inner), frames) == 2 * 25 * 9 * 16


def test_frames_of_a_block_share_its_time(monkeypatch):
    """By a clock that stands still but for the making of a block, so that a busy machine changes nothing."""
    now = [0.0]

    def frames():
        for i in range(8):
            now[0] += 0.02 if i % 4 == 0 else 0.0
            yield torch.zeros(2, 1, 1, 1)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    clock = Clock(torch.device("cpu"), block=4)
    assert len(list(clock.steps(frames(), 8))) == 8
    assert speed(clock.cut()) == pytest.approx({"step_ms": 5, "batch_size": 2, "frames_per_second": 400})


@torch.no_grad()
@pytest.mark.parametrize("preset", ["debug", "moving-mnist-small", "moving-mnist-small-simvp"])
def test_parts_hold_all_there_is(preset):
    run = config.load(RunConfig, "presets", preset)
    predictor = run.predictor.build(run.recipe.format).eval()
    assert parameters(predictor).total() == sum(p.numel() for p in predictor.parameters())
    state = predictor.observe(Clip(frames=torch.zeros(1, 12, 32, 32, 1, dtype=torch.uint8)))
    parts, whole = flops_by_part(predictor, state, None, None), flops_per_frame(predictor, state, None, None, 1)
    assert parts.total() == pytest.approx(whole, abs=len(parts))  # of a block each frame has a whole number
    assert "(other)" not in parts and "(other)" not in parameters(predictor)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in predictor.modules())


@torch.no_grad()
def test_what_no_part_has_or_does_is_said():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.matrix = nn.Linear(4, 4), nn.Parameter(torch.ones(4, 4))

        def predict(self, state, action=None, noise=None):
            return self.inner(state) @ self.matrix, state

    assert parameters(Bare()) == {"inner": 20, "(other)": 16}
    assert flops_by_part(Bare(), torch.ones(1, 4), None, None) == {"inner": 2 * 16, "(other)": 2 * 16}
