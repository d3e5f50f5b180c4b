"""A frozen VQ codec, what token predictors stand on: frames as tokens and back, and how a frame's tokens are scored.

The codec was trained by itself and is not trained here. Its weights are buffers of the predictor, so that they travel
in the predictor's own weights file, no optimiser sees them, and a checkpoint needs no other. Where they came from and
the hash of that file stand in its configuration; training puts them in when it begins.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from videopred.clip import Clip, Format
from videopred.codecs import Tokenizer
from videopred.codecs.vqgan import VQGANConfig
from videopred.predictors.frame_loss import true_frames

AT_ONCE = 64  # frames that are coded together


@dataclass(frozen=True)
class FrozenConfig:
    """`checkpoint` is where the trained codec lies, a run folder or the name of a shipped one; `codec` is its shape.

    `hash`, SHA-256 of its weights file, is filled in when training begins; tokens of another codec are refused by it.
    """

    checkpoint: str = ""
    codec: Tokenizer = field(default_factory=VQGANConfig)
    hash: str = ""

    def build(self, format: Format) -> "Frozen":
        return Frozen(format, self)


class Frozen(nn.Module):
    """Frames (b, t, c, h, w) in [-1, 1] <-> tokens int64 (b, t, h', w'), `grid` is (h', w')."""

    anchor: Tensor

    def __init__(self, format: Format, config: FrozenConfig):
        super().__init__()
        self.format, self.stride = format, config.codec.stride
        self.grid = format.height // self.stride, format.width // self.stride
        self.codec = config.codec.build(format.channels, format.height, format.width)
        self.channels, self.num_codes = self.codec.channels, self.codec.num_codes
        for module in self.codec.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter is not None:
                    del module._parameters[name]
                    module.register_buffer(name, parameter.detach())
        self.register_buffer("anchor", torch.zeros(()), persistent=False)  # the dtype that frames are coded in

    def tokens(self, clip: Clip) -> Tensor:
        """Of a clip's frames, or those that it holds in place of frames. Raises ValueError where they do not fit."""
        if clip.tokens is None:
            return self.tokenize(true_frames(clip, self.format, self.anchor.dtype))
        tokens = clip.tokens.long()
        if tuple(tokens.shape[2:]) != self.grid:
            raise ValueError(f"tokens of a grid of {tuple(tokens.shape[2:])}: this model's codec gives {self.grid}")
        if tokens.device.type == "cpu" and not torch.compiler.is_compiling():  # looking would make a GPU wait
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= self.num_codes:
                raise ValueError(f"tokens lie in {low}..{high}: this model's codec has 0..{self.num_codes - 1}")
        return tokens

    @torch.no_grad()
    def tokenize(self, frames: Tensor) -> Tensor:
        """In the weights' own precision whatever the autocast, so that frames encoded once and anew give one token.

        But for two codes that are equally near up to rounding: another device adds in another order, and so may a CPU
        for a frame by itself.
        """
        with torch.autocast(frames.device.type, enabled=False):
            parts = [self.codec.tokenize(part[None])[0] for part in frames.flatten(0, 1).split(AT_ONCE)]
        return torch.cat(parts).unflatten(0, frames.shape[:2])

    def embed(self, tokens: Tensor) -> Tensor:
        """Vectors of tokens (b, t, h', w'), (b, t, channels, h', w')."""
        return self.codec.embed(tokens)

    def decode(self, tokens: Tensor) -> Tensor:
        """Frames of tokens, (b, t, c, h, w) in [-1, 1]."""
        if not tokens.shape[1]:
            return self.anchor.new_zeros(*tokens.shape[:2], self.format.channels, self.format.height, self.format.width)
        parts = tokens.flatten(0, 1).split(AT_ONCE)
        frames = torch.cat([self.codec.decode(self.embed(part[None]))[0] for part in parts])
        return frames.clamp(-1, 1).unflatten(0, tokens.shape[:2])
