"""One ConvS5 layer, scan included, beside the 3x3 convolution that nearly all of its work consists of.

Forward and backward, from a given gradient of the output to those of the input and of all parameters. B, C and the two
convolutions of the spatial block are each a 3x3 convolution of 64 channels to 64. So the question is how near the layer
comes to the rate (FLOPs per second) of the bare convolution: of its four forms here, forward alone or with backward, in
channels-last or channels-first memory, the one that is fastest in this run. `of_convolution` is that share.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from videopred.bench.rounds import Row, compare, median_ms, ratio, to_rows
from videopred.dynamics.convs5 import ConvS5Config
from videopred.nn.scan import scan
from videopred.predictors.stack import StackConfig
from videopred.spatial.resnet import ResNetConfig

LENGTH, SIDE, WIDTH, STATES = 64, 16, 64, 64
LAYER = "layer"
ORDERS = {"channels-last": torch.channels_last, "channels-first": torch.contiguous_format}


@dataclass(frozen=True)
class Pass:
    """What is timed, and how much it is: its convolutions of all frames, a backward pass counted as two."""

    call: Callable[[], object]
    convolutions: int

    @property
    def gflop(self) -> float:
        return self.convolutions * 2 * 9 * WIDTH * WIDTH * LENGTH * SIDE * SIDE / 1e9


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    yield from measure(rounds=5 if quick else 21)


def measure(rounds: int) -> Iterator[Row]:
    torch.manual_seed(0)
    bare = dict(convolutions())
    passes = layers() | bare
    seconds = compare({name: each.call for name, each in passes.items()}, rounds, title="layer")
    best = max(bare, key=lambda name: bare[name].gflop / median_ms(seconds[name]))
    shape = f"L {LENGTH}, B 1, {SIDE}x{SIDE}, U {WIDTH}, N {STATES}"
    for row in to_rows(seconds, shape, LAYER):
        assert row.median_ms is not None
        gflop = passes[row.name].gflop
        if gflop:
            share = gflop / passes[best].gflop / ratio(seconds[row.name], seconds[best])
            figures = {"gflops": 1e3 * gflop / row.median_ms, "of_convolution": share}
            row = replace(row, figures=figures, work={"conv3x3_gflops": gflop})
        yield row


def convolutions() -> Iterator[tuple[str, Pass]]:
    """The bare convolution of as many frames as the layer has."""
    for name, order in ORDERS.items():
        weight = torch.randn(WIDTH, WIDTH, 3, 3).to(memory_format=order).requires_grad_()
        x, grad = _frames(order)

        def both(leaves=(x, weight), grad=grad) -> object:
            return torch.autograd.grad(torch.conv2d(*leaves, padding=1), leaves, grad)

        @torch.no_grad()
        def forward(leaves=(x, weight)) -> object:
            return torch.conv2d(*leaves, padding=1)

        yield f"convolution, {name}, forward", Pass(forward, 1)
        yield f"convolution, {name}, forward + backward", Pass(both, 3)


def layers() -> dict[str, Pass]:
    """The layer; with other settings; from other memory; and what it consists of."""
    block = ResNetConfig(num_groups=8)
    config = StackConfig(width=WIDTH, depth=1, dynamics=ConvS5Config(num_states=STATES), spatial=block)
    layer, papers, swish = (
        replace(config, spatial=spatial).build().layers[0]
        for spatial in (block, replace(block, num_groups=32), replace(block, activation="swish"))
    )
    return {
        LAYER: Pass(both(layer), 12),
        "layer, from channels-first": Pass(both(layer, torch.contiguous_format), 12),
        "layer, 32 groups as the paper": Pass(both(papers), 12),
        "layer, swish as our presets": Pass(both(swish), 12),
        "its dynamics": Pass(both(layer.dynamics), 6),  # type: ignore[arg-type]
        "its spatial block": Pass(both(OfFrames(layer.spatial)), 6),  # type: ignore[arg-type]
        "its scan": Pass(scanning(), 0),
    }


class OfFrames(nn.Module):
    """A spatial block, called as a layer is."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.block(x.squeeze(0)).unsqueeze(0), None


def both(layer: nn.Module, order: torch.memory_format = torch.channels_last) -> Callable[[], tuple[Tensor, ...]]:
    """Forward and backward of a clip; first of the gradients is that of the input."""
    x, grad = _frames(order)
    leaves = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x.unsqueeze(0))[0], leaves, grad.unsqueeze(0))


def scanning() -> Callable[[], object]:
    """Forward and backward of the layer's recurrence."""
    a, (b, grad) = torch.rand(STATES // 2, 2) / 2, torch.randn(2, 1, LENGTH, SIDE, SIDE, STATES // 2, 2)
    leaves = [x.requires_grad_() for x in (a, b, torch.zeros_like(b[:, 0]))]
    return lambda: torch.autograd.grad(scan(*leaves), leaves, grad)


def _frames(order: torch.memory_format) -> tuple[Tensor, Tensor]:
    """Feature maps, and a gradient of such."""
    x, grad = (torch.randn(LENGTH, WIDTH, SIDE, SIDE).to(memory_format=order) for _ in range(2))
    return x.requires_grad_(), grad
