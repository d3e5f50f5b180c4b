"""Predictors: what is trained, rolled out and evaluated.

    forward(clip, state=None, inputs=None, noise=None) -> (loss, metrics, state)
    reconstruct(clip, state=None, inputs=None, noise=None) -> (frames (b, t', c, h, w) in [-1, 1], state)
    observe(clip, state=None) -> state
    predict(state, action=None, noise=None) -> (frame (b, c, h, w) in [-1, 1], state)
    noise_shape() -> shape of the noise for one frame of one clip, or None if there is no randomness

- `clip` is a batch on the model's device. The newest frame waits in the state: `observe` consumes all but the newest
  frame, `predict` takes the action that leads to the frame it returns, and a chunk given with a state predicts every
  one of its frames (t' = t), the first chunk all but the first (t' = t - 1).
- The loss of a chunk is its sum over the count of the whole clip (`clip.whole`), so that the losses of all chunks of a
  clip add up to the loss of the whole.
- `inputs` (b, t, c, h, w) are fed in place of the true frames; the targets stay true.
- Nothing here draws random numbers: `noise` is handed in.
- `block` (optional) is how many frames one pass predicts, where that is more than one; `predict` still gives one.
- A member that cannot keep one of these rules says which and why in its docstring, and the contract test by name.

To add one: a file with a frozen config dataclass (`kind`, fields, `build(format)`) above the module, and its config in
the union below. `tests/predictors/test_contract.py` then tests it like every other.
"""

from videopred.predictors.pixel import PixelConfig
from videopred.predictors.simvp import SimVPConfig
from videopred.predictors.teco import TecoConfig
from videopred.predictors.token import TokenConfig

Predictor = PixelConfig | SimVPConfig | TokenConfig | TecoConfig
