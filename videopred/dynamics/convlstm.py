"""ConvLSTM: the recurrent baseline of the ConvS5 paper.

Shi et al., "Convolutional LSTM Network" (NeurIPS 2015), without peepholes and without bias, as that paper trains it.

    i, f, o, g = split(W * [u_t, h_{t-1}])        one convolution W gives all four gates
    c_t = sigma(f) c_{t-1} + sigma(i) tanh(g)     cell
    h_t = sigma(o) tanh(c_t)                      output, and what the next step sees

The part of W that acts on u is one convolution over all frames; only the part that acts on h waits for its turn.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import same_conv, variance_scaling_
from videopred.nn.norm import at_least_float32

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class ConvLSTMConfig:
    kind: Literal["convlstm"] = "convlstm"
    kernel_size: int = 3

    def __post_init__(self):
        at_least(self, kernel_size=1)

    def build(self, width: int) -> "ConvLSTM":
        return ConvLSTM(width, self.kernel_size)


class ConvLSTM(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (c, h), each (b, width, h, w) and float32."""

    def __init__(self, width: int, kernel_size: int):
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(4 * width, 2 * width, kernel_size, kernel_size))
        variance_scaling_(self.weight, 2.0, 2 * width * kernel_size**2)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        of_input, of_output = self.weight.split(self.width, 1)
        inputs = same_conv(x.flatten(0, 1), of_input).unflatten(0, x.shape[:2])
        c, h = state if state is not None else self._start(x)
        outputs = []
        for u in inputs.unbind(1):  # (b, 4 width, h, w)
            i, f, o, g = at_least_float32(u + same_conv(h, of_output)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, 1).to(x.dtype), (c, h)

    def _start(self, x: Tensor) -> State:
        zeros = at_least_float32(torch.zeros_like(x[:, 0]))
        return zeros, zeros
