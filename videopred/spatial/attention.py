"""Attention among the pixels of a frame, then an MLP: EfficientMod's block for small maps.

Ma et al., "Efficient Modulation for Vision Networks" (ICLR 2024). Both halves are residual and normalise first; there
are no positions. Time grows with the square of height x width.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import LayerNorm

EPSILON = 1e-5  # of the paper's code


@dataclass(frozen=True)
class AttentionConfig:
    """`head_size` 0 is the paper's: width / 8, at least 32, so that queries may be wider than the block."""

    kind: Literal["attention"] = "attention"
    num_heads: int = 8
    head_size: int = 0
    ratio: int = 4

    def __post_init__(self):
        at_least(self, num_heads=1, head_size=0, ratio=1)

    def build(self, width: int) -> "Attention":
        return Attention(width, self.num_heads, self.head_size or max(width // 8, 32), self.ratio)


class Attention(nn.Module):
    """(n, width, h, w) -> the same shape."""

    def __init__(self, width: int, num_heads: int, head_size: int, ratio: int):
        super().__init__()
        self.num_heads, self.head_size = num_heads, head_size
        self.norm1 = LayerNorm(width, EPSILON)
        self.qkv = Conv(width, 3 * num_heads * head_size, 1, bias=False)
        self.project = Conv(num_heads * head_size, width, 1)
        self.norm2 = LayerNorm(width, EPSILON)
        self.expand = Conv(width, ratio * width, 1)
        self.reduce = Conv(ratio * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.project(self.attend(self.norm1(x)))
        return x + self.reduce(functional.gelu(self.expand(self.norm2(x))))

    def attend(self, x: Tensor) -> Tensor:
        tokens = self.qkv(x).flatten(2).unflatten(1, (3, self.num_heads, self.head_size))  # n 3 heads size (h w)
        q, k, v = tokens.transpose(-1, -2).unbind(1)
        out = functional.scaled_dot_product_attention(q, k, v)  # n heads (h w) size
        return out.transpose(-1, -2).flatten(1, 2).unflatten(-1, x.shape[-2:])
