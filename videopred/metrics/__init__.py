"""The list of metrics: how predicted frames are compared with the true ones.

A member is a frozen config with `kind`, `better` (which way is good), `unit` and `build()`. What `build` returns is an
accumulator that holds one number (or a few) per clip, sample and frame, never frames:

    update(predicted, target, clip_ids, sample=0)
        predicted, target  (b, t, h, w, c), uint8 or floating in [0, 1]; anything else is a ValueError
        clip_ids           b names; a (clip, sample) may be scored once, in any order, on any process
    merge(other)           takes over the numbers of another accumulator; the same as one pass over all
    compute(order=None)    -> Score over the clips of `order` (default: all, sorted), reduced in that order

So every split into batches or processes gives the same result to the last bit, and curves, paired tests, best and worst
clips come free. A metric never sees a model.

To add one: a file with a config and its accumulator (psnr.py is the shortest), one line in the union below, and one
in tests/metrics/test_contract.py. Protocols then name it: `metrics = [{ kind = "yours" }]`.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from videopred.metrics.intensity import EnergyConfig, InkConfig
from videopred.metrics.numbers import Score
from videopred.metrics.psnr import PSNRConfig
from videopred.metrics.ssim import SSIMConfig

Metric = PSNRConfig | SSIMConfig | InkConfig | EnergyConfig


class Accumulator(Protocol):
    """What `Metric.build()` returns; the module's docstring says what each method does."""

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None: ...

    def merge(self, other) -> None: ...

    def compute(self, order: Sequence[str] | None = None) -> Score: ...


__all__ = ["Accumulator", "EnergyConfig", "InkConfig", "Metric", "PSNRConfig", "SSIMConfig", "Score"]
