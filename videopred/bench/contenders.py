"""What is compared with ConvS5: the same predictor of the same small videos, with another memory in it.

All have the same codec (8x8 latents of 32x32 frames), width and depth. Convolutional ones are followed by the same
spatial block, but for ConvLSTM, which in the ConvS5 paper has none; it is also there in the width that gives its stack
as many parameters as that of ConvS5. Transformers see 16 tokens a frame (patches of 2x2 latents) and `WINDOW` frames:

    transformer                  with a cache of keys and values
    transformer, re-encoding     without: its window anew for each frame, as the ConvS5 paper samples from its baseline
"""

from dataclasses import replace

from videopred.clip import Format
from videopred.codecs.resnet import ResNetCodecConfig
from videopred.dynamics.convlstm import ConvLSTMConfig
from videopred.dynamics.convs5 import ConvS5Config
from videopred.dynamics.gated import GatedConfig
from videopred.dynamics.paper_transformer import PaperTransformerConfig
from videopred.dynamics.s5 import S5Config
from videopred.dynamics.transformer import TransformerConfig
from videopred.predictors.pixel import PixelConfig, PixelPredictor
from videopred.predictors.stack import Stack, StackConfig
from videopred.spatial.identity import IdentityConfig
from videopred.spatial.resnet import ResNetConfig

FORMAT = Format(channels=1, height=32, width=32)
CODEC = ResNetCodecConfig(encoder_widths=(32,), decoder_widths=(32,), num_groups=8, patch=4)
WIDTH, DEPTH, WINDOW = 64, 2, 1024
BASE, RE_ENCODING = "convs5", "transformer, re-encoding"


def stacks() -> dict[str, StackConfig]:
    """The stack of each contender, by its name."""
    base = StackConfig(
        width=WIDTH, depth=DEPTH, dynamics=ConvS5Config(num_states=WIDTH), spatial=ResNetConfig(num_groups=8)
    )
    lstm = replace(base, dynamics=ConvLSTMConfig(), spatial=IdentityConfig())
    paper = PaperTransformerConfig(
        token_width=WIDTH, mlp_width=4 * WIDTH, num_heads=4, depth=DEPTH, window=WINDOW, patch=2, grid=(4, 4)
    )
    return {
        BASE: base,
        "convlstm": lstm,
        "convlstm, equal parameters": replace(lstm, width=_as_large(base, lstm)),
        "gated": replace(base, dynamics=GatedConfig(num_states=WIDTH)),
        "s5": replace(base, dynamics=S5Config(grid=(8, 8), num_states=WIDTH)),
        "transformer": replace(base, dynamics=TransformerConfig(window=WINDOW, patch=2)),
        RE_ENCODING: replace(base, depth=1, dynamics=paper, spatial=IdentityConfig()),
    }


def build(stack: StackConfig) -> PixelPredictor:
    return PixelConfig(codec=CODEC, stack=stack).build(FORMAT)


def size(stack: Stack) -> int:
    return sum(p.numel() for p in stack.parameters())


def _as_large(base: StackConfig, other: StackConfig) -> int:
    """The width that brings the stack `other` nearest to the size of `base`."""
    wanted = size(base.build())
    return min(range(1, base.width + 1), key=lambda width: abs(size(replace(other, width=width).build()) - wanted))
