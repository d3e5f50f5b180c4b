"""Frames of any size and colours as a recipe wants them."""

import numpy as np
from PIL import Image

LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)  # BT.709


def fit(frames: np.ndarray, height: int, width: int, channels: int) -> np.ndarray:
    """uint8 (n, h, w, 1, 3 or 4) -> (n, height, width, channels), 1 or 3 of them.

    The largest part in the middle that has the wanted proportions is resized: area mean, bilinear if it becomes larger.
    It starts at a whole pixel, so that a pure crop changes no value.
    A fourth channel is opacity, over black. What has the wanted size and channels comes back untouched.
    """
    if frames.shape[3] == 4:
        frames = opaque(frames)
    if channels == 1 and frames.shape[3] == 3:
        frames = gray(frames)
    if frames.shape[1:3] != (height, width):
        frames = np.stack([_resized(frame, height, width) for frame in frames])
    return frames.repeat(3, 3) if channels == 3 and frames.shape[3] == 1 else frames


def gray(frames: np.ndarray) -> np.ndarray:
    """uint8 (..., 3) -> (..., 1), the luma."""
    return np.rint(frames @ LUMA).astype(np.uint8)[..., None]


def opaque(frames: np.ndarray) -> np.ndarray:
    """uint8 (..., 4) -> (..., 3), over black."""
    return np.rint(frames[..., :3] * (frames[..., 3:] / np.float32(255))).astype(np.uint8)


def _resized(frame: np.ndarray, height: int, width: int) -> np.ndarray:
    """(h, w, 1 or 3) -> (height, width, 1 or 3)."""
    scale = min(frame.shape[0] / height, frame.shape[1] / width)  # of the source's pixels to one of ours
    down, across = height * scale, width * scale
    top, left = (frame.shape[0] - down) // 2, (frame.shape[1] - across) // 2
    picture = Image.fromarray(frame[..., 0] if frame.shape[2] == 1 else frame)
    method = Image.Resampling.BOX if scale > 1 else Image.Resampling.BILINEAR
    return np.asarray(picture.resize((width, height), method, (left, top, left + across, top + down))).reshape(
        height, width, frame.shape[2]
    )
