"""Clips from anywhere: a folder of .npz or .npy files, of videos, or of folders of pictures, with or without actions.

`root` may hold train/ and test/, as TECO's data sets do (<root>/{train,test}/<k>/*.npz or *.mp4 with .npz beside them);
these are then the splits. If not, a recording is in test if the hash of its path below root says so: the same ones on
every machine, about `test_share` of them. A recording (recording.py says what can be one) is a clip of any length; it
gives the first `frames` of its frames, or, in training, a window that is drawn anew for each epoch, from any frame on.
"""

import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from videopred.clip import Clip, Format
from videopred.config import at_least, at_most
from videopred.data import recording
from videopred.data.facts import Facts, changed
from videopred.data.fit import fit
from videopred.data.index import Index, open_index
from videopred.data.selection import Selection, select
from videopred.data.split import SPLITS, NoClips, Split, require_index, require_request
from videopred.data.tracks import Tracks

Pool = Literal["", "last", "stack"]
MOST_SIZE, MOST_STRIDE, MOST_FPS, MOST_JOINT = 8192, 10**6, 1000, 4096


@dataclass(frozen=True)
class ClipsConfig:
    """
    root            : a folder; where it is relative, below the current one
    image_size      : (height, width), or one number for both; frames of other sizes are resized and cropped
    channels        : 3 (RGB) or 1 (gray)
    actions         : the names of the actions 0, 1, ...; none: actions in files are not read
    missing_actions : "refuse" recordings without actions, or take "zeros" for them, as TECO's code does
    stride          : every so many frames one is taken
    fps             : frames per second that are taken, by the times in the file; 0: every frame
    action_pool     : where frames are left out, "last": the action that leads to a frame that is taken; "stack": the
                      actions since the one taken before, together one of len(actions) ** stride
    float_range     : of floating arrays, "0..1" or "0..255"; "": they are refused
    broken          : "refuse" to build with recordings that cannot be used, or "skip" them and say so
    test_share      : about so many of the recordings are in test, where there are no folders train/ and test/
    seed            : of the windows that are drawn
    """

    root: str
    image_size: int | tuple[int, int]
    kind: Literal["clips"] = "clips"
    name: str = ""
    channels: Literal[1, 3] = 3
    actions: tuple[str, ...] = ()
    missing_actions: Literal["refuse", "zeros"] = "refuse"
    stride: int = 1
    fps: float = 0.0
    action_pool: Pool = ""
    float_range: Literal["", "0..1", "0..255"] = ""
    broken: Literal["refuse", "skip"] = "refuse"
    test_share: float = 0.1
    seed: int = 0

    def __post_init__(self):
        at_least(self, image_size=1, stride=1, fps=0, seed=0)
        at_most(self, image_size=MOST_SIZE, stride=MOST_STRIDE, fps=MOST_FPS)
        if not self.root:
            raise ValueError("root = '': must be a folder; '.' is the current one")
        if not 0 <= self.test_share <= 1:
            raise ValueError(f"test_share = {self.test_share}: must be in 0..1")
        if len(set(self.actions)) < len(self.actions):
            raise ValueError(f"actions = {list(self.actions)}: two have the same name")
        if self.actions and self.stride > 1 and not self.action_pool:
            raise ValueError(
                f"stride = {self.stride}: with actions, say what becomes of those of the frames left out: "
                'action_pool = "last" or "stack"'
            )
        if self.action_pool and not (self.actions and (self.stride > 1 or self.fps)):
            raise ValueError(f"action_pool = {self.action_pool!r}: is for actions where a stride or fps skips frames")
        if self.action_pool == "stack" and max(2, len(self.actions)) ** min(self.stride, 99) > MOST_JOINT:
            raise ValueError(
                f'action_pool = "stack": {len(self.actions)} actions and stride = {self.stride} make more than '
                f'{MOST_JOINT} joint actions; lower the stride, or use "last"'
            )
        if self.action_pool == "stack" and self.fps:
            raise ValueError(
                'action_pool = "stack": needs a fixed number of frames; give a stride in place of fps, or use "last"'
            )

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size

    @property
    def action_names(self) -> tuple[str, ...]:
        """Of all actions that a clip may hold; joint ones have their parts' names, the first in time first."""
        parts = product(self.actions, repeat=self.stride if self.action_pool == "stack" else 1)
        return tuple("+".join(names) for names in parts) if self.actions else ()

    @property
    def format(self) -> Format:
        power = self.stride if self.action_pool == "stack" else 1
        return Format(self.channels, *self.size, len(self.actions) ** power if self.actions else 0)

    def build(self, split: Split, frames: int) -> "Clips":
        require_request(split, frames)
        clips = Clips(self, split, frames)
        for reason in clips.recordings.broken:
            tell(f"skipped: {reason}")
        return clips

    def recordings(self, split: Split) -> Selection:
        """What there is for a split, usable or not. Raises NoClips if there is nothing."""
        require_request(split, 1)
        return self._opened(split)[1]

    def _opened(self, split: Split) -> tuple[Index, Selection]:
        root = Path(self.root)
        if not root.is_dir():
            what = "is a file; give the folder it is in" if root.exists() else "no such folder"
            raise NoClips(
                f"root = {self.root!r}: {what}. Put the data there (datasets/README.md says where they come from; "
                "`videopred data make doom-maze` records that recipe's), or name another folder as `root`"
            )
        if not any((root / name).is_dir() for name in SPLITS):
            index = open_index(root)
            mine = np.array([(_share(path) < self.test_share) == (split == "test") for path in index.paths], bool)
            if len(mine) and not mine.any():
                raise NoClips(
                    f"{root}: none of its {len(mine)} recordings falls to {split}, with test_share = {self.test_share}"
                )
        elif (root / split).is_dir():
            index = open_index(root / split)
            mine = np.ones(len(index.paths), bool)
        else:
            raise NoClips(f"{root}: has no folder {split}/")
        if not len(index.paths):
            raise NoClips(f"{index.folder}: holds no recording: no .npz or .npy file, no video, no folder of pictures")
        return index, select(self, index, mine)


class Clips:
    """Clip i is the start of recording i, of those that are long enough; `window` starts elsewhere.

    `recordings` says what there is in all. Raises NoClips, or ValueError for a wrong file or if none is long enough.
    """

    def __init__(self, config: ClipsConfig, split: Split, frames: int):
        self.config, self.split, self.frames = config, split, frames
        self.index, self.recordings = config._opened(split)
        broken = list(self.recordings.broken)
        if broken and config.broken == "refuse":
            more = f" (and {len(broken) - 1} more such files)" if len(broken) > 1 else ""
            raise ValueError(f'{broken[0]}{more}; broken = "skip" in the recipe leaves them out')
        lengths = self.recordings.lengths
        self.max_frames = int(lengths.max(initial=0))
        if not self.max_frames:
            raise NoClips(f"{self.index.folder}: none of its recordings can be used: {'; '.join(broken[:1])}")
        if self.max_frames < frames:
            raise ValueError(
                f"{self.index.folder}: its longest recording has {self.max_frames} frames; {frames} are asked for"
            )
        self.rows = self.recordings.rows[lengths >= frames]
        self.lengths = lengths[lengths >= frames]
        self.has_pose = len(np.unique(self.index.clips["pose"][self.rows])) == 1

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Clip:
        require_index(self.split, index, len(self))
        return self.cut(index, 0)

    def window(self, index: int, epoch: int) -> Clip:
        """As many frames of recording `index` from a place that depends on the recipe's seed, `index` and `epoch`."""
        require_index(self.split, index, len(self))
        taken = self.index.facts(int(self.rows[index])).count(1, self.config.fps)
        places = taken - (self.frames - 1) * self.config.stride
        return self._read(
            index, int(np.random.default_rng([self.config.seed, index, epoch]).integers(places)), self.frames
        )

    def cut(self, index: int, start: int, frames: int = 0) -> Clip:
        """Frames of recording `index` from number `start` of its `lengths[index]`; 0: as many as a clip has."""
        return self._read(index, start * self.config.stride, frames or self.frames)

    def _read(self, index: int, start: int, frames: int) -> Clip:
        """From any of the frames that are taken before the stride leaves some out."""
        config, row = self.config, int(self.rows[index])
        entry, facts = self.index.clips[row], self.index.facts(row)
        name, clip, clips = self.index.path(int(entry["recording"])), int(entry["clip"]), int(entry["clips"])
        path = self.index.folder / name
        steps = facts.steps(start, frames, config.stride, config.fps)
        blocks = (self._uint8(path, block, facts) for block in recording.frames(path, clip, facts, steps))
        pixels = np.concatenate([fit(block, *config.size, config.channels) for block in blocks])
        assert len(pixels) == len(steps)
        tracks = Tracks()
        if config.actions or facts.pose:
            tracks = recording.read_tracks(path, clip, clips)
            if not tracks.agree(path, facts):
                raise changed(path)
        actions = None
        if config.actions:
            given = np.zeros(facts.length, np.int64) if tracks.actions is None else tracks.actions
            actions = torch.from_numpy(self._pooled(given, steps))
        return Clip(
            frames=torch.from_numpy(pixels),
            actions=actions,
            pose=torch.from_numpy(tracks.pose[steps]) if self.has_pose and tracks.pose is not None else None,
            id=f"{self.split}/{name}" + (f"/{clip}" if clips > 1 else ""),
            start=int(steps[0]),
        )

    def _uint8(self, path: Path, block: np.ndarray, facts: Facts) -> np.ndarray:
        """The index has seen that the values lie in the range. Raises ValueError if they no longer do."""
        if block.dtype == np.uint8 and facts.low is None:
            return block
        if facts.low is None or facts.high is None or not (block.min() >= facts.low and block.max() <= facts.high):
            raise changed(path)
        return np.rint(block * (255 if self.config.float_range == "0..1" else 1)).astype(np.uint8)

    def _pooled(self, actions: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Of the frames that are taken: the last action, or all since the frame taken before, as one number."""
        if self.config.action_pool != "stack":
            return actions[steps]
        stride = self.config.stride
        before = np.concatenate([np.zeros(stride - 1, np.int64), actions])  # the first frame has no action before it
        parts = before[steps[:, None] + np.arange(stride)]  # (t, stride), in the order of time
        joint = parts @ len(self.config.actions) ** np.arange(stride - 1, -1, -1)
        return np.where((parts < 0).any(1), -1, joint)


def _share(path: bytes) -> float:
    """A number in 0..1 that depends on the path alone."""
    return int.from_bytes(sha256(bytes(path)).digest()[:8], "big") / 2**64


@cache
def tell(line: str) -> None:
    """Says it on stderr, once in a process."""
    print(f"videopred: {line}", file=sys.stderr)
