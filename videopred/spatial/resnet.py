"""The residual block of ConvS5's nonlinearity ("resnet" of the paper's code), with an activation after the sum."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import Activation, Conv, activate
from videopred.nn.norm import GroupNorm
from videopred.nn.squeeze_excite import SqueezeExcite


@dataclass(frozen=True)
class ResNetConfig:
    """`kernel_size` is that of both convolutions, or a list of one each: [5, 3]."""

    kind: Literal["resnet"] = "resnet"
    kernel_size: int | tuple[int, int] = 3
    num_groups: int = 32
    activation: Activation = "gelu"
    squeeze_excite: bool = False

    def __post_init__(self):
        at_least(self, kernel_size=1, num_groups=1)

    @property
    def kernel_sizes(self) -> tuple[int, int]:
        return self.kernel_size if isinstance(self.kernel_size, tuple) else (self.kernel_size, self.kernel_size)

    def build(self, width: int) -> "ResNet":
        return ResNet(width, self)


class ResNet(nn.Module):
    """(n, width, h, w) -> the same shape: act(x + conv(act(norm(conv(act(norm(x)))))))."""

    def __init__(self, width: int, config: ResNetConfig):
        super().__init__()
        self.activation: Activation = config.activation
        first, second = config.kernel_sizes
        self.norm1 = GroupNorm(config.num_groups, width)
        self.conv1 = Conv(width, width, first)
        self.norm2 = GroupNorm(config.num_groups, width)
        self.conv2 = Conv(width, width, second)
        self.excite = SqueezeExcite(width) if config.squeeze_excite else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(activate(self.norm1(x), self.activation))
        h = self.conv2(activate(self.norm2(h), self.activation))
        return activate(x + self.excite(h), self.activation)
