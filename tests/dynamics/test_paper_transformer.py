"""What holds for the paper's transformer alone."""

import dataclasses

import pytest
import torch

from videopred.dynamics.paper_transformer import PaperTransformerConfig

SMALL = PaperTransformerConfig(token_width=8, mlp_width=5, num_heads=2, depth=2, window=4, patch=2, grid=(2, 1))


def test_beyond_its_window_every_frame_is_as_if_its_clip_began_with_the_window():
    layer, x = SMALL.build(3).double(), torch.randn(2, 7, 3, 4, 2).double()
    y, state = layer(x)
    for time in range(7):
        fresh, _ = layer(x[:, max(0, time - 3) : time + 1])
        torch.testing.assert_close(y[:, time], fresh[:, -1], rtol=0, atol=1e-12)
    again, _ = layer(x[:, 4:])
    torch.testing.assert_close(state, layer(x[:, 4:])[1], rtol=0, atol=0)
    assert not torch.allclose(again[:, 0], y[:, 4])  # there the window held three frames more


def test_the_state_grows_until_it_holds_all_but_one_frame_of_the_window():
    layer, x = SMALL.build(3), torch.randn(1, 6, 3, 4, 2)
    sizes, state = [], None
    for frame in x.split(1, 1):
        _, state = layer(frame, state)
        sizes.append(state.shape[1])
    assert sizes == [1, 2, 3, 3, 3, 3]


def test_patches_of_a_frame_see_each_other_and_a_window_of_one_sees_no_other_frame():
    layer, x = dataclasses.replace(SMALL, depth=1, window=1).build(3).double(), torch.randn(1, 3, 3, 4, 2).double()
    assert layer(x)[1].shape[1] == 0
    changed = x.clone()
    changed[0, 1, :, 0, 0] += 1  # of the first patch
    touched = (layer(changed)[0] - layer(x)[0]).abs()[0].amax(1) > 1e-9
    assert touched[1].all() and not touched[[0, 2]].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "num_heads = 3: must divide the width, 256"),
        ({"window": 0}, "window = 0"),
        ({"grid": (1, 0)}, r"grid = \(1, 0\)"),
        ({"depth": 0}, "depth = 0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PaperTransformerConfig(**settings)


def test_maps_of_another_size_are_refused():
    with pytest.raises(
        ValueError, match=r"patch = 2 and grid = \(2, 1\) take feature maps of \(4, 2\); here .*\(4, 4\)"
    ):
        SMALL.build(3)(torch.zeros(1, 1, 3, 4, 4))
