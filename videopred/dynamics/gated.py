"""Gated: a ConvS5 that chooses, at every pixel and time, how far its state moves on.

The selection of Gu and Dao, "Mamba" (2023), section 3.2, in the convolutional state space of ConvS5 (NeurIPS 2023):

    Delta_t = softplus(W u_t + bias)           W a 1x1 convolution: one step per pixel and state
    x_t = A_t x_{t-1} + B_t * u_t              A_t, B_t the zero-order hold of Lambda and B over the step Delta_t
    y_t = 2 Re(C * x_t)

A step near 0 keeps the state and ignores the input; a long one forgets and takes the input in. Re(Lambda) is
-1e-4 - exp(log_decay), and a step is positive, so |A_t| <= 1 whatever the parameters and the input are.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.conv import Conv, same_conv
from videopred.nn.norm import at_least_float32
from videopred.nn.scan import scan
from videopred.nn.ssm import discretise, multiply

SLOWEST = 1e-4  # of the rates of decay

State = Tensor


@dataclass(frozen=True)
class GatedConfig:
    """`step_range`: where the steps lie before anything is learned, for an input of 0."""

    kind: Literal["gated"] = "gated"
    num_states: int = 64
    num_blocks: int = 1
    b_kernel_size: int = 3
    c_kernel_size: int = 3
    step_range: tuple[float, float] = (0.001, 0.1)

    def __post_init__(self):
        at_least(self, num_states=2, num_blocks=1, b_kernel_size=1, c_kernel_size=1)
        self.state_space()

    def build(self, width: int) -> "Gated":
        return Gated(width, self)

    def state_space(self) -> ConvS5Config:
        """Where the parameters start from."""
        return ConvS5Config(
            num_states=self.num_states,
            num_blocks=self.num_blocks,
            b_kernel_size=self.b_kernel_size,
            c_kernel_size=self.c_kernel_size,
            step_range=self.step_range,
        )


class Gated(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (b, h, w, p, 2), float32."""

    def __init__(self, width: int, config: GatedConfig):
        super().__init__()
        start = config.state_space().build(width)
        self.log_decay = nn.Parameter((-SLOWEST - start.lambda_re.data).log())
        self.lambda_im, self.b, self.c = start.lambda_im, start.b, start.c
        self.step = Conv(width, len(start.log_step), 1)
        steps = start.log_step.data.exp()
        self.step.bias = nn.Parameter(steps + (-steps).expm1().neg().log())  # softplus takes it back

    def no_decay(self) -> list[nn.Parameter]:
        return [self.log_decay, self.lambda_im, self.b, self.c, *self.step.parameters()]

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        frames, times = x.flatten(0, 1), x.shape[:2]
        kernel = self.b.movedim(-1, 1).flatten(0, 1)  # (p 2) width k k
        drive = same_conv(frames, kernel).movedim(1, -1).unflatten(-1, (-1, 2)).unflatten(0, times)  # b t h w p 2
        a, factor = self.discretise(x)
        drive = multiply(factor, at_least_float32(drive))
        states = scan(a, drive, state if state is not None else drive.new_zeros(drive[:, 0].shape))
        kernel = (self.c * self.c.new_tensor([2.0, -2.0])).movedim(-1, 2).flatten(1, 2)  # width (p 2) k k
        y = same_conv(states.flatten(-2).movedim(-1, 2).flatten(0, 1).to(x.dtype), kernel)
        return y.unflatten(0, times), states[:, -1].clone()

    def discretise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A_t and the factor (A_t - 1) / Lambda that turns B * u_t into B_t * u_t, (b, t, h, w, p, 2) each."""
        with torch.autocast(x.device.type, enabled=False):  # a rounded step is a rounded eigenvalue
            steps = functional.softplus(self.step(at_least_float32(x.flatten(0, 1)))).movedim(1, -1)
        a, factor = discretise(-SLOWEST - self.log_decay.exp(), self.lambda_im, steps)
        return a.unflatten(0, x.shape[:2]), factor.unflatten(0, x.shape[:2])
