"""Spatial blocks at equal width, forward and backward, each in the memory order that suits it best.

Every block of the list, and what they are measured by: a dense 3x3 and a depthwise 7x7 convolution. Ratios are to the
`resnet` block. Frames are those of a small batch (8) and of a long clip (512): a 2-D state space makes its kernel once
for all of them. Then that kernel alone, and the layer on a small batch, each in closed form and by the recurrence that
it is the closed form of.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import nn

from videopred.bench.rounds import Row, compare, to_rows
from videopred.nn.conv import Conv, DepthwiseConv
from videopred.nn.ssm2d import convolve, kernel, kernel_reference, layer_reference
from videopred.spatial.attention import AttentionConfig
from videopred.spatial.convnext import ConvNeXtConfig
from videopred.spatial.efficientmod import EfficientModConfig
from videopred.spatial.glu import GLUConfig
from videopred.spatial.half_glu import HalfGLUConfig
from videopred.spatial.resnet import ResNetConfig
from videopred.spatial.ssm2d import SSM2D, SSM2DConfig, SSM2DMixerConfig
from videopred.spatial.standard import StandardConfig

WIDTH, SIDE, FRAMES = 64, 16, (8, 512)
BASE = "resnet"
ORDERS = (torch.contiguous_format, torch.channels_last)
BLOCKS: dict[str, Callable[[int], nn.Module]] = {
    "resnet": ResNetConfig(num_groups=8).build,
    "standard": StandardConfig(num_groups=8).build,
    "glu": GLUConfig().build,
    "half_glu": HalfGLUConfig().build,
    "convnext": ConvNeXtConfig().build,
    "convnext, ssm2d": ConvNeXtConfig(mixer=SSM2DMixerConfig()).build,
    "ssm2d": SSM2DConfig().build,
    "ssm2d, 2 directions": SSM2DConfig(directions=2).build,
    "ssm2d, complex": SSM2DConfig(numbers="complex").build,
    "ssm2d, mixer alone": SSM2DMixerConfig().build,
    "efficientmod": EfficientModConfig().build,
    "efficientmod, sum": EfficientModConfig(fuse="sum").build,
    "attention": AttentionConfig().build,
    "dense 3x3": lambda width: Conv(width, width, 3),
    "depthwise 7x7": lambda width: DepthwiseConv(width, 7),
}


def rows(quick: bool, checkpoint: str | None) -> Iterator[Row]:
    few, many = FRAMES
    yield from blocks(few, rounds=3 if quick else 15)
    yield from blocks(many, rounds=1 if quick else 5)
    yield from kernels(rounds=3 if quick else 15)
    yield from layers(few, rounds=1 if quick else 5)


def blocks(frames: int, rounds: int) -> Iterator[Row]:
    """Each block in the memory order in which one trial was faster; `channels_last` is 1 where that was the one."""
    functions, figures = {}, {}
    for name, build in BLOCKS.items():
        block = build(WIDTH)
        order, functions[name] = faster(block, frames)
        last = float(order == torch.channels_last)
        figures[name] = {"parameters": sum(p.numel() for p in block.parameters()), "channels_last": last}
    shape = f"{frames} frames, {WIDTH} channels, {SIDE}x{SIDE}, forward + backward"
    for row in to_rows(compare(functions, rounds, title=f"{frames} frames"), shape, BASE):
        yield replace(row, figures=figures[row.name])


def faster(block: nn.Module, frames: int) -> tuple[torch.memory_format, Callable[[], object]]:
    """The memory order that suits a block better, and its pass in that order."""
    trials = {order: _both(copy.deepcopy(block), frames, order) for order in ORDERS}
    seconds = {order: compare({"": trial}, 1)[""][0] for order, trial in trials.items()}
    best = min(ORDERS, key=lambda order: seconds[order])
    return best, trials[best]


def kernels(rounds: int) -> Iterator[Row]:
    """The kernels of all channels and directions, from the same systems, with the gradient of each parameter."""
    layer = SSM2D(WIDTH, SSM2DMixerConfig())
    a, b, c = (x.detach() for x in layer.constrained())
    c = c.unflatten(2, (a.shape[2], -1))
    a, b, c = (x.flatten(1, 2).requires_grad_() for x in (a, b, c))  # k systems of all directions
    grad = torch.randn(a.shape[1], c.shape[2], SIDE, SIDE)
    functions: dict[str, Callable[[], object]] = {
        "closed form": lambda: torch.autograd.grad(kernel(a, b, c, SIDE, SIDE), (a, b, c), grad),
        "recurrence": lambda: torch.autograd.grad(kernel_reference(a, b, c, SIDE, SIDE), (a, b, c), grad),
    }
    shape = f"kernel of ssm2d, {WIDTH} channels, 4 directions, 16 states, {SIDE}x{SIDE}, forward + backward"
    yield from to_rows(compare(functions, rounds, title="kernels"), shape, "closed form")


def layers(frames: int, rounds: int) -> Iterator[Row]:
    """The layer without D, on the same frames and from the same parameters."""
    layer = SSM2D(WIDTH, SSM2DMixerConfig())
    x, grad = (torch.randn(frames, WIDTH, SIDE, SIDE) for _ in range(2))
    leaves = [x.requires_grad_(), layer.a, layer.b, layer.c]

    def recurrence() -> torch.Tensor:
        a, b, c = layer.constrained()
        each = WIDTH // a.shape[2]
        return layer_reference(x, a.repeat_interleave(each, 2), b.repeat_interleave(each, 2), c, layer.flips)

    functions: dict[str, Callable[[], object]] = {
        "closed form": lambda: torch.autograd.grad(convolve(x, layer.spectrum(SIDE, SIDE)), leaves, grad),
        "recurrence": lambda: torch.autograd.grad(recurrence(), leaves, grad),
    }
    shape = f"ssm2d without D, {frames} frames, {WIDTH} channels, 4 directions, {SIDE}x{SIDE}, forward + backward"
    yield from to_rows(compare(functions, rounds, title="layers"), shape, "closed form")


def _both(block: nn.Module, frames: int, order: torch.memory_format) -> Callable[[], object]:
    """One forward and backward pass: from a given gradient of the output to those of the input and all parameters."""
    for p in block.parameters():
        if p.dim() == 4:  # `block.to` would also turn pairs, of five axes, and fail
            p.data = p.data.to(memory_format=order)
    x, grad = (torch.randn(frames, WIDTH, SIDE, SIDE).to(memory_format=order) for _ in range(2))
    leaves = [x.requires_grad_(), *block.parameters()]
    return lambda: torch.autograd.grad(block(x), leaves, grad)
