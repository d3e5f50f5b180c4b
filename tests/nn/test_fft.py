"""Causal convolution beside its definition."""

import pytest
import torch

from videopred.nn.fft import causal_convolution


@pytest.mark.parametrize("length", [1, 2, 7, 30])
def test_it_is_the_sum_of_its_definition(length):
    x, kernel = torch.randn(2, length, 3, 2, 2).double(), torch.randn(length, 3).double()
    want = torch.zeros_like(x)
    for t in range(length):
        for s in range(t + 1):
            want[:, t] += kernel[t - s, :, None, None] * x[:, s]
    torch.testing.assert_close(causal_convolution(x, kernel), want, rtol=0, atol=1e-12)


def test_gradients():
    x, kernel = torch.randn(1, 3, 2, 1, 2).double().requires_grad_(), torch.randn(3, 2).double().requires_grad_()
    torch.autograd.gradcheck(causal_convolution, (x, kernel))
