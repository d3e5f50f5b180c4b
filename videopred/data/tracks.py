"""What goes along with the frames of a recording: actions and pose, one for every frame."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from videopred.data.array import Arrays, Unfit
from videopred.data.facts import Facts


@dataclass(frozen=True)
class Tracks:
    """`actions` int64 (t,), the one that leads to each frame; `pose` float32 (t, d); with n in front for n clips.

    `unfit` says why there are actions that no recipe can name; `actions` is then None.
    """

    actions: np.ndarray | None = None
    pose: np.ndarray | None = None
    unfit: str = ""

    def of(self, clip: int, count: int) -> "Tracks":
        """Those of one of `count` clips; what has no axis for clips goes for all of them."""
        actions, pose = self.actions, self.pose
        if actions is not None and actions.ndim == 2 and len(actions) == count:
            actions = actions[clip]
        if pose is not None and pose.ndim == 3 and len(pose) == count:
            pose = pose[clip]
        return Tracks(actions, pose, self.unfit)

    def facts(self, path: Path, length: int) -> dict[str, Any]:
        """As fields of `Facts`. Raises ValueError unless there is a pose for every frame, or none."""
        found: dict[str, Any] = {"unfit": self.unfit}
        if self.actions is not None and self.actions.shape != (length,):
            found["unfit"] = f"actions have shape {self.actions.shape}; the clip has {length} frames"
        elif self.actions is not None:
            found |= {"actions": length, "least": int(self.actions.min()), "most": int(self.actions.max())}
        if self.pose is not None:
            if self.pose.ndim != 2 or len(self.pose) != length or not self.pose.size:
                raise ValueError(f"{path}: pose has shape {self.pose.shape}; must be ({length}, d)")
            found["pose"] = self.pose.shape[1]
        return found

    def agree(self, path: Path, known: Facts) -> bool:
        """Whether they are what is known of them. Raises ValueError as `facts` does."""
        found = {"actions": None, "least": 0, "most": 0, "pose": 0} | self.facts(path, known.length)
        return all(getattr(known, name) == value for name, value in found.items())

    def at(self, steps: np.ndarray) -> "Tracks":
        actions, pose = (None if track is None else track[steps] for track in (self.actions, self.pose))
        return Tracks(actions, pose, self.unfit)


def tracks(file: Arrays) -> Tracks:
    """Those of an open .npz. Raises ValueError if its pose is of a wrong kind."""
    try:
        return Tracks(file.actions(), file.pose())
    except Unfit as error:  # of many floating values for each frame, for example, as robots have
        return Tracks(None, file.pose(), str(error))
