"""The transformer baseline of the ConvS5 paper: `depth` blocks as one layer, to be used with a stack of depth 1.

Smith et al. (NeurIPS 2023), no-VQ baseline. Each patch of a feature map becomes a token by a convolution without bias;
with `patch` the side of the map there is one token per frame. A learned frame of tokens, `sos`, comes first.

    z = fc_in(tokens) + sinusoidal positions
    z = z + attention(norm(z));  z = z + mlp(norm(z))      `depth` times; the mlp's activation is x sigmoid(1.702 x)
    y = norm(gelu(fc_out(z)))                              the output at frame t; that at sos is left out

Tokens see those of their own frame, of earlier frames and of sos. A frame sees the newest `window` frames, which count
from 1 anew for each frame once there are more: beyond its window the model is applied afresh for every frame, as the
paper does. So the state is not a cache of keys but the tokens of up to `window` - 1 frames: it grows until then, and a
frame costs what a window costs. `transformer` is the member with a cache.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.nn.attention import head_width, sinusoid
from videopred.nn.conv import activate, variance_scaling_
from videopred.nn.norm import EPSILON, at_least_float32
from videopred.nn.transformer import Block, linear

State = Tensor


@dataclass(frozen=True)
class PaperTransformerConfig:
    """`grid` is rows and columns of tokens; feature maps must be `patch` times that.

    The paper's has token_width 1024, mlp_width 4096, 16 heads, depth 8; `window` is its sequence length less one.
    """

    kind: Literal["paper_transformer"] = "paper_transformer"
    token_width: int = 256
    mlp_width: int = 1024
    num_heads: int = 8
    depth: int = 4
    window: int = 64
    patch: int = 8
    grid: tuple[int, int] = (1, 1)

    def __post_init__(self):
        at_least(self, token_width=2, mlp_width=1, num_heads=1, depth=1, window=1, patch=1, grid=1)
        head_width(self.token_width, self.num_heads)

    def build(self, width: int) -> "PaperTransformer":
        return PaperTransformer(width, self)


class PaperTransformer(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is (b, up to window - 1, n, token_width), float32."""

    def __init__(self, width: int, config: PaperTransformerConfig):
        super().__init__()
        self.patch, self.grid, self.window = config.patch, config.grid, config.window
        token = config.token_width
        self.z_proj = nn.Parameter(torch.empty(token, width, config.patch, config.patch))
        self.z_unproj = nn.Parameter(torch.empty(token, width, config.patch, config.patch))
        self.sos = nn.Parameter(torch.randn(*config.grid, token) * 0.02)
        self.fc_in = linear(token, token)
        self.blocks = nn.ModuleList(Block(token, config.mlp_width, config.num_heads) for _ in range(config.depth))
        self.fc_out = linear(token, token)
        self.norm = nn.LayerNorm(token, EPSILON)
        variance_scaling_(self.z_proj, 1.0, width * config.patch**2)
        variance_scaling_(self.z_unproj, 1.0, token)

    def no_decay(self) -> list[nn.Parameter]:
        return [self.sos]

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        size = tuple(side * self.patch for side in self.grid)
        if x.shape[-2:] != size:
            raise ValueError(
                f"paper_transformer: patch = {self.patch} and grid = {self.grid} take feature maps of {size}; "
                f"here they are {tuple(x.shape[-2:])}"
            )
        z = functional.conv2d(x.flatten(0, 1), self.z_proj, stride=self.patch).flatten(2).mT
        z = at_least_float32(z).unflatten(0, x.shape[:2])  # b t n token
        past = state.shape[1] if state is not None else 0
        z = torch.cat([state, z], 1) if state is not None else z
        outputs = [self._encode(z[:, : self.window])[:, past:]]
        for end in range(self.window + 1, z.shape[1] + 1):
            outputs.append(self._encode(z[:, end - self.window : end])[:, -1:])
        y = torch.cat(outputs, 1).flatten(0, 1).mT.unflatten(-1, self.grid)
        y = functional.conv_transpose2d(y, self.z_unproj, stride=self.patch)
        return y.unflatten(0, x.shape[:2]), z[:, max(0, z.shape[1] - self.window + 1) :].clone()

    def _encode(self, z: Tensor) -> Tensor:
        """(b, t, n, token) -> the same shape, for frames that begin after sos."""
        batch, length, n, token = z.shape
        z = torch.cat([self.sos.flatten(0, 1).expand(batch, 1, -1, -1), z], 1).flatten(1, 2)
        positions = torch.arange(z.shape[1], device=z.device)
        frames = positions // n
        seen = frames <= frames[:, None]
        z = self.fc_in(z) + sinusoid(positions, token).to(z.dtype)
        for block in self.blocks:
            z = block(z, seen)
        return self.norm(activate(self.fc_out(z), "gelu")).unflatten(1, (length + 1, n))[:, 1:]
