"""What is to be made: clips of a recorder, as a recipe's maker names it, or copies of another recipe's clips.

A maker is a TOML file that lies in `makers/` beside its recipe and has the recipe's name. It is a file of its own so
that recipes, which are for reading, know of no engine.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from videopred import config
from videopred.clip import Clip
from videopred.data import Recipe
from videopred.data.split import SPLITS, NoClips, Split
from videopred.recorders import Recorder


@dataclass(frozen=True)
class MakerConfig:
    """
    clips      : how many to record for train, unless the command says
    test_share : so many for each of them are recorded for test
    """

    recorder: Recorder
    name: str = ""
    clips: int = 1000
    test_share: float = 0.1

    def __post_init__(self):
        config.at_least(self, clips=1)
        if not 0 <= self.test_share <= 1:
            raise ValueError(f"test_share = {self.test_share}: must be in 0..1")

    def counts(self, clips: int | None) -> dict[Split, int]:
        train = clips or self.clips
        return {"train": train, "test": max(1, round(train * self.test_share)) if self.test_share else 0}


@dataclass(frozen=True)
class Copy:
    """Gives the clips of a recipe as a recorder does: the first `frames` frames of each, or all that it has."""

    recipe: Recipe
    frames: int | None = None

    def counts(self, clips: int | None) -> dict[Split, int]:
        """All clips of both splits, or the first `clips` of each. Raises ValueError if there are none."""
        found: dict[Split, int] = {}
        missing = []
        for split in SPLITS:
            try:
                dataset = _built(self.recipe, split, self.frames or 1)
            except NoClips as error:
                missing.append(f"{split}: {error}")
                continue
            if not self.frames and dataset.max_frames is None:
                raise ValueError(f"recipe {self.recipe.name} makes clips of any length; say which with --frames")
            if not clips and dataset.max_frames is None:
                raise ValueError(f"recipe {self.recipe.name} makes any number of clips; say how many with --clips")
            found[split] = min(clips or len(dataset), len(dataset))
        if not found:
            raise ValueError("; ".join(missing))
        return found

    def record(self, split: Split, indices: Iterable[int]) -> Iterator[Clip]:
        dataset = _built(self.recipe, split, self.frames or 1)
        for index in indices:
            if self.frames:
                yield dataset[index]
            elif hasattr(dataset, "lengths"):  # recordings that are not all of one length
                yield dataset.cut(index, 0, int(dataset.lengths[index]))
            else:
                yield _built(self.recipe, split, dataset.max_frames)[index]


@lru_cache(8)
def _built(recipe: Any, split: Split, frames: int) -> Any:
    return recipe.build(split, frames)


@dataclass(frozen=True)
class Plan:
    """`source.record(split, indices)` gives the clips 0..counts[split]-1 of each split, which go to `folder`.

    `engines` are the packages whose versions decide what the clips look like.
    """

    source: Any
    counts: dict[Split, int]
    folder: Path
    engines: tuple[str, ...] = ()


def plan_for(
    recipe: str, overrides: Sequence[str] = (), clips: int | None = None, frames: int | None = None,
    folder: Path | None = None,
) -> Plan:  # fmt: skip
    """For a recipe by name or path: to record its clips if it has a maker, or else to copy them.

    `overrides` are of the maker, or of the recipe. Raises ConfigError or ValueError if that cannot be.
    """
    path = config.find("recipes", recipe)
    maker = path.parent / "makers" / path.name
    if maker.is_file():
        return _to_record(config.load(MakerConfig, "recipes", str(maker), overrides), path, clips, frames, folder)
    source = Copy(config.load(Recipe, "recipes", recipe, overrides), frames)  # type: ignore[arg-type]  # a union
    if folder is None:
        raise ValueError(
            f"{recipe}: no recorder makes these clips, but they can be copied, decoded and resized: --out says where to"
        )
    root = getattr(source.recipe, "root", None)
    if root and folder.resolve().is_relative_to(Path(root).resolve()):
        raise ValueError(f"--out {folder}: is where the recipe's own clips are; give a folder outside {root}")
    return Plan(source, source.counts(clips), folder)


def _to_record(maker: MakerConfig, recipe: Path, clips: int | None, frames: int | None, folder: Path | None) -> Plan:
    if frames:
        raise ValueError(f"--frames {frames}: is for copies; a recorder's clips are as long as recorder.frames says")
    if folder is None:
        root = config.read(recipe).get("root")
        if not isinstance(root, str):
            raise ValueError(f"{recipe}: has no `root` to put clips in; give --out DIR")
        folder = Path(root)
    maker.recorder.require()
    return Plan(maker.recorder, maker.counts(clips), folder, maker.recorder.engines)
