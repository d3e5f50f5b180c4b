"""Dynamics: memory over time.

A member maps a sequence of feature maps to another of the same shape and carries a state:

    forward(x: (b, t, c, h, w), state=None) -> (y: (b, t, c, h, w), state)

- `state=None` is the start of a clip. The state is a (nested) tuple of batch-first tensors or one such tensor: float32
  sums, int64 counts. `forward` never changes the state it is given. Exempt, for reasons that stand in their modules:
  the state of `paper_transformer` grows up to a limit (all others have constant size), and the cache of `transformer`
  keeps the precision it was computed in.
- Whole clip = any chunks = frame by frame, with the state carried; y_t depends on x_1..x_t of the same clip only.
- `no_decay()` (optional) lists the parameters that weight decay must leave alone: here all of A, B, C and the step.

To add one: a file with a frozen config dataclass (`kind`, fields, `build(width)`) above the module, and its config in
the union below. `tests/dynamics/test_contract.py` then tests it like every other.
"""

from videopred.dynamics.convgru import ConvGRUConfig
from videopred.dynamics.convlstm import ConvLSTMConfig
from videopred.dynamics.convs4 import ConvS4Config
from videopred.dynamics.convs5 import ConvS5Config
from videopred.dynamics.gated import GatedConfig
from videopred.dynamics.linear_attention import LinearAttentionConfig, PerformerConfig
from videopred.dynamics.paper_transformer import PaperTransformerConfig
from videopred.dynamics.s5 import S5Config
from videopred.dynamics.transformer import TransformerConfig

Dynamics = (
    ConvS5Config
    | S5Config
    | ConvS4Config
    | GatedConfig
    | ConvLSTMConfig
    | ConvGRUConfig
    | TransformerConfig
    | PaperTransformerConfig
    | LinearAttentionConfig
    | PerformerConfig
)
