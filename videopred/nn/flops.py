"""Counting work: torch's counter, with what it leaves out."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

Shape = tuple[int, ...]


def counting() -> FlopCounterMode:
    """A context that counts FLOPs, 2 per multiply-add: convolutions, matrix products, attention, Fourier transforms.

    Backward passes within it are counted too. Element-wise work and the scan are not.
    """
    return FlopCounterMode(display=False, custom_mapping=MORE)


def _transform(share: float) -> Callable[..., int]:
    """FLOPs of Fourier transforms: `share` of 5 n log2 n for each of n points."""

    def count(shape: Shape, dims: list[int], *args: Any, out_shape: Shape, **kwargs: Any) -> int:
        points = math.prod(max(shape[dim], out_shape[dim]) for dim in dims)
        others = math.prod(side for dim, side in enumerate(shape) if dim not in {d % len(shape) for d in dims})
        return round(share * 5 * others * points * math.log2(points))

    return count


def _attention(query: Shape, key: Shape, value: Shape, *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward(grad: Shape, query: Shape, key: Shape, value: Shape, *args: Any, **kwargs: Any) -> int:
    return sdpa_backward_flop_count(grad, query, key, value)


MORE = {
    torch.ops.aten._fft_r2c: _transform(0.5),
    torch.ops.aten._fft_c2r: _transform(0.5),
    torch.ops.aten._fft_c2c: _transform(1.0),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
