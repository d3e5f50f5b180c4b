"""ConvS5: a diagonal state space at every pixel, whose input and output maps are convolutions.

Smith et al., "Convolutional State Space Models for Long-Range Spatiotemporal Modeling" (NeurIPS 2023), section 3.

    x_t = A_bar x_{t-1} + B_bar * u_t      A_bar diagonal, shared by all pixels; * a convolution
    y_t = 2 Re(C * x_t) + D * u_t          D only if `feedthrough` is a kernel size

A real input needs one real convolution with 2P outputs for B and one with 2P inputs for C: real and imaginary parts
lie next to each other in the channels. A kernel size of 1 for B and C is S5 over pixels.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import Conv, same_conv, variance_scaling_
from videopred.nn.recall import Recall
from videopred.nn.scan import scan
from videopred.nn.ssm import (
    block_size,
    check_step_range,
    discretise,
    hippo_eigen,
    multiply,
    random_eigen,
    random_log_step,
)

State = Tensor


@dataclass(frozen=True)
class ConvS5Config:
    """`num_states` is the papers' ssm size N; half of it is kept. `clip_eigenvalues` keeps Re(Lambda) below -1e-4.

    `initial`: "hippo" starts from HiPPO-N in `num_blocks` blocks, "random" from normal numbers with Re(Lambda) below 0.
    """

    kind: Literal["convs5"] = "convs5"
    num_states: int = 64
    num_blocks: int = 1
    initial: Literal["hippo", "random"] = "hippo"
    b_kernel_size: int = 3
    c_kernel_size: int = 3
    feedthrough: int = 0
    clip_eigenvalues: bool = True
    step_range: tuple[float, float] = (0.001, 0.1)

    def __post_init__(self):
        at_least(self, num_states=2, num_blocks=1, b_kernel_size=1, c_kernel_size=1, feedthrough=0)
        block_size(self.num_states, self.num_blocks)
        check_step_range(self.step_range)

    def build(self, width: int) -> "ConvS5":
        return ConvS5(width, self)


class ConvS5(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (b, h, w, p, 2), float32."""

    def __init__(self, width: int, config: ConvS5Config):
        super().__init__()
        eigen = hippo_eigen if config.initial == "hippo" else random_eigen
        eigenvalues, vectors = eigen(config.num_states, config.num_blocks)
        self.clip_eigenvalues = config.clip_eigenvalues
        self.lambda_re = nn.Parameter(eigenvalues.real.float())
        self.lambda_im = nn.Parameter(eigenvalues.imag.float())
        self.log_step = nn.Parameter(random_log_step(len(eigenvalues), *config.step_range))
        self.b = nn.Parameter(_input_map(vectors, width, config.b_kernel_size))
        self.c = nn.Parameter(_output_map(vectors, width, config.c_kernel_size))
        self.feedthrough = Conv(width, width, config.feedthrough) if config.feedthrough else None
        self.recall = Recall()

    def no_decay(self) -> list[nn.Parameter]:
        """Parameters that weight decay would harm: what sets how long the layer remembers, and B and C."""
        return [self.lambda_re, self.lambda_im, self.log_step, self.b, self.c]

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        frames, times = x.flatten(0, 1), x.shape[:2]
        continuous = self.lambda_re, self.lambda_im, self.log_step, self.b, self.c
        a, to_state, from_state = self.recall((), continuous, self.discretise)
        drive = same_conv(frames, to_state).unflatten(0, times)  # b t (p 2) h w
        drive = drive.movedim(2, -1).unflatten(-1, (-1, 2))  # b t h w p 2: free in channels-last memory
        states = scan(a, drive, state if state is not None else drive.new_zeros(drive[:, 0].shape))
        out = same_conv(states.flatten(-2).movedim(-1, 2).flatten(0, 1).to(x.dtype), from_state)
        if self.feedthrough is not None:
            out = out + self.feedthrough(frames)
        return out.unflatten(0, times), states[:, -1].clone()  # a view would keep the states of all frames alive

    def discretise(self) -> tuple[Tensor, Tensor, Tensor]:
        """A_bar (p, 2), and the real kernels of B_bar (2p, width, k, k) and of 2 Re(C x) (width, 2p, k, k)."""
        lambda_re = self.lambda_re.clamp(max=-1e-4) if self.clip_eigenvalues else self.lambda_re
        a, factor = discretise(lambda_re, self.lambda_im, self.log_step.exp())
        b = multiply(factor[:, None, None, None], self.b).movedim(-1, 1).flatten(0, 1)
        c = self.c * self.c.new_tensor([2.0, -2.0])
        return a, b, c.movedim(-1, 2).flatten(1, 2)


def _input_map(vectors: Tensor, width: int, kernel_size: int) -> Tensor:
    """B = V^H B0 with B0 real and He normal, (p, width, k, k, 2)."""
    fan_in = width * kernel_size**2
    b0 = variance_scaling_(torch.empty(vectors.shape[0], fan_in), 2.0, fan_in)
    b = vectors.mH @ b0.to(vectors.dtype)
    return torch.view_as_real(b.unflatten(1, (width, kernel_size, kernel_size))).float().clone()


def _output_map(vectors: Tensor, width: int, kernel_size: int) -> Tensor:
    """C = C0 V with C0 real and He normal over all N states, (width, p, k, k, 2)."""
    num_states = vectors.shape[0]
    c0 = variance_scaling_(torch.empty(width, num_states, kernel_size, kernel_size), 2.0, num_states * kernel_size**2)
    c = torch.einsum("unij,np->upij", c0.to(vectors.dtype), vectors)
    return torch.view_as_real(c).float().clone()
