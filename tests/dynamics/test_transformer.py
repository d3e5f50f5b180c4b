"""What holds for the transformer with a cache alone."""

import cmath

import pytest
import torch

from videopred.dynamics.transformer import TransformerConfig


def reach(layer, x: torch.Tensor, time: int) -> list[int]:
    """The frames of the output that a change of one pixel of frame `time` touches at another pixel."""
    changed = x.clone()
    changed[0, time, :, 0, 0] += 1
    difference = (layer(changed)[0] - layer(x)[0])[0].abs().amax(1)[:, 1, 1]
    return (difference > 1e-9).nonzero().flatten().tolist()


@pytest.mark.parametrize("window", [1, 3, 9])
def test_a_token_sees_its_own_frame_and_those_of_its_window(window):
    layer, x = TransformerConfig(num_heads=2, window=window).build(6).double(), torch.randn(1, 8, 6, 2, 2).double()
    for time in 0, 4:
        assert reach(layer, x, time) == list(range(time, min(8, time + window)))


def test_it_is_plain_attention_over_all_tokens_of_the_window():
    """One head of two channels at width 2: rotary positions by hand, in complex numbers, time alone."""
    layer, x = TransformerConfig(num_heads=1, window=3).build(2).double(), torch.randn(1, 5, 2, 1, 2).double()
    maps = layer.queries_keys_values(x[0])[..., 0, :].movedim(-1, 1)  # t n 6
    q, k, v = maps.chunk(3, -1)
    want = torch.zeros(5, 2, 2).double()
    for t in range(5):
        for i in range(2):
            sees = [(s, j) for s in range(max(0, t - 2), t + 1) for j in range(2)]
            scores = []
            for s, j in sees:
                a, b = torch.view_as_complex(q[t, i].clone()), torch.view_as_complex(k[s, j].clone())
                scores.append((a * cmath.exp(1j * (t - s)) * b.conj()).real / 2**0.5)
            weights = torch.stack(scores).softmax(0)
            want[t, i] = sum(w * v[s, j] for w, (s, j) in zip(weights, sees, strict=True))
    want = layer.out(want.movedim(-1, 1)[:, :, None])
    torch.testing.assert_close(layer(x)[0][0], want, rtol=0, atol=1e-12)


def test_patches_are_tokens():
    """Pixels of a patch share a token, and the cache holds one token for four pixels."""
    layer, x = TransformerConfig(num_heads=2, window=3, patch=2).build(6).double(), torch.randn(1, 4, 6, 4, 6).double()
    y, (keys, values, count) = layer(x)
    assert y.shape == x.shape and keys.shape == values.shape == (1, 2, 2, 6, 3) and count.tolist() == [2]
    parts, state = [], None
    for frame in x.split(1, 1):
        part, state = layer(frame, state)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, 1), y, rtol=0, atol=1e-12)


def test_clips_of_different_age_go_together_in_a_batch():
    layer = TransformerConfig(num_heads=2, window=5).build(4).double()
    old, young, x = (torch.randn(1, length, 4, 2, 2).double() for length in (6, 2, 3))
    states = [layer(clip)[1] for clip in (old, young)]
    together = tuple(torch.cat(parts) for parts in zip(*states, strict=True))
    y, _ = layer(x.expand(2, -1, -1, -1, -1), together)
    for i, state in enumerate(states):
        torch.testing.assert_close(y[i : i + 1], layer(x, state)[0], rtol=0, atol=1e-12)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="window = 0: must be at least 1"):
        TransformerConfig(window=0)
    with pytest.raises(ValueError, match="num_heads = 4: must divide the width, 6"):
        TransformerConfig(num_heads=4).build(6)
    with pytest.raises(ValueError, match=r"transformer.patch = 2: must divide .*\(3, 4\)"):
        TransformerConfig(num_heads=1, patch=2).build(2)(torch.zeros(1, 1, 2, 3, 4))
