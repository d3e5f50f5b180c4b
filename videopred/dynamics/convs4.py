"""ConvS4: at each pixel, each channel with a small state space of its own; channels meet afterwards.

The single-input single-output form that the ConvS5 paper (NeurIPS 2023) compares with: S4 (Gu et al., ICLR 2022) in its
diagonal form S4D (Gu et al., NeurIPS 2022) at every pixel, all kernels 1x1.

    x_t = A_bar x_{t-1} + B_bar u_t            for one channel: N/2 kept states, B = 1
    g_t = gelu(2 Re(C x_t) + D u_t)
    y_t = W g_t + bias                         W mixes channels

Over a clip, g is a convolution of u with K_t = 2 Re(C A_bar^t B_bar), done by FFT, plus what the state before it still
gives, 2 Re(C A_bar^(t+1) x_0). The states between are never made. One frame is the recurrence itself.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import Conv, activate
from videopred.nn.fft import causal_convolution
from videopred.nn.norm import at_least_float32
from videopred.nn.ssm import block_size, check_step_range, discretise, hippo_eigen, multiply, random_log_step

SLOWEST = 1e-4  # of the rates of decay

State = Tensor


@dataclass(frozen=True)
class ConvS4Config:
    """`num_states` is N of each channel; half of it is kept."""

    kind: Literal["convs4"] = "convs4"
    num_states: int = 16
    step_range: tuple[float, float] = (0.001, 0.1)

    def __post_init__(self):
        at_least(self, num_states=2)
        block_size(self.num_states)
        check_step_range(self.step_range)

    def build(self, width: int) -> "ConvS4":
        return ConvS4(width, self)


class ConvS4(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (b, h, w, width, p, 2), float32."""

    def __init__(self, width: int, config: ConvS4Config):
        super().__init__()
        eigenvalues, _ = hippo_eigen(config.num_states)
        self.log_decay = nn.Parameter((-SLOWEST - eigenvalues.real).log().float().repeat(width, 1))
        self.lambda_im = nn.Parameter(eigenvalues.imag.float().repeat(width, 1))
        self.log_step = nn.Parameter(random_log_step(width, *config.step_range)[:, None])
        self.c = nn.Parameter(torch.randn(width, len(eigenvalues), 2) * 0.5**0.5)
        self.d = nn.Parameter(torch.randn(width))
        self.mix = Conv(width, width, 1)

    def no_decay(self) -> list[nn.Parameter]:
        return [self.log_decay, self.lambda_im, self.log_step, self.c, self.d]

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        with torch.autocast(x.device.type, enabled=False):
            y, last = self._recur(at_least_float32(x), state)
        y = self.mix(activate(y, "gelu").to(x.dtype).flatten(0, 1))
        return y.unflatten(0, x.shape[:2]), last

    def _recur(self, u: Tensor, state: State | None) -> tuple[Tensor, State]:
        powers, b = self.discretise(u.shape[1])  # A_bar^0 .. A_bar^t, (t+1, width, p, 2)
        readout = multiply(powers, self.c) * self.c.new_tensor([2.0, -2.0])  # 2 Re(C A_bar^t x), summed with any x
        y = causal_convolution(u, (readout[:-1] * b).sum((-2, -1))) + self.d[:, None, None] * u
        last = torch.einsum("tcpk,btchw->bhwcpk", multiply(powers[:-1], b).flip(0), u)
        if state is not None:
            y = y + torch.einsum("tcpk,bhwcpk->btchw", readout[1:], state)
            last = last + multiply(powers[-1], state)
        return y, last

    def discretise(self, length: int) -> tuple[Tensor, Tensor]:
        """Powers 0..length of A_bar (length + 1, width, p, 2), and B_bar (width, p, 2)."""
        lambda_re, step = -SLOWEST - self.log_decay.exp(), self.log_step.exp()
        _, b = discretise(lambda_re, self.lambda_im, step)
        times = torch.arange(length + 1, device=step.device, dtype=step.dtype)[:, None, None]
        powers, _ = discretise(lambda_re, self.lambda_im, step * times)
        return powers, b
