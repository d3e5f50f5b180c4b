"""One recording that somebody has, as a dataset: what `--clip` takes."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

from videopred.clip import Clip, Format
from videopred.data import array, recording
from videopred.data.fit import fit


class ClipFile:
    """The clips of a file of arrays, a video, or a folder of pictures, each at most `frames` long, in their own size.

    `fps` is the video's, or None. Ids are the file's name and "/0", "/1". Colours become what the format says. Raises
    ValueError that names the file if it is missing, empty, damaged or of another size than `format`.
    """

    def __init__(self, path: Path, format: Format, frames: int):
        recording.require(path)
        self.path, self.format, self.frames = path, format, frames
        self.fps: Fraction | None
        self.count, self.fps = recording.glance(path)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Clip:
        if not 0 <= index < self.count:
            raise IndexError(f"clip {index}: {self.path} has clips 0..{self.count - 1}")
        frames = np.concatenate([self._frames(block) for block in recording.first(self.path, index, self.frames)])
        tracks = recording.read_tracks(self.path, index, self.count)
        actions = tracks.actions
        wrong = tracks.unfit
        if actions is not None and (actions.ndim != 1 or len(actions) < len(frames)):
            wrong, actions = f"actions have shape {actions.shape}; the clip has {len(frames)} frames", None
        if wrong and self.format.num_actions:  # another model does not ask for them
            raise ValueError(f"{self.path}: {wrong}")
        return Clip(
            frames=torch.from_numpy(frames),
            actions=None if actions is None else torch.from_numpy(actions[: len(frames)]),
            id=f"{self.path.name}/{index}",
        )

    def _frames(self, block: np.ndarray) -> np.ndarray:
        size, wanted = block.shape[1:3], (self.format.height, self.format.width)
        if size != wanted:
            has, takes = (" x ".join(map(str, shape)) for shape in (size, wanted))
            raise ValueError(f"{self.path}: is {has}, the model takes {takes}; resize it, or choose another model")
        return fit(array.uint8(self.path, block, "frames"), *wanted, self.format.channels)
