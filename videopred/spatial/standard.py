"""Normalise, activate: the "standard" nonlinearity of ConvS5's code. Its D convolution is the layer's `feedthrough`."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import Activation, activate
from videopred.nn.norm import GroupNorm
from videopred.nn.squeeze_excite import SqueezeExcite


@dataclass(frozen=True)
class StandardConfig:
    kind: Literal["standard"] = "standard"
    num_groups: int = 32
    activation: Activation = "gelu"
    squeeze_excite: bool = False

    def __post_init__(self):
        at_least(self, num_groups=1)

    def build(self, width: int) -> "Standard":
        return Standard(width, self)


class Standard(nn.Module):
    """(n, width, h, w) -> the same shape."""

    def __init__(self, width: int, config: StandardConfig):
        super().__init__()
        self.activation: Activation = config.activation
        self.norm = GroupNorm(config.num_groups, width)
        self.excite = SqueezeExcite(width) if config.squeeze_excite else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.excite(activate(self.norm(x), self.activation))
