"""Training a tokenizer: frames in, the same frames out, through a codebook.

    loss = L1 + p perceptual + commitment + codebook + a w adversarial        (Esser et al., CVPR 2021)

with p `perceptual_weight`, a `adversarial_weight` and w the adaptive weight. The critic's own loss is added: it has
parameters of its own, so that one update of both is the two-optimiser step, with both gradients from the same frames
and moments kept per parameter. (`clip_gradient` bounds the norm of both together.)

The loop trains it as it trains a predictor: it calls with a clip, and after each update `settle`. What is kept as the
model is the codec alone.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs import Tokenizer
from videopred.codecs.vqgan import VQGANConfig
from videopred.config import at_least, at_most
from videopred.metrics.lpips import SMALLEST, Net, differentiable
from videopred.nn.norm import at_least_float32
from videopred.nn.quantize import spread
from videopred.training.adversary import PatchCritic, adaptive_weight, least_side

COLLAPSED = 0.05  # a perplexity below this share of what an update could show is worth a warning
SLOW = 0.01  # of the running mean of the perplexity


@dataclass(frozen=True)
class TokenizerConfig:
    """
    perceptual_weight : of LPIPS by `perceptual_net`; without that network's weights it is left out, and this is said
    adversarial_weight, adversarial_start : of the critic, and the update from which it is trained and heard
    critic_width, critic_depth : of the first of its layers, and its number of halvings
    """

    kind: Literal["tokenizer"] = "tokenizer"
    codec: Tokenizer = field(default_factory=VQGANConfig)
    perceptual_weight: float = 1.0
    perceptual_net: Net = "vgg"
    adversarial_weight: float = 0.8
    adversarial_start: int = 10_000
    critic_width: int = 64
    critic_depth: int = 3

    def __post_init__(self):
        at_least(self, perceptual_weight=0, adversarial_weight=0, adversarial_start=0, critic_width=1, critic_depth=1)
        at_most(self, perceptual_weight=1e6, adversarial_weight=1e6)

    def build(self, format: Format) -> "TokenizerTraining":
        self._require_size(min(format.height, format.width))
        return TokenizerTraining(format, self)

    def _require_size(self, side: int) -> None:
        """Said at the start, not when the critic is first heard. Raises ValueError."""
        if self.adversarial_weight and side < (least := least_side(self.critic_depth)):
            raise ValueError(
                f"critic_depth = {self.critic_depth}: needs frames of at least {least} pixels a side, and these have "
                f"{side}; choose a smaller critic_depth, or adversarial_weight = 0"
            )
        if self.perceptual_weight and side < (least := SMALLEST[self.perceptual_net]):
            raise ValueError(
                f"perceptual_net = {self.perceptual_net!r}: needs frames of at least {least} pixels a side, and these "
                f"have {side}; choose perceptual_weight = 0"
            )


class TokenizerTraining(nn.Module):
    """A codec and its critic. forward(clip) -> (loss, metrics, None)."""

    updates: Tensor
    perplexity: Tensor

    def __init__(self, format: Format, config: TokenizerConfig):
        super().__init__()
        self.format, self.config = format, config
        self.codec = config.codec.build(format.channels, format.height, format.width)
        if config.adversarial_weight:
            self.critic = PatchCritic(format.channels, config.critic_width, config.critic_depth)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("perplexity", torch.tensor(float(self.codec.num_codes)))
        self.seen: list[tuple[Tensor, Tensor]] = []  # since the last update: features and the codes they were given
        self.warned = False

    @cached_property
    def perceptual(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Frames (n, c, h, w) in [-1, 1] -> mean distance; None without a weight, or where there is no network."""
        try:
            return differentiable(self.config.perceptual_net) if self.config.perceptual_weight else None
        except ValueError as error:
            print(f"videopred: training goes on without the perceptual loss: {error}", file=sys.stderr)
            return None

    @property
    def kept(self) -> nn.Module:
        """What is saved as the model."""
        return self.codec

    def forward(self, clip: Clip) -> tuple[Tensor, dict[str, Tensor], None]:
        """Metrics: "l1" and, where they are in the loss, "perceptual", "fooled", "critic"; "perplexity", "usage"."""
        true = clip.pixels(next(self.parameters()).dtype)
        features = self.codec.features(true)
        found = self.codec.quantize(features)
        painted = at_least_float32(self.codec.decode(found.vectors)).flatten(0, 1)
        true = true.flatten(0, 1)
        metrics = {"l1": (painted - true).abs().mean()}
        reconstruction = metrics["l1"]
        if self.perceptual is not None:
            metrics["perceptual"] = self.perceptual(painted, true)
            reconstruction = reconstruction + self.config.perceptual_weight * metrics["perceptual"]
        metrics |= {"commitment": found.commitment, "codebook": found.codebook}
        loss = reconstruction + found.commitment + found.codebook
        if self.config.adversarial_weight and self.updates >= self.config.adversarial_start:
            metrics |= {"fooled": self.critic.fooled(painted), "critic": self.critic.judge(true, painted)}
            weight = adaptive_weight(reconstruction, metrics["fooled"], self.codec.decoder.head.weight)
            loss = loss + self.config.adversarial_weight * weight * metrics["fooled"] + metrics["critic"]
        metrics["perplexity"], metrics["usage"] = spread(found.ids, self.codec.num_codes)
        self.seen.append((features.detach().movedim(2, -1).flatten(0, -2), found.ids.flatten()))
        return loss, metrics, None

    @torch.no_grad()
    def settle(self, generator: Generator) -> None:
        """After an update: moves codes that do not learn by gradient, restarts dead ones, warns of a collapse."""
        features, ids = (torch.cat(parts) for parts in zip(*self.seen, strict=True))
        self.seen.clear()
        self.codec.codebook.settle(features, ids, generator)
        self.updates += 1
        self.perplexity.lerp_(spread(ids, self.codec.num_codes)[0].to(self.perplexity), SLOW)
        most = min(self.codec.num_codes, len(ids))  # few vectors meet few codes, however well all are used
        if self.perplexity < COLLAPSED * most and not self.warned:
            self.warned = True
            print(
                f"videopred: the codebook is collapsing: about {self.perplexity:.0f} of {self.codec.num_codes} codes "
                "do all the work (perplexity); try a lower learning rate, fewer or narrower codes (code_width), or "
                "codec.restart_below above 0",
                file=sys.stderr,
            )
