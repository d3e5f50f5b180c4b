"""What every tokenizer must do."""

import dataclasses

import pytest
import torch

from videopred.codecs.vqgan import VQGANConfig

SMALL = VQGANConfig(
    width=4,
    multipliers=(1, 2, 2),
    num_blocks=1,
    attention=(2,),
    num_groups=2,
    latent_channels=6,
    code_width=5,
    num_codes=16,
)
MEMBERS = [
    SMALL,
    dataclasses.replace(SMALL, learn="loss"),
    dataclasses.replace(SMALL, multipliers=(2, 1), attention=(), patch=2, num_blocks=2),
]


@pytest.fixture(params=MEMBERS, ids=lambda config: f"{config.kind}-{config.learn}-{config.patch}")
def codec(request):
    torch.manual_seed(0)
    return request.param.build(3, 2 * request.param.stride, 3 * request.param.stride).double()


def frames(codec, batch: int = 2, time: int = 3) -> torch.Tensor:
    return torch.rand(batch, time, 3, 2 * codec.stride, 3 * codec.stride, dtype=torch.float64) * 2 - 1


def test_encode_is_embed_of_tokenize(codec):
    x = frames(codec)
    ids = codec.tokenize(x)
    assert ids.dtype == torch.int64 and ids.shape == (2, 3, 2, 3)
    assert ids.min() >= 0 and ids.max() < codec.num_codes and len(ids.unique()) > 1
    latents = codec.encode(x)
    assert torch.equal(latents, codec.embed(ids))
    assert latents.shape[2] == codec.channels
    assert codec.decode(latents).shape == x.shape


def test_a_frame_is_coded_by_itself(codec):
    x = frames(codec)
    assert torch.equal(codec.tokenize(x)[1:, 1:2], codec.tokenize(x[1:, 1:2]))
    torch.testing.assert_close(codec.decode(codec.encode(x))[:, 2:], codec.decode(codec.encode(x[:, 2:])))


def test_the_gradient_of_a_reconstruction_reaches_every_parameter(codec):
    x = frames(codec)
    found = codec.quantize(codec.features(x))
    ((codec.decode(found.vectors) - x).square().mean() + found.commitment + found.codebook).backward()
    assert not [name for name, p in codec.named_parameters() if p.grad is None or not p.grad.abs().sum()]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"multipliers": ()}, "at least one level"),
        ({"attention": (3,)}, "levels go from 0 to 2"),
        ({"num_codes": 1}, "at least 2"),
        ({"num_codes": 2**16 + 1}, "at most 65536"),
        ({"decay": 1.0}, "below 1"),
    ],
)
def test_settings_that_cannot_be(wrong, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(SMALL, **wrong)


def test_frames_that_cannot_be_cut():
    with pytest.raises(ValueError, match=r"30x32 cannot be cut into tokens with stride 4.*multiples of 4"):
        SMALL.build(3, 30, 32)
