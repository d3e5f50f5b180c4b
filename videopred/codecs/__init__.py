"""Codecs: frames <-> latents.

    encode(frames: (b, t, c, h, w)) -> latents (b, t, d, h / stride, w / stride)
    decode(latents: (b, t, d', h', w'), extra=None) -> (b, t, outputs, h, w), not squashed

with `.channels` (d) and `.stride`. A frame is coded by itself; `extra` is concatenated to the latents on channels.
The config knows its `stride`; `build(channels, features, outputs, height, width)` is told the frames, how many channels
(d', with any extra) `decode` will be given and how many it must return.

To add one: a file with a frozen config dataclass (`kind`, fields, `build`) above the module, and its config in the
union below. `tests/codecs/test_contract.py` then tests it like every other.
"""

from videopred.codecs.resnet import ResNetCodecConfig
from videopred.codecs.staged import StagedCodecConfig

Codec = ResNetCodecConfig | StagedCodecConfig
