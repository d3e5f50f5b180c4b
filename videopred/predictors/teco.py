"""TECO: a frame's tokens compressed into fewer codes, which a prior draws and a decoder spreads out again.

Yan et al., "Temporally Consistent Transformers for Video Generation" (ICML 2023), with any dynamics of the list, as the
ConvS5 paper has it. e_t are the vectors of frame t's tokens, made by a frozen codec:

    h_t = encode(e_{t-1}, e_t)        a learned e_{-1} comes first
    z_t = nearest code of h_t; h_0 itself for the first frame
    d_{t+1} = stack(z_t, action that leads to frame t+1)
    a prior (maskgit.py) of the codes of z_{t+1}, given d_{t+1}
    a decoder of the tokens of frame t+1, given d_{t+1} and z_{t+1}

In training z_{t+1} is that of the true frame; in a rollout the prior draws it, and it is what the stack sees next.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs import Codec
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import at_least_float32
from videopred.nn.quantize import CosineCodebook, Quantized
from videopred.predictors import masking
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.frozen import FrozenConfig
from videopred.predictors.maskgit import MaskGitConfig
from videopred.predictors.sampling import require_noise, uniform
from videopred.predictors.stack import StackConfig
from videopred.predictors.token_loss import nats, perplexity

State = tuple[Tensor, tuple[Tensor, tuple | None, Tensor]]


@dataclass(frozen=True)
class TecoConfig:
    """The loss is the sum of the cross-entropies of a frame's tokens and of its codes that the prior must fill in, in
    nats and as if all codes had been masked, and of the codebook's two losses.

    codec          : the trained one inside; each of its widths but the first halves the grid of tokens
    latent_width, num_codes, code_width : of z, of its codebook, and of the sphere on which codes are compared
    smoothing      : share of each token's label that is spread over all codes
    drop_loss      : share of a clip's frames on which prior and decoder are not trained (masking.py)
    causal_context : where it is not 0, frames from there on are hidden, and the prior learns on them (masking.py)
    reduction      : "mean" of the prior's loss over frames; "paper" over masked codes of the whole batch, as the
                     paper's code does. Then losses of chunks do not add up, for none knows the count of another.
    """

    kind: Literal["teco"] = "teco"
    tokenizer: FrozenConfig = field(default_factory=FrozenConfig)
    codec: Codec = field(
        default_factory=lambda: ResNetCodecConfig(
            encoder_widths=(256, 512), encoder_blocks=2, decoder_widths=(256, 512), decoder_blocks=4
        )
    )
    latent_width: int = 64
    num_codes: int = 1024
    code_width: int = 32
    stack: StackConfig = field(default_factory=StackConfig)
    actions: ActionsConfig = field(default_factory=ActionsConfig)
    prior: MaskGitConfig = field(default_factory=MaskGitConfig)
    smoothing: float = 0.01
    drop_loss: float = 0.9
    causal_context: int = 0
    reduction: Literal["mean", "paper"] = "mean"

    def __post_init__(self):
        at_least(self, latent_width=1, num_codes=2, code_width=1)
        masking.check(self)

    def build(self, format: Format) -> "Teco":
        return Teco(format, self)


class Teco(nn.Module):
    """The state is (newest tokens (b, h', w'), (z (b, d, h, w), state of the stack or None, true frames seen (b,))).

    z is that of the newest tokens. The count is 0 where they are its own. `noise` of a frame says whether it is scored
    in training, and what the prior then masks, or draws in a rollout.
    """

    def __init__(self, format: Format, config: TecoConfig):
        super().__init__()
        self.format, self.config = format, config
        self.tokenizer = config.tokenizer.build(format)
        width, (height, across) = config.stack.width, self.tokenizer.grid
        self.codec = config.codec.build(
            2 * self.tokenizer.channels, width + config.latent_width, self.tokenizer.num_codes, height, across
        )
        self.start = nn.Parameter(torch.randn(height, across, self.tokenizer.channels) * 0.02)
        self.project = Conv(self.codec.channels, config.latent_width, 1)
        self.codebook = CosineCodebook(config.num_codes, config.latent_width, config.code_width)
        self.actions = config.actions.build(format.num_actions)
        self.mix = Conv(config.latent_width + self.actions.width, width, 1)
        self.stack = config.stack.build()
        self.grid = height // self.codec.stride, across // self.codec.stride
        self.prior = config.prior.build(config.num_codes, width, self.grid)

    def no_decay(self) -> list[nn.Parameter]:
        return [self.start]

    def forward(
        self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: Tensor | None = None
    ):
        """Loss, metrics, state. "nats" are per token, "prior_nats" per masked code; "perplexity" is that of the chunk's
        codes, by its share of the clip."""
        true, ids = self.tokenizer.tokens(clip), self._ids(clip, state)
        chain, found = self._posterior(true, state)
        fed = true
        if inputs is not None:
            fed = self.tokenizer.tokenize(inputs)
            chain, _ = self._posterior(fed, state)
        context = self.config.causal_context
        places = masking.positions(None if state is None else state[1][2], ids)
        hidden = (places >= context) & (ids >= 0) if context else None
        features, memory = self._next(chain[:, :-1], ids, state, hidden)
        after = fed[:, -1], (chain[:, -1], memory, self._count(clip, state, ids))
        lengths, time = masking.length(clip, context), ids.shape[1]
        share = true.shape[1] / (lengths[0] + 1)
        loss = share * (found.commitment + found.codebook)
        metrics = {"commitment": share * found.commitment.detach(), "codebook": share * found.codebook.detach()}
        metrics["perplexity"] = share * perplexity(found.ids, self.config.num_codes)
        if not time:  # a first chunk of one frame, which waits
            return loss, metrics | dict.fromkeys(("nats", "prior_nats"), loss.detach() * 0), after
        frames, mask = self._drawn(require_noise(noise, ids, self.noise_shape()))
        late = masking.scored(places, context)
        target = *(x[:, x.shape[1] - time :] for x in (found.vectors, found.ids, true)), late
        predicted, more = self._compare(features, target, frames, mask, lengths)
        return loss + predicted, metrics | more, after

    def reconstruct(
        self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: Tensor | None = None
    ):
        """Each next frame, drawn given the true ones before it (or `inputs` in their place)."""
        fed = self.tokenizer.tokens(clip) if inputs is None else self.tokenizer.tokenize(inputs)
        ids = self._ids(clip, state)
        chain, _ = self._posterior(fed, state)
        features, memory = self._next(chain[:, :-1], ids, state)
        tokens, _ = self._draw(features, require_noise(noise, ids, self.noise_shape()))
        return self.tokenizer.decode(tokens), (fed[:, -1], (chain[:, -1], memory, self._count(clip, state, ids)))

    def observe(self, clip: Clip, state: State | None = None) -> State:
        """The state after the frames of `clip`; tokens and z of the newest one wait in it."""
        tokens, ids = self.tokenizer.tokens(clip), self._ids(clip, state)
        chain, _ = self._posterior(tokens, state)
        _, memory = self._next(chain[:, :-1], ids, state)
        return tokens[:, -1], (chain[:, -1], memory, self._count(clip, state, ids))

    def predict(self, state: State, action: Tensor | None = None, noise: Tensor | None = None) -> tuple[Tensor, State]:
        """The next frame (b, c, h, w) in [-1, 1], under the action (b,) that leads to it."""
        newest, (z, _, count) = state
        ids = self.actions.ids(None if action is None else action[:, None], len(newest), 1, newest.device)
        noise = require_noise(None if noise is None else noise[:, None], ids, self.noise_shape())
        own = (count[:, None] == 0) & (ids >= 0) if self.config.causal_context else None
        features, memory = self._next(z[:, None], ids, state, own)
        tokens, z = self._draw(features, noise)
        return self.tokenizer.decode(tokens)[:, 0], (tokens[:, 0], (z[:, 0], memory, torch.zeros_like(count)))

    def noise_shape(self) -> tuple[int]:
        return (1 + math.prod(self.prior.noise_shape()),)

    def _ids(self, clip: Clip, state: State | None) -> Tensor:
        """Of the actions that lead to the frames that are predicted, (b, t')."""
        ids = self.actions.ids(clip.actions, clip.content.shape[0], clip.num_frames, clip.content.device)
        return ids[:, 1:] if state is None else ids

    def _count(self, clip: Clip, state: State | None, ids: Tensor) -> Tensor:
        return ids.new_full((len(ids),), clip.num_frames) + (0 if state is None else state[1][2])

    def _posterior(self, tokens: Tensor, state: State | None) -> tuple[Tensor, Quantized]:
        """z of the frame before the first that is predicted and of these, (b, 1 + t', d, h, w); the codes of all t."""
        vectors = self.tokenizer.embed(tokens)
        if state is None:
            before = self.start.movedim(-1, 0).expand(len(vectors), 1, -1, -1, -1)
        else:
            before = self.tokenizer.embed(state[0][:, None])
        pairs = torch.cat([torch.cat([before.to(vectors.dtype), vectors[:, :-1]], 1), vectors], 2)
        coded = self.project(self.codec.encode(pairs).flatten(0, 1)).unflatten(0, tokens.shape[:2])
        found = self.codebook(coded.movedim(2, -1))
        z = at_least_float32(found.vectors).movedim(-1, 2)
        # the codes of a clip's first frame have a part in the codebook's losses, and no other
        chain = [at_least_float32(coded[:, :1]), z[:, 1:]] if state is None else [state[1][0][:, None], z]
        return torch.cat(chain, 1), found

    def _next(
        self, z: Tensor, ids: Tensor, state: State | None, hidden: Tensor | None = None
    ) -> tuple[Tensor, tuple | None]:
        """d (b, t, width, h, w) of each frame after those of `z`, which are hidden where `hidden` says so."""
        memory = None if state is None else state[1][1]
        if not z.shape[1]:
            return z.new_zeros(*z.shape[:2], self.config.stack.width, *self.grid), memory
        z = z if hidden is None else masking.hide(z, hidden)
        return self.stack(self.mix(self.actions(z, ids).flatten(0, 1)).unflatten(0, ids.shape), memory)

    def _draw(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (b, t, h', w') and z (b, t, d, h, w) of the frames with these d."""
        if not features.shape[1]:
            return noise.new_zeros(*noise.shape[:2], *self.tokenizer.grid, dtype=torch.int64), features
        passes = noise[..., 1:].flatten(0, 1).unflatten(1, self.prior.noise_shape())
        codes = self.prior.sample(features.flatten(0, 1), passes).unflatten(0, noise.shape[:2])
        z = at_least_float32(self.codebook.embed(codes)).movedim(-1, 2)
        return self.codec.decode(features, z).argmax(2), z

    def _drawn(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Frames (b, n) that are scored, and which of their codes are masked, (b, n, h, w)."""
        frames = masking.picked(noise[..., 0], self.config.drop_loss)
        passes = masking.take(noise, frames)[..., 1:].unflatten(2, self.prior.noise_shape())[:, :, 0].flatten(0, 1)
        return frames, self.prior.mask(uniform(passes[:, 1, 0]), passes[:, 0]).unflatten(0, frames.shape)

    def _compare(
        self, features: Tensor, target: tuple[Tensor, ...], frames: Tensor, mask: Tensor, lengths: tuple[int, int]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of decoder and prior on `frames` (b, n) of the t' that are predicted.

        target  : of all t' frames z (b, t', h, w, d), codes (b, t', h, w), tokens (b, t', h', w'), and whether the
                  prior learns on it (b, t')
        mask    : the codes that it must fill in, (b, n, h, w)
        lengths : how many frames of the whole clip are predicted, and on how many of them the prior learns
        """
        every = features.shape[0] * features.shape[1]
        features, z, codes, true, late = (masking.take(x, frames) for x in (features, *target))
        logits = self.codec.decode(features, z.movedim(-1, 2)).movedim(2, -1)
        tokens = nats(logits, true, self.config.smoothing).sum((2, 3)).mean() * (every / len(true) / lengths[0])
        guessed = self.prior(codes.masked_fill(mask, -1).flatten(0, 1), features.flatten(0, 1))
        wrong = nats(guessed.unflatten(0, frames.shape), codes) * mask * late[..., None, None]
        if self.config.reduction == "paper":
            part = target[-1].sum() / (len(true) * lengths[1])
            prior = wrong.sum() / (mask & late[..., None, None]).sum().clamp(min=1) * part
        else:
            prior = (wrong.sum((2, 3)) / mask.sum((2, 3))).sum() * (every / frames.numel() / len(true) / lengths[1])
        metrics = {"nats": tokens.detach() / true[0, 0].numel(), "prior_nats": prior.detach()}
        return tokens + mask[0, 0].numel() * prior, metrics
