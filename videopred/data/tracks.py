"""What goes along with the frames of a recording: actions and pose, one for every frame."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from videopred.data.array import Arrays


@dataclass(frozen=True)
class Tracks:
    """`actions` int64 (t,), the one that leads to each frame; `pose` float32 (t, d); with n in front for n clips."""

    actions: np.ndarray | None = None
    pose: np.ndarray | None = None

    def of(self, clip: int, count: int) -> "Tracks":
        """Those of one of `count` clips; what has no axis for clips goes for all of them."""
        actions, pose = self.actions, self.pose
        if actions is not None and actions.ndim == 2 and len(actions) == count:
            actions = actions[clip]
        if pose is not None and pose.ndim == 3 and len(pose) == count:
            pose = pose[clip]
        return Tracks(actions, pose)

    def facts(self, path: Path, length: int) -> dict[str, Any]:
        """As fields of `Facts`. Raises ValueError unless there is one of each for every frame."""
        found: dict[str, Any] = {}
        if self.actions is not None:
            if self.actions.shape != (length,):
                raise ValueError(f"{path}: actions have shape {self.actions.shape}; the clip has {length} frames")
            found |= {"actions": length, "least": int(self.actions.min()), "most": int(self.actions.max())}
        if self.pose is not None:
            if self.pose.ndim != 2 or len(self.pose) != length or not self.pose.size:
                raise ValueError(f"{path}: pose has shape {self.pose.shape}; must be ({length}, d)")
            found["pose"] = self.pose.shape[1]
        return found

    def at(self, steps: np.ndarray) -> "Tracks":
        return Tracks(*(None if track is None else track[steps] for track in (self.actions, self.pose)))


def tracks(file: Arrays) -> Tracks:
    """Those of an open .npz. Raises ValueError if they are of a wrong kind."""
    return Tracks(file.actions(), file.pose())
