"""Half a gated linear unit: the nonlinearity of S5, g sigmoid(W g + b) with g = gelu(norm(x))."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from videopred.nn.conv import Conv, activate, variance_scaling_
from videopred.nn.norm import LayerNorm


@dataclass(frozen=True)
class HalfGLUConfig:
    kind: Literal["half_glu"] = "half_glu"

    def build(self, width: int) -> "HalfGLU":
        return HalfGLU(width)


class HalfGLU(nn.Module):
    """(n, width, h, w) -> the same shape; no pixel sees another."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = LayerNorm(width)
        self.gate = Conv(width, width, 1)
        variance_scaling_(self.gate.weight, 0.2, width)

    def forward(self, x: Tensor) -> Tensor:
        g = activate(self.norm(x), "gelu")
        return g * self.gate(g).sigmoid()
