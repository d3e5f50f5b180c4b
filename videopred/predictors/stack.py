"""The heart: layers of dynamics and spatial mixing, one state tuple for all of them.

A layer, by its `norm`:

    post    z = norm(u + dropout(spatial(dynamics(u))))      the papers' form
    pre     z = u + dropout(spatial(dynamics(norm(u))))
    none    z = u + dropout(spatial(dynamics(u)))
"""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from videopred.config import at_least
from videopred.dynamics import Dynamics
from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.norm import LayerNorm
from videopred.spatial import Spatial
from videopred.spatial.resnet import ResNetConfig

Norm = Literal["post", "pre", "none"]
State = tuple


@dataclass(frozen=True)
class StackConfig:
    """`long_skips` adds one layer's input to a later one's: ((3, 8), (6, 11)) in the papers' deep models."""

    width: int = 256
    depth: int = 8
    dynamics: Dynamics = field(default_factory=ConvS5Config)
    spatial: Spatial = field(default_factory=ResNetConfig)
    norm: Norm = "post"
    skip: bool = True
    dropout: float = 0.0
    long_skips: tuple[tuple[int, int], ...] = ()

    def __post_init__(self):
        at_least(self, width=1, depth=1)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout = {self.dropout}: must be at least 0 and below 1")

    def build(self) -> "Stack":
        return Stack(self)


class Stack(nn.Module):
    """(b, t, width, h, w) -> the same shape; the state is one entry per layer."""

    def __init__(self, config: StackConfig):
        super().__init__()
        for start, end in config.long_skips:
            if not 0 <= start < end < config.depth:
                raise ValueError(
                    f"stack.long_skips has ({start}, {end}): "
                    f"must lead from a layer to a later one of 0..{config.depth - 1}"
                )
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.depth))
        self.sources = {end: start for start, end in config.long_skips}

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        inputs, states = [], []
        for i, layer in enumerate(self.layers):
            if i in self.sources:
                x = x + inputs[self.sources[i]]
            inputs.append(x)
            x, after = layer(x, None if state is None else state[i])
            states.append(after)
        return x, tuple(states)


class Layer(nn.Module):
    def __init__(self, config: StackConfig):
        super().__init__()
        self.dynamics = config.dynamics.build(config.width)
        self.spatial = config.spatial.build(config.width)
        self.norm = LayerNorm(config.width) if config.norm != "none" else nn.Identity()
        self.prenorm = config.norm == "pre"
        self.skip = config.skip
        self.dropout = config.dropout

    def forward(self, u: Tensor, state=None) -> tuple[Tensor, Tensor]:
        times = u.shape[:2]
        y, state = self.dynamics(self._norm(u) if self.prenorm else u, state)
        y = self.spatial(y.flatten(0, 1)).unflatten(0, times)
        if self.dropout:
            keep = functional.dropout(y.new_ones(y[:, :1].shape), self.dropout, self.training)  # one mask for all times
            y = y * keep
        z = u + y if self.skip else y
        return (z if self.prenorm else self._norm(z)), state

    def _norm(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(0, 1)).unflatten(0, x.shape[:2])
