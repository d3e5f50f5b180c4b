"""What every member of `videopred.spatial` must do."""

import dataclasses
import typing

import pytest
import torch

from videopred.spatial import Spatial
from videopred.spatial.attention import AttentionConfig
from videopred.spatial.convnext import ConvNeXtConfig, DepthwiseConfig
from videopred.spatial.efficientmod import EfficientModConfig
from videopred.spatial.glu import GLUConfig
from videopred.spatial.resnet import ResNetConfig
from videopred.spatial.ssm2d import SSM2DConfig, SSM2DMixerConfig
from videopred.spatial.standard import StandardConfig

WIDTH = 8
SMALL = {"num_groups": 4, "num_heads": 2, "num_states": 3}  # of the fields a member may have
MEMBERS = [
    member(**{key: SMALL[key] for key in SMALL if key in {field.name for field in dataclasses.fields(member)}})
    for member in typing.get_args(Spatial) or (Spatial,)
]
MORE = [
    ResNetConfig(num_groups=2, kernel_size=2, activation="relu", squeeze_excite=True),
    ResNetConfig(num_groups=2, kernel_size=(5, 1), activation="swish"),
    StandardConfig(num_groups=2, activation="swish", squeeze_excite=True),
    GLUConfig(kernel_size=3, gate_kernel_size=2),
    ConvNeXtConfig(mixer=DepthwiseConfig(kernel_size=4), ratio=1, layer_scale=1.0),
    EfficientModConfig(ratio=1, kernel_size=4, layer_scale=1.0),
    EfficientModConfig(ratio=2, kernel_size=3, fuse="sum", layer_scale=1.0),
    ConvNeXtConfig(mixer=SSM2DMixerConfig(num_states=2, directions=2), layer_scale=1.0),
    SSM2DConfig(num_states=2, num_systems=8, directions=2, numbers="complex", kernel_size=3),
    SSM2DConfig(num_states=2, num_systems=4, directions=1, coupling="one_way"),
    SSM2DConfig(num_states=2, num_systems=1, numbers="complex", coupling="none"),
    AttentionConfig(num_heads=1, head_size=4, ratio=1),
]


@pytest.fixture(params=MEMBERS + MORE, ids=lambda config: config.kind + ("" if config in MEMBERS else "-more"))
def block(request):
    return request.param.build(WIDTH)


def frames(n: int, height: int = 7, width: int = 5, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(n, WIDTH, height, width, dtype=dtype)


@pytest.mark.parametrize("height, width", [(7, 5), (1, 1), (4, 8)])
def test_any_size_comes_back_finite_in_its_own_shape(block, height, width):
    x = frames(3, height, width)
    y = block(x)
    assert y.shape == x.shape and y.dtype == x.dtype and y.isfinite().all()


def test_frames_are_independent(block):
    block, x = block.double(), frames(4, dtype=torch.float64)
    together = block(x)
    for i in range(4):
        torch.testing.assert_close(block(x[i : i + 1]), together[i : i + 1], rtol=0, atol=1e-12)


def test_memory_order_does_not_matter(block):
    block, x = block.double(), frames(2, dtype=torch.float64)
    channels_last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(block(channels_last), block(x.contiguous()), rtol=0, atol=1e-12)


def test_gradients(block):
    block, x = block.double(), frames(1, 2, 2, dtype=torch.float64).requires_grad_()
    torch.autograd.gradcheck(block, x)
    if parameters := dict(block.named_parameters()):
        for p in parameters.values():
            torch.nn.init.normal_(p, 0, 0.5)
        names = list(parameters)

        def outputs(*values):
            return torch.func.functional_call(block, dict(zip(names, values, strict=True)), (x.detach(),))

        torch.autograd.gradcheck(outputs, list(parameters.values()), fast_mode=True)


def test_bfloat16_autocast_is_near_float32(block):
    x = frames(3)
    with torch.no_grad():
        want = block(x)
        with torch.autocast("cpu", torch.bfloat16):
            got = block(x)
    assert (got - want).square().mean().sqrt() < 0.03 * want.square().mean().sqrt()  # NaN fails too


def test_saved_and_loaded_it_is_the_same(block, tmp_path):
    x = frames(2)
    for p in block.parameters():
        torch.nn.init.normal_(p)
    want = block(x)
    torch.save(block.state_dict(), tmp_path / "block.pt")
    for p in block.parameters():
        torch.nn.init.normal_(p)
    block.load_state_dict(torch.load(tmp_path / "block.pt", weights_only=True))
    assert torch.equal(block(x), want)
