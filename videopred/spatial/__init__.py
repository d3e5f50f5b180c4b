"""Spatial blocks: mixing within a frame.

A member maps feature maps (n, c, h, w) to the same shape, one frame at a time: frame i of the output depends on frame i
of the input alone, and any height and width is taken. It knows nothing of time.
`no_decay()` and `learning_rates()` (optional) say of its parameters which weight decay must leave alone, and which
learn at a multiple of the learning rate; they stand in the module that defines the parameters.

To add one: a file with a frozen config dataclass (`kind`, fields, `build(width)`) above the module, and its config in
the union below. `tests/spatial/test_contract.py` then tests it like every other.
"""

from videopred.spatial.attention import AttentionConfig
from videopred.spatial.convnext import ConvNeXtConfig
from videopred.spatial.efficientmod import EfficientModConfig
from videopred.spatial.glu import GLUConfig
from videopred.spatial.half_glu import HalfGLUConfig
from videopred.spatial.identity import IdentityConfig
from videopred.spatial.resnet import ResNetConfig
from videopred.spatial.ssm2d import SSM2DConfig
from videopred.spatial.standard import StandardConfig

Spatial = (
    ResNetConfig
    | StandardConfig
    | GLUConfig
    | HalfGLUConfig
    | ConvNeXtConfig
    | SSM2DConfig
    | EfficientModConfig
    | AttentionConfig
    | IdentityConfig
)
