"""Pixel predictor: encoder, stack, decoder; the next frame under an L1 + L2 loss.

The no-VQ model of Smith et al. (NeurIPS 2023). Frame t is encoded, joined with the action that leads to frame t+1,
and mixed to the stack's width by a 1x1 convolution; from the stack's output decoder and head make frame t+1.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs import Codec
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.config import at_least, at_most
from videopred.metrics.ssim import WINDOW
from videopred.nn.conv import Conv
from videopred.nn.norm import at_least_float32
from videopred.nn.running_mean import running_mean
from videopred.predictors.actions import ActionsConfig
from videopred.predictors.frame_loss import frame_loss, true_frames
from videopred.predictors.heads import DirectConfig, Head
from videopred.predictors.stack import StackConfig

State = tuple[Tensor, tuple | None]


@dataclass(frozen=True)
class PixelConfig:
    """The loss is w L1 + (1 - w) L2 + v moments + u (1 - SSIM).

    w, v, u are `l1_weight`, `moments_weight`, `ssim_weight`.

    "moments" is the squared relative error of each frame's mean intensity and mean squared intensity. Under uncertainty
    L2 wants the mean of all futures and L1 the median, which on a dark ground is nothing at all; this term asks that
    what is there neither fades nor smears. (A smear keeps the first moment and loses the second.) SSIM asks for
    contrast and structure where L1 and L2 are content with a blur (Zhao et al., IEEE TCI 2017).

    `reduction` "mean" is the plain mean over pixels; "paper" sums over width and channels, as the paper's code does
    (so the loss, and with it the gradient, is width x channels times larger).
    """

    kind: Literal["pixel"] = "pixel"
    codec: Codec = field(default_factory=ResNetCodecConfig)
    stack: StackConfig = field(default_factory=StackConfig)
    actions: ActionsConfig = field(default_factory=ActionsConfig)
    head: Head = field(default_factory=DirectConfig)
    l1_weight: float = 0.5
    moments_weight: float = 0.0
    ssim_weight: float = 0.0
    reduction: Literal["mean", "paper"] = "mean"

    def __post_init__(self):
        at_least(self, moments_weight=0, ssim_weight=0)
        at_most(self, moments_weight=1e6, ssim_weight=1e6)
        if not 0 <= self.l1_weight <= 1:
            raise ValueError(f"l1_weight = {self.l1_weight}: must lie in 0..1")

    def build(self, format: Format) -> "PixelPredictor":
        if self.ssim_weight and min(format.height, format.width) < WINDOW:
            raise ValueError(
                f"ssim_weight = {self.ssim_weight}: SSIM needs frames of at least {WINDOW} x {WINDOW} pixels, its "
                f"window; these are {format.height} x {format.width}; set it to 0"
            )
        return PixelPredictor(format, self)


class PixelPredictor(nn.Module):
    """The state is (newest frame (b, c, h, w), memory: None where nothing but that frame was seen yet, else the stack's
    state and, for a head that keeps the mean of frames, (mean (b, c, h, w), number of frames (b,))).
    """

    def __init__(self, format: Format, config: PixelConfig):
        super().__init__()
        self.format = format
        self.l1_weight, self.moments_weight = config.l1_weight, config.moments_weight
        self.ssim_weight = config.ssim_weight
        self.reduction = config.reduction
        width = config.stack.width
        self.head = config.head.build(format.channels, width, config.codec.stride)
        self.codec = config.codec.build(format.channels, width, self.head.outputs, format.height, format.width)
        self.actions = config.actions.build(format.num_actions)
        self.mix = Conv(self.codec.channels + self.actions.width, width, 1)
        self.stack = config.stack.build()

    def forward(self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: None = None):
        """Loss, metrics "l1" and "l2" (means over pixels), "moments" and "ssim" (if they have a weight), state."""
        predicted, state = self.reconstruct(clip, state, inputs)
        return *self.compare(predicted, clip), state

    def compare(self, predicted: Tensor, clip: Clip) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of predictions (b, t, c, h, w) of the last t frames of `clip`."""
        predicted = at_least_float32(predicted)
        length = clip.whole - 1 if clip.whole else predicted.shape[1]
        if length < 1:
            raise ValueError("a clip of 1 frame leaves nothing to predict; give clips of at least 2 frames")
        true = self._pixels(clip)[:, clip.num_frames - predicted.shape[1] :]
        total = len(true) * length  # all frames to predict, in this chunk and its sisters
        loss, metrics = frame_loss(predicted, true, total, self.l1_weight, self.moments_weight, self.ssim_weight)
        if self.reduction == "paper":
            loss = loss * (self.format.width * self.format.channels)
        return loss, metrics

    def reconstruct(self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: None = None):
        """Each next frame, given the true ones before it (or `inputs` in their place)."""
        seen, ids, newest = self._seen(clip, state, inputs)
        predicted, after = self._next(seen, ids, None if state is None else state[1])
        return predicted, (newest, after)

    def observe(self, clip: Clip, state: State | None = None) -> State:
        """The state after the frames of `clip`; the newest one waits in it."""
        seen, ids, newest = self._seen(clip, state, None)
        memory = None if state is None else state[1]
        if not seen.shape[1]:
            return newest, memory
        stack, mean = memory or (None, ())
        _, stack = self.stack(self._latents(seen, ids), stack)
        return newest, (stack, running_mean(seen, mean)[1] if self.head.keep_mean else ())

    def predict(self, state: State, action: Tensor | None = None, noise: None = None) -> tuple[Tensor, State]:
        """The next frame (b, c, h, w) in [-1, 1], under the action (b,) that leads to it."""
        newest, before = state
        ids = self.actions.ids(None if action is None else action[:, None], len(newest), 1, newest.device)
        predicted, after = self._next(newest.unsqueeze(1), ids, before)
        return predicted[:, 0], (predicted[:, 0], after)

    def noise_shape(self) -> None:
        """Deterministic: it takes no noise."""

    def _seen(self, clip: Clip, state: State | None, inputs: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Frames the stack will see, the actions that lead to their successors, and the frame that must wait."""
        fed = self._pixels(clip) if inputs is None else inputs
        ids = self.actions.ids(clip.actions, fed.shape[0], fed.shape[1], fed.device)
        if state is None:
            return fed[:, :-1], ids[:, 1:], fed[:, -1]
        return torch.cat([state[0].unsqueeze(1), fed[:, :-1]], 1), ids, fed[:, -1]

    def _next(self, frames: Tensor, ids: Tensor, memory: tuple | None) -> tuple[Tensor, tuple | None]:
        if not frames.shape[1]:  # a first chunk of one frame, which waits
            return frames, memory
        stack, mean = memory or (None, ())
        hidden, stack = self.stack(self._latents(frames, ids), stack)
        given = [hidden, self.codec.decode(hidden), frames]
        if self.head.keep_mean:
            means, mean = running_mean(frames, mean)
            given.append(means)
        predicted = self.head(*(x.flatten(0, 1) for x in given))
        return predicted.unflatten(0, frames.shape[:2]), (stack, mean)

    def _latents(self, frames: Tensor, ids: Tensor) -> Tensor:
        latents = self.actions(self.codec.encode(frames), ids)
        return self.mix(latents.flatten(0, 1)).unflatten(0, frames.shape[:2])

    def _pixels(self, clip: Clip) -> Tensor:
        return true_frames(clip, self.format, self.mix.weight.dtype)
