"""The one range contract of all metrics, and the one loop over frames that are compared pixel by pixel.

Frames are uint8, or floating in [0, 1]; nothing is guessed from the data.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# Values at a time. On a CPU half a MiB of float64, so that its cache holds what is being worked on.
CHUNK, DEVICE_CHUNK = 2**16, 2**22


def per_frame(measure: Callable[[Tensor, Tensor], Tensor], predicted: Tensor, target: Tensor) -> Tensor:
    """`measure` of all frames of two batches (b, t, h, w, c), a few frames at a time: (..., b, t).

    `measure` maps two stacks of frames (n, h, w, c), float64 in [0, 1], to (..., n). A stack never spans two clips, so
    that a number does not depend on the batch, to the last bit. Raises ValueError for frames outside the contract.
    """
    require_pair(predicted, target)
    for frames, what in ((predicted, "predicted"), (target, "target")):
        require_range(frames, what)
    b, t, h, w, c = predicted.shape
    size = max(1, (CHUNK if predicted.device.type == "cpu" else DEVICE_CHUNK) // (h * w * c))
    pieces = [zip(x.split(size), y.split(size), strict=True) for x, y in zip(predicted, target, strict=True)]
    values = [measure(_unit(x), _unit(y)) for clip in pieces for x, y in clip]
    return torch.cat(values, -1).unflatten(-1, (b, t))


def network_distance(network: Callable[[Tensor, Tensor], Tensor], predicted: Tensor, target: Tensor) -> Tensor:
    """`per_frame` of a network of frames (n, 3, h, w) in [-1, 1], gray ones repeated: (b, t). No gradient."""

    def measure(x: Tensor, y: Tensor) -> Tensor:
        x, y = (frames.movedim(-1, 1).float().expand(-1, 3, -1, -1).mul(2).sub(1) for frames in (x, y))
        return network(x, y).flatten().double()

    with torch.no_grad(), torch.backends.cudnn.flags(deterministic=True, allow_tf32=False):
        return per_frame(measure, predicted, target)


def require_pair(predicted: Tensor, target: Tensor) -> None:
    """Raises ValueError unless both are (b, t, h, w, c) of the same shape, and not empty."""
    if predicted.shape != target.shape:
        raise ValueError(f"predicted {tuple(predicted.shape)} and target {tuple(target.shape)} must have equal shapes")
    if predicted.dim() != 5:
        raise ValueError(f"frames must be (b, t, h, w, c), got {predicted.dim()} axes: {tuple(predicted.shape)}")
    if not predicted.numel():
        raise ValueError(f"there are no frames to compare: {tuple(predicted.shape)}")


def require_range(frames: Tensor, what: str) -> None:
    """Raises ValueError unless frames are uint8, or floating in [0, 1]."""
    if frames.dtype == torch.uint8:
        return
    if not frames.is_floating_point():
        raise ValueError(f"{what} frames are {frames.dtype}: must be uint8, or floating in [0, 1]")
    low, high = (float(x) for x in frames.aminmax())
    if not (low >= 0 and high <= 1):  # NaN fails both
        raise ValueError(f"{what} frames range over [{low:g}, {high:g}]: must be uint8, or floating in [0, 1]")


def _unit(frames: Tensor) -> Tensor:
    return frames.double().div_(255) if frames.dtype == torch.uint8 else frames.double()
