"""What holds for ConvLSTM alone."""

import pytest
import torch

from videopred.dynamics.convlstm import ConvLSTMConfig


def test_kernel_size_1_is_torch_lstm_at_every_pixel():
    layer = ConvLSTMConfig(kernel_size=1).build(5).double()
    x, c, h = torch.randn(2, 6, 5, 3, 4).double(), torch.randn(2, 5, 3, 4).double(), torch.randn(2, 5, 3, 4).double()
    lstm = torch.nn.LSTM(5, 5, bias=False, batch_first=True).double()
    i, f, o, g = layer.weight.data[..., 0, 0].chunk(4)
    torch_order = torch.cat([i, f, g, o])
    lstm.weight_ih_l0.data, lstm.weight_hh_l0.data = torch_order[:, :5].clone(), torch_order[:, 5:].clone()
    pixels = x.permute(0, 3, 4, 1, 2).reshape(24, 6, 5)
    h0, c0 = (s.permute(0, 2, 3, 1).reshape(1, 24, 5) for s in (h, c))
    want, (_, last) = lstm(pixels, (h0, c0))
    y, (cell, _) = layer(x, (c, h))
    torch.testing.assert_close(y, want.reshape(2, 3, 4, 6, 5).permute(0, 3, 4, 1, 2), rtol=0, atol=1e-12)
    torch.testing.assert_close(cell, last.reshape(2, 3, 4, 5).permute(0, 3, 1, 2), rtol=0, atol=1e-12)


def test_a_frame_reaches_further_with_every_step():
    """One kernel of 3 per step: a change at one pixel has spread by k pixels after k steps."""
    layer, x = ConvLSTMConfig().build(4).double(), torch.randn(1, 3, 4, 9, 9).double()
    changed = x.clone()
    changed[0, 0, :, 4, 4] += 1
    reached = ((layer(changed)[0] - layer(x)[0]).abs().amax((0, 2)) > 0).nonzero()
    for t in range(3):
        rows = reached[reached[:, 0] == t, 1]
        assert (rows.min(), rows.max()) == (3 - t, 5 + t)


def test_initial_weights_are_he_normal_over_both_inputs():
    weight = ConvLSTMConfig(kernel_size=5).build(32).weight
    assert weight.std().item() == pytest.approx((2 / (64 * 25)) ** 0.5, rel=0.02)
