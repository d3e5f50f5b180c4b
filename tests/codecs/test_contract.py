"""What every member of `videopred.codecs` must do."""

import dataclasses
import typing

import pytest
import torch

from videopred.codecs import Codec
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.codecs.staged import StagedCodecConfig
from videopred.spatial.convnext import ConvNeXtConfig
from videopred.spatial.ssm2d import SSM2DConfig, SSM2DMixerConfig

CHANNELS, FEATURES, OUTPUTS = 3, 6, 2
# of the fields a member may have
SMALL = {"encoder_widths": (4, 8), "decoder_widths": (4, 8), "num_groups": 2, "widths": (4, 8)}
MEMBERS = [
    member(**{key: SMALL[key] for key in SMALL if key in {field.name for field in dataclasses.fields(member)}})
    for member in typing.get_args(Codec) or (Codec,)
]
MORE = [
    ResNetCodecConfig(
        encoder_widths=(4, 4, 8), decoder_widths=(4, 8, 8), encoder_blocks=2, decoder_blocks=2, num_groups=1, patch=2
    ),
    ResNetCodecConfig(encoder_widths=(8,), decoder_widths=(4,), num_groups=2, activation="gelu"),
    StagedCodecConfig(
        widths=(4, 6, 8), depth=2, patch=1, stem_kernel_size=5, spatial=SSM2DConfig(num_states=2, kernel_size=2)
    ),
    StagedCodecConfig(widths=(4,), patch=3, spatial=ConvNeXtConfig(mixer=SSM2DMixerConfig(num_states=2))),
]


@pytest.fixture(params=MEMBERS + MORE, ids=lambda config: config.kind + ("" if config in MEMBERS else "-more"))
def config(request):
    return request.param


@pytest.fixture
def codec(config):
    return build(config).double()


def build(config, features: int = FEATURES):
    return config.build(CHANNELS, features, OUTPUTS, 2 * config.stride, 3 * config.stride)


def frames(codec, batch: int = 2, time: int = 3) -> torch.Tensor:
    return torch.rand(batch, time, CHANNELS, 2 * codec.stride, 3 * codec.stride, dtype=torch.float64) * 2 - 1


def latents(batch: int = 2, time: int = 3, channels: int = FEATURES) -> torch.Tensor:
    return torch.randn(batch, time, channels, 2, 3, dtype=torch.float64)


def test_stride_and_channels_are_as_announced(config, codec):
    assert codec.stride == config.stride
    assert codec.encode(frames(codec)).shape == (2, 3, codec.channels, 2, 3)
    assert codec.decode(latents()).shape == (2, 3, OUTPUTS, 2 * codec.stride, 3 * codec.stride)


def test_every_frame_is_coded_by_itself(codec):
    """Neither other clips nor other times matter, nor the order of the frames."""
    for function, x in (codec.encode, frames(codec)), (codec.decode, latents()):
        want = function(x)
        for clip, time in (0, 0), (1, 2):
            one = function(x[clip : clip + 1, time : time + 1])
            torch.testing.assert_close(one[0, 0], want[clip, time], rtol=0, atol=1e-12)
        torch.testing.assert_close(function(x.flip(1)), want.flip(1), rtol=0, atol=1e-12)


def test_a_pixel_reaches_the_latent_over_it_and_a_latent_its_pixels(codec):
    """What moves moves in place: nothing is transposed or flipped on the way."""
    for function, x in (codec.encode, frames(codec)), (codec.decode, latents()):
        last, first = x.clone(), x.clone()
        last[..., -1, -1] += 1
        first[..., 0, 0] += 1
        after_last, after_first = ((function(y) - function(x)).abs().sum((0, 1, 2)) for y in (last, first))
        assert after_last[-1, -1] > after_first[-1, -1]
        assert after_first[0, 0] > after_last[0, 0]


def test_extra_is_joined_behind_the_latents(config):
    codec, x, extra = build(config, FEATURES + 2).double(), latents(), latents(channels=2)
    assert torch.equal(codec.decode(x, extra), codec.decode(torch.cat([x, extra], 2)))
    assert not torch.allclose(codec.decode(x, extra), codec.decode(x, extra + 1))


def test_sizes_that_are_no_multiple_of_the_stride_are_refused(config):
    if config.stride > 1:
        with pytest.raises(ValueError, match=rf"frames of {config.stride + 1}x.*multiples of {config.stride}"):
            config.build(CHANNELS, FEATURES, OUTPUTS, config.stride + 1, config.stride)


def test_gradients_reach_every_parameter(codec):
    (codec.encode(frames(codec)).square().sum() + codec.decode(latents()).square().sum()).backward()
    for name, p in codec.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


def test_bfloat16_autocast_is_near_float32(config):
    codec = build(config)
    for function, x in (codec.encode, frames(codec).float()), (codec.decode, latents().float()):
        with torch.no_grad():
            want = function(x)
            with torch.autocast("cpu", torch.bfloat16):
                got = function(x).float()
        assert (got - want).square().mean().sqrt() < 0.03 * want.square().mean().sqrt()


def test_saved_and_loaded_it_is_the_same(config, codec, tmp_path):
    other, x = build(config).double(), frames(codec)
    torch.save(codec.state_dict(), tmp_path / "codec.pt")
    assert not torch.equal(other.encode(x), codec.encode(x))
    other.load_state_dict(torch.load(tmp_path / "codec.pt", weights_only=True))
    assert torch.equal(other.encode(x), codec.encode(x))
