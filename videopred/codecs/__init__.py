"""Codecs: frames <-> latents.

    encode(frames: (b, t, c, h, w)) -> latents (b, t, d, h / stride, w / stride)
    decode(latents: (b, t, d', h', w'), extra=None) -> (b, t, outputs, h, w), not squashed

with `.channels` (d) and `.stride`. A frame is coded by itself; `extra` is concatenated to the latents on channels.
The config knows its `stride`; `build(channels, features, outputs, height, width)` is told the frames, how many channels
(d', with any extra) `decode` will be given and how many it must return.

A tokenizer is a codec with a finite set of latents, its codes. It is trained by itself, frozen where a predictor uses
it (`videopred.tokenizer.load`), and adds
    tokenize(frames) -> ids int64 (b, t, h / stride, w / stride) in 0..num_codes - 1
    embed(ids) -> latents (b, t, d, h / stride, w / stride)
with `.num_codes`. Its latents are codes: `encode(frames)` is `embed(tokenize(frames))` (in training, differentiable),
and `decode` takes d channels and gives frames in its own; so `build(channels, height, width)` is told the frames alone.

To add one: a file with a frozen config dataclass (`kind`, fields, `build`) above the module, and its config in one of
the unions below. `tests/codecs/` then tests it like every other.
"""

from videopred.codecs.resnet import ResNetCodecConfig
from videopred.codecs.staged import StagedCodecConfig
from videopred.codecs.vqgan import VQGANConfig

Codec = ResNetCodecConfig | StagedCodecConfig
Tokenizer = VQGANConfig
