"""A protocol: every choice that changes a number of an evaluation, in one file of eval/protocols/."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from videopred import config
from videopred.clip import Clip, Quantise, to_float, to_uint8
from videopred.config import at_least
from videopred.data import Recipe
from videopred.evaluation.revisit import Revisit
from videopred.metrics import Metric, label


@dataclass(frozen=True)
class Protocol:
    """
    recipe      : name of a recipe, or a table
    split       : of the recipe; clips `first_clip`, `first_clip + 1`, ... of it, or those listed in `clips`
    num_clips   : how many clips; of `clips`, the first `num_clips`
    context     : true frames the model sees; the next `horizon` frames are predicted and scored
    samples     : rollouts per clip; a deterministic model is rolled out once
    seed        : of the samples' noise
    quantise    : how frames become uint8. `truncate` is the papers' code, and then goes for the true frames too
    actions     : `given`, or `masked` (every action, in the context too, is the mask id)
    group_size  : if positive, the mean and standard deviation over groups of so many clips are reported, as the
                  papers do (256); a last group may be smaller and counts like the others
    metrics     : what is computed, `{ kind = "psnr" }`
    revisit     : `{ distance = 64.0, angle = 20.0 }` also scores frames whose pose was seen in the context by
                  themselves, and the others (revisit.py); the recipe must know the pose
    """

    num_clips: int
    context: int
    horizon: int
    metrics: tuple[Metric, ...]
    recipe: Recipe = config.named("recipes")
    name: str = ""
    split: Literal["train", "test"] = "test"
    first_clip: int = 0
    clips: tuple[int, ...] = ()
    samples: int = 1
    seed: int = 0
    quantise: Quantise = "round"
    actions: Literal["given", "masked"] = "given"
    group_size: int = 0
    revisit: Revisit | None = None

    def __post_init__(self):
        at_least(self, num_clips=1, context=1, horizon=1, samples=1, seed=0, first_clip=0, group_size=0)
        for key, kind in (("split", Literal["train", "test"]), ("quantise", Quantise)):
            if getattr(self, key) not in get_args(kind):
                raise ValueError(f"{key} = {getattr(self, key)!r}: must be one of {', '.join(get_args(kind))}")
        if self.revisit is not None and self.revisit.first > self.horizon:
            raise ValueError(f"revisit.first = {self.revisit.first}: must be at most the horizon, {self.horizon}")
        labels = [label(metric) for metric in self.metrics]
        if not labels or len(set(labels)) < len(labels):
            raise ValueError(f"metrics = {labels}: must name at least one metric, and none twice")
        for metric in self.metrics:
            self._require_frames(metric)
        if self.clips and (self.first_clip or len(set(self.clips)) < len(self.clips) or min(self.clips) < 0):
            raise ValueError("clips: must be a list of different indices from 0 on, and excludes first_clip")
        if self.clips and self.num_clips > len(self.clips):
            raise ValueError(f"num_clips = {self.num_clips}: `clips` lists only {len(self.clips)}")

    @classmethod
    def load(cls, name: str) -> "Protocol":
        """The shipped protocol `name`, or that of a TOML file. Raises ConfigError."""
        return config.load(cls, "protocols", name)

    @property
    def frames(self) -> int:
        return self.context + self.horizon

    @property
    def indices(self) -> Sequence[int]:
        """The clips' places in the data set, in the order of evaluation."""
        return self.clips[: self.num_clips] or range(self.first_clip, self.first_clip + self.num_clips)

    @property
    def hash(self) -> str:
        """16 hex digits over every choice that changes a number: all but names, and the folder that holds the data.

        What lies in that folder the result says (`data`). Equal hash and equal data: comparable results.
        """
        table = config.to_dict(self)
        del table["name"]
        table["recipe"].pop("name", None)
        table["recipe"] |= {"root": ""} if "root" in table["recipe"] else {}
        return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Spans of predicted frames, counted from 1, over which means are shown: 1, 1-20, 1-50, 1-100 and all.

        Where actions are given also 5-20: late enough for actions to have led somewhere, early enough to be predicted.
        """
        ends = [1, *(end for end in (20, 50, 100) if end < self.horizon), self.horizon]
        spans = [(1, end) for end in dict.fromkeys(ends)]
        heard = self.actions == "given" and self.recipe.format.num_actions > 1 and self.horizon >= 20
        return spans[:2] + [(5, 20)] * heard + spans[2:]

    def to_dict(self) -> dict[str, Any]:
        return config.to_dict(self) | {"hash": self.hash}

    def _require_frames(self, metric: Metric) -> None:
        """Raises ValueError unless the first `frames` of a metric's clips are there, and one of them is predicted."""
        frames, before = getattr(metric, "frames", 0), self.context * (getattr(metric, "context", "out") == "in")
        if frames and not before < frames <= before + self.horizon:
            raise ValueError(
                f"{label(metric)}, frames = {frames}: must be {before + 1} to {before + self.horizon}; its clips are "
                f"{before} true and {self.horizon} predicted frames"
            )

    def shortened(self, num_clips: int | None, samples: int | None) -> "Protocol":
        """The same with fewer (or more) clips or samples, where given: another protocol, with another hash."""
        given = {"num_clips": num_clips, "samples": samples}
        return dataclasses.replace(self, **{key: value for key, value in given.items() if value is not None})

    def dataset(self):
        """The data set of the split, its clips context + horizon long. Raises ValueError if it has too few clips."""
        dataset = self.recipe.build(self.split, self.frames)
        last = max(self.clips[: self.num_clips], default=self.first_clip + self.num_clips - 1)
        if last >= len(dataset):
            raise ValueError(
                f"protocol {self.name!r} takes clip {last} of recipe {self.recipe.name!r}, "
                f"whose {self.split} split has clips 0..{len(dataset) - 1}; ask for fewer with --clips"
            )
        return dataset

    def truth(self, clip: Clip) -> Tensor:
        """The frames of a clip (or batch) as they are scored, uint8.

        In `truncate` mode the true frames go through [-1, 1] and back as well, as the papers' do.
        """
        if clip.frames is None:
            raise ValueError(
                f"recipe {self.recipe.name!r} holds tokens, not frames; give the protocol one that has frames"
            )
        if self.quantise == "round":  # exact: uint8 comes back as it was
            return clip.frames
        return to_uint8(to_float(clip.frames), self.quantise)
