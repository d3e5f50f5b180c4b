"""The list of metrics: how predicted frames are compared with the true ones.

A member is a frozen config with `kind`, `better` (which way is good: "higher", "lower", nearer to "one" or "neither"),
`unit` and `build()`; two of a kind that stand in one table, such as FVD of 16 frames and of 128, also have a `label`
for results, in place of `kind`. Where something is missing that the metric needs, `build` raises ValueError and says
what to do. What it returns is an accumulator that holds one number (or a few) per clip, sample and frame, or one row of
features per clip and sample, never frames:

    update(predicted, target, clip_ids, sample=0)
        predicted, target  (b, t, h, w, c), uint8 or floating in [0, 1]; anything else is a ValueError
        clip_ids           b names; a (clip, sample) may be scored once, in any order, on any process
    numbers                a `Numbers`, all that it keeps: what is put there is what it would have kept itself
    merge(other)           takes over the numbers of another accumulator; the same as one pass over all
    compute(order=None)    -> Score over the clips of `order` (default: all, sorted), reduced in that order

A metric of a set of clips, such as FVD, gives a SetScore, and has floor(groups), the same between true clips alone. One
with `context = "in"` is handed clips that begin with the true context.

So every split into batches or processes gives the same result to the last bit, and curves, paired tests, best and worst
clips come free. A metric never sees a model.

To add one: a file with a config and its accumulator (psnr.py is the shortest), one line in the union below, and one
in tests/metrics/test_contract.py. Protocols then name it: `metrics = [{ kind = "yours" }]`.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from videopred.metrics.diversity import DiversityConfig
from videopred.metrics.efficientnet import FrechetEfficientNetConfig
from videopred.metrics.fvd import FVDConfig
from videopred.metrics.intensity import EnergyConfig, InkConfig
from videopred.metrics.lpips import LPIPSConfig
from videopred.metrics.numbers import Numbers, Score, SetScore
from videopred.metrics.openstl import SumOfAbsolutesConfig, SumOfSquaresConfig
from videopred.metrics.psnr import PSNRConfig, PSNROfMeanConfig
from videopred.metrics.ssim import SSIMConfig
from videopred.metrics.stlpips import STLPIPSConfig

Metric = (
    PSNRConfig
    | PSNROfMeanConfig
    | SSIMConfig
    | LPIPSConfig
    | FVDConfig
    | STLPIPSConfig
    | FrechetEfficientNetConfig
    | SumOfSquaresConfig
    | SumOfAbsolutesConfig
    | InkConfig
    | EnergyConfig
    | DiversityConfig
)


def label(metric: Metric) -> str:
    """What a metric is called in results."""
    return getattr(metric, "label", metric.kind)


class Accumulator(Protocol):
    """What `Metric.build()` returns; the module's docstring says what each method does."""

    numbers: Numbers

    def update(self, predicted: Tensor, target: Tensor, clip_ids: Sequence[str], sample: int = 0) -> None: ...

    def merge(self, other) -> None: ...

    def compute(self, order: Sequence[str] | None = None) -> Score: ...


__all__ = [
    "Accumulator",
    "DiversityConfig",
    "EnergyConfig",
    "FVDConfig",
    "FrechetEfficientNetConfig",
    "InkConfig",
    "LPIPSConfig",
    "Metric",
    "Numbers",
    "PSNRConfig",
    "PSNROfMeanConfig",
    "SSIMConfig",
    "STLPIPSConfig",
    "Score",
    "SetScore",
    "SumOfAbsolutesConfig",
    "SumOfSquaresConfig",
    "label",
]
