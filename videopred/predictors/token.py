"""Token predictor: the next frame's tokens, all at once, from those of the frames before, given the actions.

ConvS5 on VQ tokens (Smith et al., NeurIPS 2023), with any dynamics of the list. A frozen codec makes tokens of frames.
Their vectors are encoded, joined with the action that leads to the next frame and mixed to the stack's width; from the
stack's output the decoder makes a distribution for each token of the next frame. A rollout draws from them.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs import Codec
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.nn.conv import Conv
from videopred.predictors import masking
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.frozen import FrozenConfig
from videopred.predictors.sampling import choose, require_noise, uniform
from videopred.predictors.stack import StackConfig
from videopred.predictors.token_loss import nats

State = tuple[Tensor, tuple[tuple | None, Tensor]]


@dataclass(frozen=True)
class TokenConfig:
    """The loss is the cross-entropy of a frame's tokens in nats, summed over the grid.

    smoothing      : share of each label that is spread over all codes
    temperature    : at which tokens are drawn
    drop_loss      : share of a clip's frames that are left out of the loss (masking.py)
    causal_context : where it is not 0, frames from there on are hidden (masking.py)
    """

    kind: Literal["token"] = "token"
    tokenizer: FrozenConfig = field(default_factory=FrozenConfig)
    codec: Codec = field(default_factory=lambda: ResNetCodecConfig(encoder_widths=(256,), decoder_widths=(512,)))
    stack: StackConfig = field(default_factory=StackConfig)
    actions: ActionsConfig = field(default_factory=ActionsConfig)
    smoothing: float = 0.01
    temperature: float = 1.0
    drop_loss: float = 0.0
    causal_context: int = 0

    def __post_init__(self):
        masking.check(self)
        if self.drop_loss and self.causal_context:
            raise ValueError(f"drop_loss = {self.drop_loss}: must be 0 with a causal_context, as in the paper")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature = {self.temperature}: must be above 0, and finite")

    def build(self, format: Format) -> "TokenPredictor":
        return TokenPredictor(format, self)


class TokenPredictor(nn.Module):
    """The state is (newest tokens (b, h', w'), (state of the stack or None, true frames seen (b,) int64)).

    The count is 0 where the newest tokens are its own. `noise` of a frame: which frames are scored, and what is drawn.
    """

    def __init__(self, format: Format, config: TokenConfig):
        super().__init__()
        self.format, self.config = format, config
        self.tokenizer = config.tokenizer.build(format)
        width, grid = config.stack.width, self.tokenizer.grid
        self.codec = config.codec.build(self.tokenizer.channels, width, self.tokenizer.num_codes, *grid)
        self.actions = config.actions.build(format.num_actions)
        self.mix = Conv(self.codec.channels + self.actions.width, width, 1)
        self.stack = config.stack.build()

    def forward(
        self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: Tensor | None = None
    ):
        """Loss, metrics "nats" per token and "accuracy" of the likeliest one, state."""
        true = self.tokenizer.tokens(clip)
        fed = true if inputs is None else self.tokenizer.tokenize(inputs)
        seen, ids, (newest, memory, count) = self._seen(fed, clip, state)
        predicted, scored = masking.length(clip, self.config.causal_context)
        places = masking.positions(None if state is None else state[1][1], ids)
        weights = torch.full_like(ids, 1 / predicted, dtype=self.mix.weight.dtype)
        hidden = None
        if self.config.causal_context:
            hidden = (places >= self.config.causal_context) & (ids >= 0)
            late = masking.scored(places, self.config.causal_context).to(weights) / scored
            weights = torch.where(ids < 0, weights, late)
        features, memory = self._next(seen, ids, memory, hidden)
        true = true[:, true.shape[1] - ids.shape[1] :]
        return *self._compare(features, true, weights, noise), (newest, (memory, count))

    def reconstruct(
        self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: Tensor | None = None
    ):
        """Each next frame, drawn given the true ones before it (or `inputs` in their place)."""
        fed = self.tokenizer.tokens(clip) if inputs is None else self.tokenizer.tokenize(inputs)
        seen, ids, (newest, memory, count) = self._seen(fed, clip, state)
        features, memory = self._next(seen, ids, memory)
        noise = require_noise(noise, ids, self.noise_shape())
        return self.tokenizer.decode(self._draw(features, noise)), (newest, (memory, count))

    def observe(self, clip: Clip, state: State | None = None) -> State:
        """The state after the frames of `clip`; the tokens of the newest one wait in it."""
        seen, ids, (newest, memory, count) = self._seen(self.tokenizer.tokens(clip), clip, state)
        return newest, (self._next(seen, ids, memory)[1], count)

    def predict(self, state: State, action: Tensor | None = None, noise: Tensor | None = None) -> tuple[Tensor, State]:
        """The next frame (b, c, h, w) in [-1, 1], under the action (b,) that leads to it."""
        newest, (memory, count) = state
        ids = self.actions.ids(None if action is None else action[:, None], len(newest), 1, newest.device)
        own = (count[:, None] == 0) & (ids >= 0) if self.config.causal_context else None
        noise = require_noise(None if noise is None else noise[:, None], ids, self.noise_shape())
        features, memory = self._next(newest[:, None], ids, memory, own)
        tokens = self._draw(features, noise)
        return self.tokenizer.decode(tokens)[:, 0], (tokens[:, 0], (memory, torch.zeros_like(count)))

    def noise_shape(self) -> tuple[int]:
        height, width = self.tokenizer.grid
        return (1 + height * width,)

    def _seen(self, fed: Tensor, clip: Clip, state: State | None):
        """Tokens the stack will see, the actions that lead to their successors; and the newest, memory and count."""
        ids = self.actions.ids(clip.actions, fed.shape[0], fed.shape[1], fed.device)
        count = torch.full((len(fed),), fed.shape[1], device=fed.device)
        if state is None:
            return fed[:, :-1], ids[:, 1:], (fed[:, -1], None, count)
        waiting, (memory, before) = state
        return torch.cat([waiting[:, None], fed[:, :-1]], 1), ids, (fed[:, -1], memory, before + count)

    def _next(
        self, tokens: Tensor, ids: Tensor, memory: tuple | None, hidden: Tensor | None = None
    ) -> tuple[Tensor, tuple | None]:
        """Features (b, t, width, h, w) of the frames after `tokens`, which are hidden where `hidden` (b, t) says so."""
        if not tokens.shape[1]:  # a first chunk of one frame, which waits
            return self.mix.weight.new_zeros(*tokens.shape[:2], self.config.stack.width, *self.tokenizer.grid), memory
        latents = self.codec.encode(self.tokenizer.embed(tokens))
        latents = latents if hidden is None else masking.hide(latents, hidden)
        return self.stack(self._mixed(latents, ids), memory)

    def _mixed(self, latents: Tensor, ids: Tensor) -> Tensor:
        return self.mix(self.actions(latents, ids).flatten(0, 1)).unflatten(0, ids.shape)

    def _logits(self, features: Tensor) -> Tensor:
        """(b, t, width, h, w) -> (b, t, h', w', num_codes)."""
        return self.codec.decode(features).movedim(2, -1)

    def _draw(self, features: Tensor, noise: Tensor) -> Tensor:
        """Tokens (b, t, h', w')."""
        if not features.shape[1]:
            return noise.new_zeros(*noise.shape[:2], *self.tokenizer.grid, dtype=torch.int64)
        return choose(
            self._logits(features), uniform(noise[..., 1:]).unflatten(2, self.tokenizer.grid), self.config.temperature
        )

    def _compare(
        self, features: Tensor, true: Tensor, weights: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of the frames `true` (b, t, h', w'), which count as much as `weights` (b, t) say."""
        if not true.shape[1]:
            return features.sum(), {"nats": features.sum(), "accuracy": features.sum()}
        if self.config.drop_loss:
            keys = require_noise(noise, weights, self.noise_shape())[..., 0]
            frames = masking.picked(keys, self.config.drop_loss)
            share = frames.shape[1] / true.shape[1]
            features, true, weights = (masking.take(x, frames) for x in (features, true, weights / share))
        logits = self._logits(features)
        each = nats(logits, true, self.config.smoothing).sum((2, 3))
        weights = weights / len(true)
        loss = (each * weights).sum()
        right = (logits.argmax(-1) == true).to(weights).mean((2, 3))
        return loss, {"nats": loss.detach() / true[0, 0].numel(), "accuracy": (right * weights).sum()}
