"""Predictions that need no model. Every table has them: a model that does not beat them has learned nothing.

    copy-last-frame  the last true frame, for ever
    mean-of-context  the mean over the clip's own context, for ever
    blank            black
    mean-image       the mean over training frames, the best constant guess in squared error

Each takes the true clips of a batch as they are scored (uint8 (b, context + horizon, h, w, c)) and gives uint8 frames
(b, horizon, h, w, c), which went to uint8 the way the protocol says, as a model's frames do.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from videopred.clip import to_float, to_uint8
from videopred.evaluation.protocol import Protocol

Trivial = Callable[[Tensor], Tensor]

MEAN_CLIPS, MEAN_FRAMES = 512, 64  # the mean image is taken over the first so many training clips, so long each


def copy_last_frame(protocol: Protocol) -> Trivial:
    context = protocol.context
    return lambda clips: clips[:, context - 1 : context].expand(-1, protocol.horizon, -1, -1, -1)


def mean_of_context(protocol: Protocol) -> Trivial:
    def predict(clips: Tensor) -> Tensor:
        total = torch.zeros_like(clips[:, 0], dtype=torch.float64)
        for t in range(protocol.context):  # frame by frame: as floats, all at once would be large
            total += clips[:, t]
        mean = total.div(127.5 * protocol.context).sub(1).movedim(-1, -3)  # (b, c, h, w) in [-1, 1]
        return to_uint8(mean, protocol.quantise)[:, None].expand(-1, protocol.horizon, -1, -1, -1)

    return predict


def blank(protocol: Protocol) -> Trivial:
    return lambda clips: torch.zeros_like(clips[:, protocol.context :])


def mean_image(protocol: Protocol) -> Trivial:
    """Raises ValueError or OSError where the recipe has no training clips."""
    dataset = protocol.recipe.build("train", min(protocol.frames, MEAN_FRAMES))
    num_clips = min(len(dataset), MEAN_CLIPS)
    form = protocol.recipe.format
    total = torch.zeros(form.channels, form.height, form.width, dtype=torch.float64)
    for i in range(num_clips):
        total += to_float(protocol.truth(dataset[i]), torch.float64).mean(0)
    image = to_uint8(total / num_clips, protocol.quantise)  # (h, w, c)
    return lambda clips: image.to(clips.device).expand(len(clips), protocol.horizon, -1, -1, -1)


TRIVIAL: dict[str, Callable[[Protocol], Trivial]] = {
    "copy-last-frame": copy_last_frame,
    "mean-of-context": mean_of_context,
    "blank": blank,
    "mean-image": mean_image,
}
