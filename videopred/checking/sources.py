"""What `data check` reads: the splits of a recipe, or one file; and the recipe that a bare path calls for.

A source gives the clips of one split in pieces, so that a recording of any length costs the memory of one piece.
"""

import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from videopred import config
from videopred.clip import Clip, Format
from videopred.data import ClipsConfig, MovingMNISTFilesConfig, Recipe, array, recording
from videopred.data.clips import Clips, tell
from videopred.data.facts import Facts
from videopred.data.fit import fit
from videopred.data.index import NONE, open_index
from videopred.data.split import SPLITS, NoClips, Split

PIECE = 1 << 25  # bytes of frames that are read at once, about
MADE_CLIPS, MADE_FRAMES = 64, 20  # of a recipe that makes clips without end
MOST_ACTIONS = 256  # that are believed without a recipe

Size = tuple[int, int, int]  # height, width, channels
Read = Callable[[int, int, int], Clip]


@dataclass(frozen=True)
class Source:
    """
    read    : frames start..start+n-1 of clip i, read(i, start, n). Raises ValueError if they cannot be used
    lengths : frames of the clips that are to be read
    total   : how many clips there are; `files`, in how many files, broken ones too, or None if clips are not in files
    stored  : how many clips are stored in which size
    broken  : a line for every file that cannot be used
    none    : why there are no clips
    """

    name: str
    format: Format
    read: Read
    actions: tuple[str, ...] = ()
    lengths: Sequence[int] = ()
    total: int = 0
    files: int | None = None
    stored: Counter[Size] = field(default_factory=Counter)
    broken: tuple[str, ...] = ()
    none: str = ""

    def pieces(self, index: int) -> Iterator[Clip]:
        """A clip, piece by piece."""
        length, size = int(self.lengths[index]), self.format.height * self.format.width * self.format.channels
        step = max(1, PIECE // size)
        for start in range(0, length, step):
            yield self.read(index, start, min(step, length - start))


def sources(name: str, clips: int | None, frames: int | None) -> tuple[Any, list[Source]]:
    """Of a recipe's name or file, of a folder, or of one file; and the recipe, or None for one file.

    `clips` of each split and `frames` of each clip are the most that is read. Raises ValueError.
    """
    path = Path(name)
    if name not in config.shipped("recipes") and path.suffix != ".toml" and (path.exists() or path.suffix):
        recording.require(path)
        if path.is_file() and not _moving_mnist(path):
            return None, [_file(path, clips, frames)]
        recipe = worked_out(path)
    else:
        recipe = config.load(Recipe, "recipes", name)  # type: ignore[arg-type]  # a union is not a type
        if recipe.format.codec:
            raise ValueError(f"{name}: holds tokens, and check looks at frames; name the recipe they were made of")
    return recipe, [_split(recipe, split, clips, frames) for split in SPLITS]


def _split(recipe: Any, split: Split, clips: int | None, frames: int | None) -> Source:
    about: dict[str, Any] = {"name": split, "format": recipe.format, "actions": getattr(recipe, "action_names", ())}
    try:
        if isinstance(recipe, ClipsConfig):
            return _recorded(recipe, split, clips, frames, about)
        longest = recipe.build(split, 1).max_frames
        length = frames or longest or MADE_FRAMES
        dataset = recipe.build(split, length)
    except NoClips as error:
        return Source(**about, read=_nothing, none=str(error))
    count = min(clips or (len(dataset) if longest else MADE_CLIPS), len(dataset))
    return Source(**about, read=partial(_part, dataset), lengths=[length] * count, total=len(dataset))


def _recorded(recipe: ClipsConfig, split: Split, clips: int | None, frames: int | None, about: dict) -> Source:
    found = recipe.recordings(split)
    about |= {"files": found.files, "broken": found.broken}
    if not len(found.rows):
        return Source(**about, read=_nothing, none=f"none of its {found.files} files can be used")
    dataset = Clips(replace(recipe, broken="skip"), split, 1)
    sizes = Counter(dataset.index.clips[dataset.rows][["height", "width", "channels"]].tolist())
    lengths = np.minimum(dataset.lengths, frames or dataset.max_frames)[:clips].tolist()
    return Source(**about, read=dataset.cut, lengths=lengths, total=len(dataset), stored=sizes)


def _file(path: Path, clips: int | None, frames: int | None) -> Source:
    facts = recording.facts(path)
    if facts[0].unfit:
        raise ValueError(f"{path}: {facts[0].unfit}")
    number = 0 if facts[0].actions is None else _number(path, max(fact.most for fact in facts))
    format = Format(1 if facts[0].channels == 1 else 3, facts[0].height, facts[0].width, number)
    return Source(
        name="file",
        format=format,
        read=partial(_of_file, path, facts, format),
        actions=tuple(map(str, range(number))),
        lengths=[min(fact.length, frames or fact.length) for fact in facts[:clips]],
        total=len(facts),
        files=1,
        stored=Counter((fact.height, fact.width, fact.channels) for fact in facts),
    )


def _part(dataset: Any, index: int, start: int, frames: int) -> Clip:
    clip = dataset[index]
    parts = {name: getattr(clip, name) for name in ("frames", "actions", "pose")}
    return replace(clip, **{name: x[start : start + frames] for name, x in parts.items() if x is not None})


def _of_file(path: Path, facts: Sequence[Facts], format: Format, index: int, start: int, frames: int) -> Clip:
    steps = start + np.arange(frames)
    blocks = list(recording.frames(path, index, facts[index], steps))
    tracks = recording.read_tracks(path, index, len(facts)).at(steps)
    actions, pose = (None if track is None else torch.from_numpy(track) for track in (tracks.actions, tracks.pose))
    pixels = fit(array.uint8(path, np.concatenate(blocks), "frames"), format.height, format.width, format.channels)
    return Clip(frames=torch.from_numpy(pixels), actions=actions, pose=pose, id=f"{path.name}/{index}")


def _nothing(index: int, start: int, frames: int) -> Clip:
    raise IndexError(f"clip {index}: there is none")


def worked_out(path: Path) -> Recipe:
    """The recipe for the clips of a folder, or of an .npy that is Moving-MNIST's test file: sizes as they are stored.

    Raises ValueError if there are none.
    """
    if path.is_file():
        return MovingMNISTFilesConfig(root=str(path), name=path.stem, image_size=_npy_shape(path)[-1])
    folders = [path / split for split in SPLITS if (path / split).is_dir()] or [path]
    indexes = [open_index(folder) for folder in folders]
    clips = np.concatenate([index.clips for index in indexes])
    if not len(clips):
        broken = [f"{place.folder / place.path(i)}: {place.reasons[place.faults[i]]}"
                  for place in indexes for i in range(len(place.paths))]  # fmt: skip
        raise ValueError(f"{path}: holds no clip that can be read" + (f": {'; '.join(broken[:3])}" if broken else ""))
    [(size, _)] = Counter(clips[["height", "width"]].tolist()).most_common(1)
    known = clips["actions"] != NONE
    number = _number(path, int(clips["most"].max())) if known.any() else 0
    if (clips["unfit"] != NONE).any() and not known.any():
        reason = next(index.unfit(clip) for index in indexes for clip in index.clips if clip["unfit"] != NONE)
        tell(f"{path}: {reason}; the clips are read without actions")
    floating = not np.isnan(clips["low"]).all()
    return ClipsConfig(
        root=str(path),
        name=path.resolve().name,
        image_size=size[0] if size[0] == size[1] else size,
        channels=1 if (clips["channels"] == 1).all() else 3,
        actions=tuple(f"action-{i}" for i in range(number)),
        missing_actions="refuse" if known.all() or not known.any() else "zeros",
        float_range=("0..1" if np.nanmax(clips["high"]) <= 1 else "0..255") if floating else "",
    )


def _number(path: Path, most: int) -> int:
    """Of different actions, if the greatest is `most`. Raises ValueError if they can hardly be actions."""
    if most >= MOST_ACTIONS:
        raise ValueError(f"{path}: its actions go up to {most}; write a recipe if these are numbers of actions")
    return most + 1


def _moving_mnist(path: Path) -> bool:
    """Whether a file may be mnist_test_seq.npy, in which time comes first: (t, n, h, h)."""
    shape = _npy_shape(path) if path.suffix == ".npy" else ()
    return len(shape) == 4 and shape[2] == shape[3] > 4


def _npy_shape(path: Path) -> tuple[int, ...]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).shape
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, OverflowError, tokenize.TokenError):
        return ()  # the reader will say what is wrong
