"""SimVP: a block of frames in, the next block out, by convolutions alone; longer horizons by feeding it its own blocks.

After Gao et al., "SimVP: Simpler yet Better Video Prediction" (CVPR 2022). An encoder codes each frame, a translator
mixes the latents of all frames of a block stacked on channels, a decoder paints the next block. There is no memory
beyond the block, and no error is fed back within one: strong at short horizons. The spatial blocks of the translator
are ours to choose; a latent's skip leads from the newest frame to each predicted one, where the paper's leads at full
resolution from frame i to frame i.

What of the predictors' contract does not hold, and why:
- Actions are ignored: the model is unconditional.
- The loss is that of whole blocks: of the `num_frames` frames after the first `num_frames`, of the next `num_frames`
  after those, and so on, the last one cut to the clip. Losses of chunks add up where chunks end as blocks do. It is not
  the loss of `reconstruct`, which gives each frame the truth up to the frame before it.
- The state's size repeats after `num_frames` steps of a rollout: frames predicted and not yet given wait in it.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs import Codec
from videopred.codecs.staged import StagedCodecConfig
from videopred.config import at_least
from videopred.nn.conv import Conv
from videopred.nn.norm import at_least_float32
from videopred.predictors.frame_loss import frame_loss, true_frames
from videopred.spatial import Spatial
from videopred.spatial.convnext import ConvNeXtConfig

State = tuple[Tensor, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class SimVPConfig:
    """`num_frames` in a block, in and out; `features` channels of a latent that the decoder is given; `width` and
    `depth` of the translator. The loss is w L1 + (1 - w) L2 + v moments, as the pixel predictor's.
    """

    kind: Literal["simvp"] = "simvp"
    num_frames: int = 10
    codec: Codec = field(default_factory=StagedCodecConfig)
    features: int = 64
    width: int = 256
    depth: int = 4
    spatial: Spatial = field(default_factory=ConvNeXtConfig)
    l1_weight: float = 0.0
    moments_weight: float = 0.0

    def __post_init__(self):
        at_least(self, num_frames=1, features=1, width=1, depth=1, moments_weight=0)
        if not 0 <= self.l1_weight <= 1:
            raise ValueError(f"l1_weight = {self.l1_weight}: must lie in 0..1")

    def build(self, format: Format) -> "SimVP":
        return SimVP(format, self)


class SimVP(nn.Module):
    """The state is (newest frame, (the num_frames - 1 frames before it, predicted frames not yet given)).

    Before a clip's first frame everything is taken to have looked like it. One pass predicts `block` frames.
    """

    def __init__(self, format: Format, config: SimVPConfig):
        super().__init__()
        self.format, self.block = format, config.num_frames
        self.l1_weight, self.moments_weight = config.l1_weight, config.moments_weight
        size = format.height, format.width
        self.codec = config.codec.build(format.channels, config.features, format.channels, *size)
        self.skip = Conv(self.codec.channels, config.features, 1)
        self.gather = Conv(self.block * self.codec.channels, config.width, 1)
        self.translator = nn.Sequential(*(config.spatial.build(config.width) for _ in range(config.depth)))
        self.spread = Conv(config.width, self.block * config.features, 1)

    def forward(self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: None = None):
        """Loss of whole blocks, metrics "l1", "l2" and "moments" (if it has a weight), state."""
        seen, after = self._seen(clip, state, inputs)
        if state is None:
            seen = seen[:, self.block - 1 :]  # not what the first frame stands for
        num, length = seen.shape[1] - self.block, clip.whole or clip.num_frames
        if num < 1:
            raise ValueError(
                f"a clip of {clip.num_frames} frames: this model is shown {self.block} before it predicts; "
                f"give clips of at least {self.block + 1} frames"
            )
        predicted = self._blocks(seen, range(0, num, self.block)).flatten(1, 2)[:, :num]
        true = true_frames(clip, self.format, self.skip.weight.dtype)[:, clip.num_frames - num :]
        return *self._loss(predicted, true, len(true) * (length - self.block)), after

    def compare(self, predicted: Tensor, clip: Clip) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean loss and metrics of predictions (b, t, c, h, w) of the last t frames of `clip`."""
        true = true_frames(clip, self.format, self.skip.weight.dtype)[:, clip.num_frames - predicted.shape[1] :]
        return self._loss(predicted, true, true.shape[0] * true.shape[1])

    def reconstruct(self, clip: Clip, state: State | None = None, inputs: Tensor | None = None, noise: None = None):
        """Each next frame, the first of the block that follows the true ones before it (or `inputs` in their place)."""
        seen, after = self._seen(clip, state, inputs)
        starts = range(seen.shape[1] - self.block)
        return (self._blocks(seen, starts)[:, :, 0] if starts else seen[:, :0]), after

    def observe(self, clip: Clip, state: State | None = None) -> State:
        """The state after the frames of `clip`; the newest one waits in it."""
        return self._seen(clip, state, None)[1]

    def predict(self, state: State, action: Tensor | None = None, noise: None = None) -> tuple[Tensor, State]:
        """The next frame (b, c, h, w) in [-1, 1]; a new block is predicted when the last one is used up."""
        newest, (before, ahead) = state
        frames = torch.cat([before, newest.unsqueeze(1)], 1)
        if not ahead.shape[1]:
            ahead = self._blocks(frames, range(1))[:, 0]
        frame = ahead[:, 0]
        return frame, (frame, (frames[:, 1:], ahead[:, 1:]))

    def noise_shape(self) -> None:
        """Deterministic: it takes no noise."""

    def _seen(self, clip: Clip, state: State | None, inputs: Tensor | None) -> tuple[Tensor, State]:
        """All frames that predictions of this clip may be made from, oldest first, and the state after them."""
        fed = true_frames(clip, self.format, self.skip.weight.dtype) if inputs is None else inputs
        if state is None:
            earlier = fed[:, :1].expand(-1, self.block - 1, -1, -1, -1)
        else:
            earlier = torch.cat([state[1][0], state[0].unsqueeze(1)], 1)
        seen = torch.cat([earlier, fed], 1)
        return seen, (fed[:, -1], (seen[:, seen.shape[1] - self.block : -1], fed[:, :0]))

    def _blocks(self, frames: Tensor, starts: range) -> Tensor:
        """The blocks that follow the windows of `frames` at `starts`, (b, windows, num_frames, c, h, w)."""
        batch = len(frames)
        latents = self.codec.encode(frames[:, : starts[-1] + self.block])
        windows = torch.stack([latents[:, start : start + self.block] for start in starts], 1).flatten(0, 1)
        hidden = self.spread(self.translator(self.gather(windows.flatten(1, 2))))  # (b windows) (num_frames d) h w
        hidden = hidden.unflatten(1, (self.block, -1)) + self.skip(windows[:, -1]).unsqueeze(1)
        return at_least_float32(self.codec.decode(hidden)).tanh().unflatten(0, (batch, len(starts)))

    def _loss(self, predicted: Tensor, true: Tensor, total: int) -> tuple[Tensor, dict[str, Tensor]]:
        return frame_loss(at_least_float32(predicted), true, total, self.l1_weight, self.moments_weight)
