"""S5 on flattened tokens: one vector per frame, one state space for all of it.

Smith et al., "Simplified State Space Layers for Sequence Modeling" (S5, ICLR 2023); the baseline of the ConvS5 paper.

    u_t = W_in flatten(frame_t)                a frame becomes one token (W_in and W_out only if `token_width` is not 0)
    x_t = A_bar x_{t-1} + B_bar u_t
    g_t = gelu(2 Re(C x_t) + D u_t)            D one number per entry of the token
    y_t = W_out (g_t sigma(W g_t + b))

The state space is ConvS5's with kernels of 1 on a map of one pixel. S5 over pixels needs no member of its own: it is
ConvS5 with kernels of 1 on the whole map.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.conv import Conv, activate

State = Tensor


@dataclass(frozen=True)
class S5Config:
    """`grid` is the height and width of the feature maps; others cannot be taken, for a frame is one vector.

    `token_width` 0 takes the flattened map itself as the token; the gate's matrix then has (width h w)^2 entries.
    """

    kind: Literal["s5"] = "s5"
    grid: tuple[int, int] = (8, 8)
    token_width: int = 256
    num_states: int = 64
    num_blocks: int = 1
    initial: Literal["hippo", "random"] = "hippo"
    clip_eigenvalues: bool = True
    step_range: tuple[float, float] = (0.001, 0.1)

    def __post_init__(self):
        at_least(self, grid=1, token_width=0)
        self.state_space()

    def build(self, width: int) -> "S5":
        return S5(width, self)

    def state_space(self) -> ConvS5Config:
        return ConvS5Config(
            num_states=self.num_states,
            num_blocks=self.num_blocks,
            initial=self.initial,
            b_kernel_size=1,
            c_kernel_size=1,
            clip_eigenvalues=self.clip_eigenvalues,
            step_range=self.step_range,
        )


class S5(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (b, 1, 1, p, 2), float32."""

    def __init__(self, width: int, config: S5Config):
        super().__init__()
        self.grid = config.grid
        flat = width * config.grid[0] * config.grid[1]
        token = config.token_width or flat
        self.project = Conv(flat, token, 1, bias=False) if config.token_width else nn.Identity()
        self.ssm = config.state_space().build(token)
        self.ssm.b.data.mul_(0.5**0.5)  # S5 draws B as LeCun does, ConvS5 as He; C is alike
        self.d = nn.Parameter(torch.randn(token))
        self.gate = Conv(token, token, 1)
        self.restore = Conv(token, flat, 1, bias=False) if config.token_width else nn.Identity()

    def no_decay(self) -> list[nn.Parameter]:
        return [self.d]

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        if x.shape[-2:] != self.grid:
            raise ValueError(
                f"s5.grid = {self.grid}: the feature maps here have (height, width) {tuple(x.shape[-2:])}; "
                f"set grid to that"
            )
        u = self.project(x.flatten(0, 1).flatten(1)[..., None, None])  # (b t) token 1 1
        y, last = self.ssm(u.unflatten(0, x.shape[:2]), state)
        g = activate(y.flatten(0, 1) + self.d[:, None, None] * u, "gelu")
        return self.restore(g * self.gate(g).sigmoid()).reshape(x.shape), last
