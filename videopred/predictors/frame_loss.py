"""True frames of a clip, checked, and the loss of predicted ones: L1, L2, moments and SSIM."""

import torch
from torch import Tensor

from videopred.clip import Clip, Format
from videopred.metrics.ssim import similarity


def true_frames(clip: Clip, format: Format, dtype: torch.dtype) -> Tensor:
    """(b, t, c, h, w) in [-1, 1]. Raises ValueError where they are not of this format."""
    frames = clip.pixels(dtype)
    wanted = (format.channels, format.height, format.width)
    if frames.shape[2:] != wanted:
        raise ValueError(
            f"frames of (channels, height, width) {tuple(frames.shape[2:])}: this model takes {wanted}; "
            f"use a recipe of that format"
        )
    return frames


def frame_loss(
    predicted: Tensor, true: Tensor, total: int, l1_weight: float, moments_weight: float, ssim_weight: float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and metrics of frames (b, t, c, h, w), each a sum over frames divided by `total`.

    The loss is w L1 + (1 - w) L2 + v moments + u (1 - SSIM), with w `l1_weight`, v `moments_weight`, u `ssim_weight`.
    Metrics are "l1", "l2" and, if they have a weight, "moments": the squared relative error of each frame's mean
    intensity and mean squared intensity; and "ssim", over every second place of its window in both directions.
    """
    l1, l2 = (size(predicted - true).mean((-3, -2, -1)).sum() / total for size in (torch.abs, torch.square))
    loss, metrics = l1_weight * l1 + (1 - l1_weight) * l2, {"l1": l1.detach(), "l2": l2.detach()}
    if moments_weight:
        moments = (_moments(predicted) / _moments(true) - 1).square().sum() / total
        loss, metrics["moments"] = loss + moments_weight * moments, moments.detach()
    if ssim_weight:
        x, y = (frames.flatten(0, 1).add(1).div(2) for frames in (predicted, true))
        ssim = similarity(x, y.to(x.dtype), stride=2).sum() / total
        share = predicted.shape[0] * predicted.shape[1] / total  # of 1, so that a perfect clip costs nothing
        loss, metrics["ssim"] = loss + ssim_weight * (share - ssim), ssim.detach()
    return loss, metrics


def _moments(frames: Tensor) -> Tensor:
    """Mean intensity in 0..1 and its mean square over the pixels of each frame, (b, t, 2); a black frame has 1e-4."""
    intensity = frames.add(1).div(2)
    return torch.stack([intensity.mean((-3, -2, -1)), intensity.square().mean((-3, -2, -1))], -1) + 1e-4
