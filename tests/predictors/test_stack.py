"""How layers are put together: norm before, after or never; skips short and long; dropout."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from videopred.dynamics.convs5 import ConvS5Config
from videopred.predictors.stack import StackConfig
from videopred.spatial.resnet import ResNetConfig

WIDTH = 4
CONFIG = StackConfig(
    width=WIDTH, depth=1, dynamics=ConvS5Config(num_states=4), spatial=ResNetConfig(num_groups=2, activation="swish")
)


def features(length: int = 3) -> torch.Tensor:
    return torch.randn(2, length, WIDTH, 3, 5, dtype=torch.float64)


def normed(x: torch.Tensor) -> torch.Tensor:
    """LayerNorm over channels with its initial scale and shift."""
    return functional.layer_norm(x.movedim(2, -1), (WIDTH,), eps=1e-6).movedim(-1, 2)


def branch(layer, u: torch.Tensor) -> torch.Tensor:
    """spatial(dynamics(u))."""
    return layer.spatial(layer.dynamics(u)[0].flatten(0, 1)).unflatten(0, u.shape[:2])


@pytest.mark.parametrize("skip", [True, False], ids=["skip", "no-skip"])
@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_layer(norm, skip):
    stack, u = dataclasses.replace(CONFIG, norm=norm, skip=skip).build().double(), features()
    layer = stack.layers[0]
    want = {
        "post": lambda: normed(skip * u + branch(layer, u)),
        "pre": lambda: skip * u + branch(layer, normed(u)),
        "none": lambda: skip * u + branch(layer, u),
    }[norm]()
    torch.testing.assert_close(stack(u)[0], want)


def test_layers_follow_one_another_each_with_a_state_of_its_own():
    stack, u = dataclasses.replace(CONFIG, depth=3).build().double(), features()
    x, states = u, []
    for layer in stack.layers:
        x, state = layer(x)
        states.append(state)
    y, given = stack(u)
    assert torch.equal(y, x) and len(given) == 3
    assert all(torch.equal(state, want) for state, want in zip(given, states, strict=True))
    again, _ = stack(u, given)
    for layer, state in zip(stack.layers, given, strict=True):
        u, _ = layer(u, state)
    assert torch.equal(again, u)


def test_long_skips_add_the_input_of_one_layer_to_that_of_a_later_one():
    stack, u = dataclasses.replace(CONFIG, depth=4, long_skips=((0, 2), (1, 3))).build().double(), features()
    a, b, c, d = (lambda x, layer=layer: layer(x)[0] for layer in stack.layers)
    first = a(u)
    third = b(first) + u
    torch.testing.assert_close(stack(u)[0], d(c(third) + first))


@pytest.mark.parametrize("skips", [((2, 1),), ((0, 4),), ((-1, 2),), ((1, 1),)])
def test_impossible_long_skips_are_refused(skips):
    with pytest.raises(ValueError, match=r"must lead from a layer to a later one of 0\.\.3"):
        dataclasses.replace(CONFIG, depth=4, long_skips=skips).build()


def test_dropout_has_one_mask_for_all_times_and_none_in_evaluation():
    stack, u = dataclasses.replace(CONFIG, norm="none", skip=False, dropout=0.5).build().double(), features(6)
    want = stack.eval()(u)[0]
    torch.testing.assert_close(want, branch(stack.layers[0], u))
    share = stack.train()(u)[0] / want  # 0 or 2
    torch.testing.assert_close(share, share[:, :1].expand_as(share))
    assert share.round().unique().tolist() == [0, 2]
    assert not torch.equal(share[0], share[1])
