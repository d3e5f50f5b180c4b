"""Squeeze-and-excitation (Hu et al., CVPR 2018): each channel scaled by a gate that sees the whole frame's means."""

from torch import Tensor, nn

from videopred.nn.conv import Conv


class SqueezeExcite(nn.Module):
    """(n, width, h, w) -> the same shape. ReLU inside, whatever activation the block around it has."""

    def __init__(self, width: int):
        super().__init__()
        hidden = max(width // 16, 4)
        self.reduce = Conv(width, hidden, 1)
        self.expand = Conv(hidden, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.expand(self.reduce(x.mean((-2, -1), keepdim=True)).relu())
        return x * gate.sigmoid()
