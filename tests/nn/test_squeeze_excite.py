"""Squeeze-and-excitation against its formula."""

import pytest
import torch

from videopred.nn.squeeze_excite import SqueezeExcite


@pytest.mark.parametrize("width, hidden", [(8, 4), (64, 4), (160, 10)])
def test_formula(width, hidden):
    module, x = SqueezeExcite(width).double(), torch.randn(3, width, 4, 5, dtype=torch.float64)
    for p in module.parameters():
        torch.nn.init.normal_(p)
    w1, w2 = (conv.weight[:, :, 0, 0] for conv in (module.reduce, module.expand))
    assert w1.shape == (hidden, width)
    s = x.mean((2, 3))
    s = torch.relu(s @ w1.T + module.reduce.bias) @ w2.T + module.expand.bias
    torch.testing.assert_close(module(x), x * torch.sigmoid(s)[:, :, None, None])
