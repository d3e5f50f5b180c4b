"""Clip, what everything passes around, and the only place where uint8 frames and [-1, 1] meet.

Data sets give clips as they lie on disk: uint8 frames `t h w c`. A batch is the same with `b` in front, uint8 until it
is on the device. Models see `b t c h w` in [-1, 1]; the permute that leads there *is* channels-last memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Quantise = Literal["round", "truncate"]


@dataclass(frozen=True)
class Format:
    """What clips of a recipe look like: channels (1 or 3), height and width in pixels, number of actions (0: none).

    Of clips that hold tokens `codec` is the hash of the codec that reads them, and the rest tells of the frames.
    """

    channels: int
    height: int
    width: int
    num_actions: int = 0
    codec: str = ""


@dataclass(frozen=True)
class Clip:
    """One clip, or a batch of clips when every tensor has a leading b axis (then `id` and `start` are tuples).

    frames  : uint8 (t, h, w, c) as stored, or floating (b, t, c, h, w) in [-1, 1] as models see them
    tokens  : integer (t, h', w') in place of frames, for encoded recipes
    actions : int64 (t,); the action stored with frame t leads to frame t; -1 is "masked"
    pose    : float (t, d), for recorders that know it
    id      : name that is unique in its split, `start` the index of the first frame in the recording
    whole   : frames of the clip this one was cut from by `chunks`; None if it was not cut
    """

    frames: Tensor | None = None
    tokens: Tensor | None = None
    actions: Tensor | None = None
    pose: Tensor | None = None
    id: str | tuple[str, ...] = ""
    start: int | tuple[int, ...] = 0
    whole: int | None = None

    @property
    def content(self) -> Tensor:
        """Frames, or tokens where there are no frames."""
        content = self.frames if self.frames is not None else self.tokens
        assert content is not None, "a clip has frames or tokens"
        return content

    @property
    def num_frames(self) -> int:
        """Length in time; of a batch, where time is the second axis."""
        batched = self.content.dim() == (5 if self.frames is not None else 4)
        return self.content.shape[1 if batched else 0]

    def pixels(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Frames of a batch as models see them: (b, t, c, h, w) in [-1, 1], channels-last in memory."""
        if self.frames is None:
            raise ValueError("this clip holds tokens, not frames; give a pixel model a recipe that is not encoded")
        return to_float(self.frames, dtype) if self.frames.dtype == torch.uint8 else self.frames.to(dtype)

    def to(self, device: torch.device | str) -> "Clip":
        return self._map(lambda x: x.to(device, non_blocking=True))

    def slice(self, start: int, stop: int) -> "Clip":
        """Frames start..stop-1 of a batch, with their actions and pose."""
        return self._map(lambda x: x[:, start:stop])

    def chunks(self, size: int) -> Iterator["Clip"]:
        """A batch cut along time into chunks of `size` frames (the last may be shorter) that know the whole length."""
        total = self.num_frames
        for start in range(0, total, size):
            yield replace(self.slice(start, start + size), whole=total)

    def _map(self, function) -> "Clip":
        parts = {name: getattr(self, name) for name in ("frames", "tokens", "actions", "pose")}
        return replace(self, **{name: function(x) for name, x in parts.items() if x is not None})


def stack(clips: Sequence[Clip]) -> Clip:
    """A batch from clips of equal length and size. Raises ValueError if they differ."""
    parts = {}
    for name in ("frames", "tokens", "actions", "pose"):
        given = [getattr(clip, name) for clip in clips if getattr(clip, name) is not None]
        if given and (len(given) < len(clips) or len({x.shape for x in given}) > 1):
            shapes = sorted(
                {f"{clip.id}: {None if x is None else tuple(x.shape)}" for clip in clips for x in [getattr(clip, name)]}
            )[:4]
            raise ValueError(f"clips of one batch must have equal {name}; got {'; '.join(shapes)}")
        if given:
            parts[name] = torch.stack(given)
    return Clip(**parts, id=tuple(str(clip.id) for clip in clips), start=tuple(clip.start for clip in clips))  # type: ignore[misc]


def to_float(frames: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 (..., h, w, c) -> (..., c, h, w) in [-1, 1]: 2 v / 255 - 1. The memory is not moved."""
    return frames.movedim(-1, -3).to(dtype).div(255).mul(2).sub(1)


def to_uint8(frames: Tensor, quantise: Quantise = "round") -> Tensor:
    """(..., c, h, w) in [-1, 1] -> uint8 (..., h, w, c); values outside are clipped.

    `truncate` is what the papers' code does (63 of 256 grey levels come back one too low); `round` is ours.
    """
    scaled = frames.detach().float().clamp(-1, 1).mul(0.5).add(0.5).mul(255)
    # float32 brings 2 v / 255 - 1 back to v within 1e-5, so that rounding is exact and truncation may fall to v - 1
    return (scaled.round() if quantise == "round" else scaled).to(torch.uint8).movedim(-3, -1)
