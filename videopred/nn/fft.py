"""Causal convolution over time by the fast Fourier transform."""

import torch
from torch import Tensor


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """y_t = sum over s <= t of kernel_{t-s} x_s, in t log t steps.

    x (n, t, c, h, w), kernel (t, c), both float32 or float64 -> the shape of x. Padded to twice the length, so that the
    end of a clip does not reach its beginning.
    """
    length = x.shape[1]
    if length == 1:
        return kernel[..., None, None] * x
    spectrum = torch.fft.rfft(kernel, 2 * length, dim=0)[..., None, None]
    return torch.fft.irfft(torch.fft.rfft(x, 2 * length, dim=1) * spectrum, 2 * length, dim=1)[:, :length]
