"""What single blocks compute, beside their definitions; and that a TOML file can set what they have to be set by."""

import tomllib

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred import config
from videopred.predictors.stack import StackConfig
from videopred.spatial.attention import AttentionConfig
from videopred.spatial.convnext import ConvNeXtConfig, DepthwiseConfig
from videopred.spatial.efficientmod import EfficientModConfig
from videopred.spatial.glu import GLUConfig
from videopred.spatial.resnet import ResNetConfig

WIDTH = 6


def scrambled(block: nn.Module) -> nn.Module:
    """In float64, with random parameters, so that each of them shows."""
    for p in block.parameters():
        nn.init.normal_(p, 0, 0.5)
    return block.double()


def frames(height: int = 5, width: int = 7) -> Tensor:
    return torch.randn(2, WIDTH, height, width, dtype=torch.float64)


def normed(x: Tensor, norm: nn.Module, epsilon: float) -> Tensor:
    return functional.layer_norm(x.movedim(1, -1), (WIDTH,), norm.weight, norm.bias, epsilon).movedim(-1, 1)


def reach(block: nn.Module) -> Tensor:
    """Which pixels of a 9x9 frame change when the middle one does."""
    x = frames(9, 9)
    other = x.clone()
    other[..., 4, 4] += torch.randn(WIDTH)
    return (block(x) - block(other)).abs().amax((0, 1)) > 1e-12


def square(before: int, after: int) -> Tensor:
    """True from `before` pixels before the middle to `after` pixels after it, in both directions."""
    side = torch.arange(-4, 5)
    near = (side >= -before) & (side <= after)
    return near[:, None] & near


def test_glu():
    block, x = scrambled(GLUConfig().build(WIDTH)), frames()
    g = functional.gelu(normed(x, block.norm, 1e-6), approximate="tanh")
    want = functional.conv2d(g, block.value.weight, block.value.bias) * torch.sigmoid(
        functional.conv2d(g, block.gate.weight, block.gate.bias)
    )
    torch.testing.assert_close(block(x), want)


def test_convnext():
    block, x = scrambled(ConvNeXtConfig(ratio=3).build(WIDTH)), frames()
    mixed = functional.conv2d(x, block.mixer.weight, block.mixer.bias, padding=3, groups=WIDTH)
    hidden = functional.conv2d(normed(mixed, block.norm, 1e-6), block.expand.weight, block.expand.bias)
    out = functional.conv2d(functional.gelu(hidden), block.reduce.weight, block.reduce.bias)
    assert hidden.shape[1] == 3 * WIDTH
    torch.testing.assert_close(block(x), x + block.gamma.view(1, -1, 1, 1) * out)


@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("fuse", ["mul", "sum"])
def test_efficientmod(ratio, fuse):
    """The paper's form: two maps of the normalised input, the context repeated `ratio` times."""
    block, x = scrambled(EfficientModConfig(ratio=ratio, fuse=fuse).build(WIDTH)), frames()
    u = normed(x, block.norm, 1e-5)
    weights, biases = block.inward.weight, block.inward.bias
    f = functional.conv2d(u, weights[:WIDTH], biases[:WIDTH])
    value = functional.conv2d(u, weights[WIDTH:], biases[WIDTH:])
    spread = functional.conv2d(f, block.depthwise.weight, block.depthwise.bias, padding=3, groups=WIDTH)
    context = functional.conv2d(functional.gelu(spread), block.context.weight, block.context.bias)
    context = context.repeat(1, ratio, 1, 1)
    value = functional.gelu(value) if ratio > 1 else value
    z = value * context if fuse == "mul" else value + context
    out = functional.conv2d(z, block.out.weight, block.out.bias)
    torch.testing.assert_close(block(x), x + block.gamma.view(1, -1, 1, 1) * out)


def test_attention_sees_the_whole_frame_and_takes_no_notice_of_places():
    block, x = scrambled(AttentionConfig(num_heads=2, head_size=3, ratio=2).build(WIDTH)), frames()
    order = torch.randperm(35)
    shuffled = x.flatten(2)[..., order].view(x.shape)
    torch.testing.assert_close(block(shuffled), block(x).flatten(2)[..., order].view(x.shape))
    assert reach(block).all()


def test_heads_are_an_eighth_of_the_width_or_32():
    assert AttentionConfig().build(8).qkv.weight.shape == (3 * 8 * 32, 8, 1, 1)
    assert AttentionConfig(num_heads=2).build(320).qkv.weight.shape == (3 * 2 * 40, 320, 1, 1)


@pytest.mark.parametrize(
    "block, before, after",
    [
        (ResNetConfig(num_groups=WIDTH), 2, 2),
        (ResNetConfig(num_groups=WIDTH, kernel_size=(5, 1)), 2, 2),
        (ResNetConfig(num_groups=WIDTH, kernel_size=(5, 3)), 3, 3),
        (GLUConfig(), 0, 0),
        (GLUConfig(kernel_size=5), 2, 2),
        (GLUConfig(gate_kernel_size=3), 1, 1),
        (ConvNeXtConfig(mixer=DepthwiseConfig(kernel_size=5)), 2, 2),
        (ConvNeXtConfig(mixer=DepthwiseConfig(kernel_size=4)), 2, 1),
        (EfficientModConfig(kernel_size=3), 1, 1),
    ],
    ids=str,
)
def test_kernel_sizes_decide_how_far_a_pixel_is_seen(block, before, after):
    module = scrambled(block.build(WIDTH))
    if isinstance(block, ResNetConfig):  # its statistics are over the whole frame
        module.norm1 = module.norm2 = nn.Identity()
    assert torch.equal(reach(module), square(before, after))


TOML = {
    "kind = 'resnet'\nkernel_size = 5": ResNetConfig(kernel_size=5),
    "kind = 'resnet'\nkernel_size = [5, 3]\nnum_groups = 8": ResNetConfig(kernel_size=(5, 3), num_groups=8),
    "kind = 'glu'\nkernel_size = 3\ngate_kernel_size = 5": GLUConfig(kernel_size=3, gate_kernel_size=5),
    "kind = 'convnext'\nmixer = { kernel_size = 9 }\nratio = 2": ConvNeXtConfig(
        mixer=DepthwiseConfig(kernel_size=9), ratio=2
    ),
    "kind = 'efficientmod'\nfuse = 'sum'\nlayer_scale = 0.1": EfficientModConfig(fuse="sum", layer_scale=0.1),
    "kind = 'attention'\nnum_heads = 4\nhead_size = 16": AttentionConfig(num_heads=4, head_size=16),
}


@pytest.mark.parametrize("text, want", TOML.items(), ids=lambda x: x.kind if hasattr(x, "kind") else "")
def test_a_stack_takes_it_from_toml(text, want):
    stack = config.from_dict(StackConfig, {"spatial": tomllib.loads(text)})
    assert stack.spatial == want
    assert config.from_dict(StackConfig, tomllib.loads(config.dumps(stack))) == stack


@pytest.mark.parametrize(
    "text, message",
    [
        ("kind = 'resnet'\nkernel_size = [5, 0]", r"kernel_size = \(5, 0\): must be at least 1"),
        ("kind = 'resnet'\nkernel_size = [5, 3, 1]", "kernel_size = .*must be a list of 2"),
        ("kind = 'efficientmod'\nratio = 0", "ratio = 0: must be at least 1"),
        ("kind = 'efficientmod'\nfuse = 'max'", "fuse = 'max': must be one of mul, sum"),
        ("kind = 'attention'\nnum_heads = 0", "num_heads = 0: must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(text, message):
    with pytest.raises(config.ConfigError, match=message):
        config.from_dict(StackConfig, {"spatial": tomllib.loads(text)})
