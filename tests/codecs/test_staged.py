"""Every spatial block works inside encoder and decoder; every setting loads from TOML; impossible ones are refused."""

import tomllib
import typing

import pytest
import torch

from videopred import config
from videopred.clip import Clip, Format
from videopred.codecs.staged import Encoder, StagedCodecConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.predictors.pixel import PixelConfig
from videopred.predictors.stack import StackConfig
from videopred.spatial import Spatial
from videopred.spatial.half_glu import HalfGLUConfig

KINDS = [typing.get_type_hints(member)["kind"].__args__[0] for member in typing.get_args(Spatial)]
SETTINGS = {"resnet": "num_groups = 2", "standard": "num_groups = 2", "ssm2d": "num_states = 2"}


@pytest.mark.parametrize("kind", KINDS)
def test_any_block_in_encoder_and_decoder_and_after_any_dynamics(kind):
    """Built from TOML, as a whole model whose loss reaches every parameter of the blocks."""
    table = f"kind = '{kind}'\n{SETTINGS.get(kind, '')}"
    text = f"[codec]\nkind='staged'\nwidths=[4, 8]\npatch=2\n[codec.spatial]\n{table}\n[stack.spatial]\n{table}"
    raw = tomllib.loads(text)
    raw["stack"] |= {"width": 4, "depth": 1, "dynamics": {"num_states": 4}}
    predictor = config.from_dict(PixelConfig, raw).build(Format(channels=1, height=8, width=12))
    loss, _, _ = predictor(Clip(frames=torch.rand(2, 3, 1, 8, 12) * 2 - 1))
    loss.backward()
    for name, p in predictor.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name
    blocks = [name for name, _ in predictor.named_modules() if "layers" in name or "spatial" in name]
    assert any("encoder" in name for name in blocks) and any("decoder" in name for name in blocks)


def test_depth_and_widths_make_the_stages():
    settings = StagedCodecConfig(widths=(4, 8), depth=3, patch=2, spatial=HalfGLUConfig())
    encoder = Encoder(1, settings)
    assert [type(layer).__name__ for layer in encoder.layers] == [
        "Shrink",
        *["HalfGLU"] * 3,
        "Shrink",
        *["HalfGLU"] * 3,
    ]
    assert settings.stride == 4 and encoder(torch.zeros(1, 1, 8, 4)).shape == (1, 8, 2, 1)


def test_every_setting_loads_from_toml():
    text = "kind='staged'\nwidths=[6, 12]\ndepth=2\npatch=2\nstem_kernel_size=5\nspatial={kind='glu', kernel_size=3}"
    codec = config.from_dict(PixelConfig, {"codec": tomllib.loads(text)}).codec
    assert (codec.widths, codec.depth, codec.patch, codec.stem_kernel_size) == ((6, 12), 2, 2, 5)
    assert codec.spatial.kind == "glu" and codec.spatial.kernel_size == 3
    assert codec.build(1, 4, 1, 8, 8).encoder.layers[0].conv.weight.shape == (6, 1, 5, 5)


@pytest.mark.parametrize(
    "text, message",
    [
        ("widths = []", "must name at least one width"),
        ("widths = [4, 0]", r"widths = \(4, 0\): must be at least 1"),
        ("patch = 4\nstem_kernel_size = 8", "stem_kernel_size = 8: must be odd and at least 7"),
        ("patch = 4\nstem_kernel_size = 5", "stem_kernel_size = 5: must be odd and at least 7"),
        ("spatial = { kind = 'resent' }", "did you mean 'resnet'"),
    ],
)
def test_impossible_settings_are_refused(text, message):
    with pytest.raises(config.ConfigError, match=message):
        config.from_dict(PixelConfig, {"codec": {"kind": "staged"} | tomllib.loads(text)})


def test_groups_that_do_not_divide_a_width_are_refused():
    raw = {"codec": {"kind": "staged", "widths": [6], "spatial": {"kind": "resnet", "num_groups": 4}}}
    with pytest.raises(ValueError, match="6 channels cannot be normalised in num_groups = 4"):
        config.from_dict(PixelConfig, raw).build(Format(1, 8, 8))


def test_shrinking_sees_every_pixel():
    for settings in (StagedCodecConfig(widths=(4,), patch=4), StagedCodecConfig(widths=(4, 4), patch=2)):
        encoder = Encoder(1, settings)
        x = torch.randn(1, 1, 8, 8, requires_grad=True)
        encoder(x).square().sum().backward()
        assert x.grad.abs().min() > 0


def test_the_stack_takes_the_codecs_channels():
    predictor = PixelConfig(
        codec=StagedCodecConfig(widths=(4, 10), patch=2, spatial=HalfGLUConfig()),
        stack=StackConfig(width=6, depth=1, dynamics=ConvS5Config(num_states=4), spatial=HalfGLUConfig()),
    ).build(Format(1, 8, 8))
    assert predictor.mix.weight.shape == (6, 10, 1, 1)
