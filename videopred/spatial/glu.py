"""Gated linear unit: the full gate of S5, value(g) sigmoid(gate(g)) with g = gelu(norm(x)).

Smith et al., "Simplified State Space Layers for Sequence Modeling" (S5, ICLR 2023), whose maps are matrices: kernel 1.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import Conv, activate
from videopred.nn.norm import LayerNorm


@dataclass(frozen=True)
class GLUConfig:
    kind: Literal["glu"] = "glu"
    kernel_size: int = 1
    gate_kernel_size: int = 1

    def __post_init__(self):
        at_least(self, kernel_size=1, gate_kernel_size=1)

    def build(self, width: int) -> "GLU":
        return GLU(width, self)


class GLU(nn.Module):
    """(n, width, h, w) -> the same shape; with kernels of size 1 no pixel sees another."""

    def __init__(self, width: int, config: GLUConfig):
        super().__init__()
        self.norm = LayerNorm(width)
        self.value = Conv(width, width, config.kernel_size)
        self.gate = Conv(width, width, config.gate_kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        g = activate(self.norm(x), "gelu")
        return self.value(g) * self.gate(g).sigmoid()
