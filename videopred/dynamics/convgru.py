"""ConvGRU: the gated recurrent unit with convolutions for its matrices.

Ballas et al., "Delving Deeper into Convolutional Networks for Learning Video Representations" (ICLR 2016), eq. 9-12.

    z, r = sigma(split(W * u_t + U * h_{t-1} + bias))     what to keep, what of it the candidate sees
    n = tanh(W_n * u_t + U_n * (r h_{t-1}) + bias)        candidate
    h_t = z h_{t-1} + (1 - z) n                           output and state: a mean, so it never leaves (-1, 1)
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import at_least_float32

State = Tensor


@dataclass(frozen=True)
class ConvGRUConfig:
    kind: Literal["convgru"] = "convgru"
    kernel_size: int = 3

    def __post_init__(self):
        at_least(self, kernel_size=1)

    def build(self, width: int) -> "ConvGRU":
        return ConvGRU(width, self.kernel_size)


class ConvGRU(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is h, (b, width, h, w) and float32."""

    def __init__(self, width: int, kernel_size: int):
        super().__init__()
        self.width = width
        self.inputs = Conv(width, 3 * width, kernel_size)
        self.gates = Conv(width, 2 * width, kernel_size, bias=False)
        self.candidate = Conv(width, width, kernel_size, bias=False)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        driven = self.inputs(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        h = state if state is not None else at_least_float32(torch.zeros_like(x[:, 0]))
        outputs = []
        for u in at_least_float32(driven).unbind(1):  # (b, 3 width, h, w)
            to_gates, to_candidate = u.split([2 * self.width, self.width], 1)
            z, r = (to_gates + self.gates(h)).sigmoid().chunk(2, 1)
            n = (to_candidate + self.candidate(r * h)).tanh()
            h = n + z * (h - n)
            outputs.append(h)
        return torch.stack(outputs, 1).to(x.dtype), h
