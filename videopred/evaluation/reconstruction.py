"""A tokenizer under a protocol: each frame of the horizon from its own tokens, and how many codes do the work.

What it loses, a predictor on its tokens loses too: the row is the most that such a predictor can reach.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from videopred.clip import Clip
from videopred.evaluation.parts import Tally
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.rows import ModelRow
from videopred.evaluation.timing import Stopwatch
from videopred.nn.flops import counting
from videopred.nn.quantize import spread


class ReconstructionRow(ModelRow):
    """The row of a tokenizer's codec, which has `tokenize` and no `predict`."""

    def __init__(self, codec, protocol: Protocol, name: str, watch: Stopwatch):
        super().__init__(codec, protocol, name, watch, "reconstruction")

    def entry(self) -> dict[str, Any]:
        codec, met = self.predictor, torch.tensor(self.tally.codes)
        ids = torch.arange(len(met)).repeat_interleave(met)
        perplexity, usage = (number.item() for number in spread(ids.int(), codec.num_codes))
        codes = {"num_codes": codec.num_codes, "usage": usage, "perplexity": perplexity, "tokens": ids.numel()}
        return super().entry() | {"codes": codes}

    def _frames(self, clip: Clip, sample: int) -> Iterator[Tensor]:
        context, horizon = self.protocol.context, self.protocol.horizon
        if self.flops is None:
            with counting() as counter:
                self._reconstruct(clip.slice(0, 1))
            self.flops = counter.get_total_flops() // len(clip.id)
        yield from self.clock.steps(self._each(clip.slice(context, context + horizon)), horizon)

    def _each(self, clip: Clip) -> Iterator[Tensor]:
        for t in range(clip.num_frames):
            frames, ids = self._reconstruct(clip.slice(t, t + 1))
            met = torch.bincount(ids.flatten(), minlength=self.predictor.num_codes).tolist()
            self.tally.join(Tally(codes=met))
            yield frames[:, 0]

    def _reconstruct(self, clip: Clip) -> tuple[Tensor, Tensor]:
        ids = self.predictor.tokenize(clip.pixels())
        return self.predictor.decode(self.predictor.embed(ids)), ids


def row_of(model, protocol: Protocol, name: str, watch: Stopwatch) -> ModelRow:
    """The row of a predictor, or of a codec that stands in its place."""
    return (ModelRow if hasattr(model, "predict") else ReconstructionRow)(model, protocol, name, watch)
