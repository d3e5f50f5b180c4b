"""Clips as tokens, which `videopred data encode` made once of the frames of another recipe.

    <root>/recipe.toml                 this recipe
    <root>/encoded.json                the codec (name, hash, number of codes), the recipe of the frames
    <root>/{train,test}/NNNNN.npy      uint16 (frames, h', w'): the clips of a shard, one after the other
                        NNNNN.actions.npy   int32 (frames,), where there are actions
                        NNNNN.json     id and length of each clip; written last, so a shard that has one is whole

Arrays are memory-mapped: what is read is the part of a clip that is asked for.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from videopred.clip import Clip, Format
from videopred.config import at_least
from videopred.data.split import NoClips, Split, require_index, require_request

MANIFEST, RECIPE = "encoded.json", "recipe.toml"


@dataclass(frozen=True)
class EncodedConfig:
    """
    root               : a folder; where it is relative, below the current one
    codec, num_codes   : SHA-256 of the codec's weights, and how many codes it has
    image_size, channels, actions : of the frames that were encoded
    seed               : of the windows that are drawn
    """

    root: str
    codec: str
    num_codes: int
    image_size: int | tuple[int, int]
    kind: Literal["encoded"] = "encoded"
    name: str = ""
    channels: Literal[1, 3] = 3
    actions: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self):
        at_least(self, image_size=1, num_codes=2, seed=0)
        if len(self.codec) != 64 or set(self.codec) - set("0123456789abcdef"):
            raise ValueError(f"codec = {self.codec!r}: must be the SHA-256 of a codec's weights, 64 hex digits")

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.actions

    @property
    def format(self) -> Format:
        size = (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size
        return Format(self.channels, *size, len(self.actions), self.codec)

    def build(self, split: Split, frames: int) -> "Encoded":
        require_request(split, frames)
        return Encoded(self, split, frames)


class Encoded:
    """Clip i is the start of the i-th of those that are long enough, with `tokens` int64 in place of frames.

    Raises NoClips, or ValueError if the tokens are of another codec, are damaged, or no clip is long enough.
    """

    def __init__(self, config: EncodedConfig, split: Split, frames: int):
        self.config, self.split, self.frames = config, split, frames
        self.folder = Path(config.root) / split
        self._require_own_codec()
        places = [
            (number, start, length, name)
            for number, shard in shards(self.folder)
            for start, length, name in zip(_starts(shard["lengths"]), shard["lengths"], shard["ids"], strict=True)
        ]
        if not places:
            raise NoClips(f"{self.folder}: holds no tokens; `videopred data encode` makes them")
        self.max_frames = max(length for _, _, length, _ in places)
        if self.max_frames < frames:
            raise ValueError(f"{self.folder}: its longest clip has {self.max_frames} frames; {frames} are asked for")
        kept = [place for place in places if place[2] >= frames]
        self.places = np.array([place[:3] for place in kept], np.int64)  # shard, first frame in it, length
        self.ids = np.array([place[3] for place in kept])
        self.lengths = self.places[:, 2]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Clip:
        require_index(self.split, index, len(self))
        return self.cut(index, 0)

    def window(self, index: int, epoch: int) -> Clip:
        """As many frames of clip `index` from a place that depends on the recipe's seed, `index` and `epoch`."""
        require_index(self.split, index, len(self))
        places = int(self.lengths[index]) - self.frames + 1
        return self.cut(index, int(np.random.default_rng([self.config.seed, index, epoch]).integers(places)))

    def cut(self, index: int, start: int, frames: int = 0) -> Clip:
        """Frames of clip `index` from number `start` of its `lengths[index]`; 0: as many as a clip has."""
        shard, first, _ = (int(number) for number in self.places[index])
        part = slice(first + start, first + start + (frames or self.frames))
        path = self.folder / f"{shard:05}.npy"
        tokens = _part(path, part).astype(np.int64)
        if tokens.max() >= self.config.num_codes:
            raise ValueError(
                f"{path}: token {tokens.max()} in clip {self.ids[index]}; the codec has codes 0.."
                f"{self.config.num_codes - 1}. It is damaged: remove it with its .json, and encode again"
            )
        actions = None
        if self.config.actions:
            actions = torch.from_numpy(_part(path.with_suffix(".actions.npy"), part).astype(np.int64))
        return Clip(tokens=torch.from_numpy(tokens), actions=actions, id=str(self.ids[index]), start=start)

    def _require_own_codec(self) -> None:
        manifest = Path(self.config.root) / MANIFEST
        if not manifest.is_file():
            raise NoClips(
                f"root = {self.config.root!r}: no {MANIFEST} there. `videopred data encode RECIPE CODEC` makes one "
                "(datasets/README.md says which), or name another folder as `root`"
            )
        codec = read(manifest, "codec")["codec"]
        if codec["hash"] != self.config.codec:
            raise ValueError(
                f"{manifest.parent}: holds tokens of codec {codec['name']} with hash {codec['hash'][:12]}, the recipe "
                f"{self.config.name!r} is of {self.config.codec[:12]}; encode anew, or use {manifest.parent / RECIPE}"
            )


def shards(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and contents ("ids", "lengths") of each whole shard of a split. Raises ValueError if one is damaged."""
    for path in sorted(folder.glob("[0-9]*.json")):
        yield int(path.stem), read(path, "ids", "lengths")


def read(path: Path, *keys: str) -> dict[str, Any]:
    """A JSON object with these keys. Raises ValueError that names the file if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: damaged; remove it, and encode again") from error
    if not isinstance(found, dict) or set(keys) - set(found):
        raise ValueError(f"{path}: damaged; remove it, and encode again")
    return found


def _starts(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths[:-1]])


def _part(path: Path, part: slice) -> np.ndarray:
    """Opened for each clip: a map of each shard would be copied into every reading process."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)[part]
        if len(found) < part.stop - part.start:
            raise EOFError
        return found
    except FileNotFoundError as error:
        raise ValueError(f"{path}: missing; remove its .json, and encode again") from error
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: damaged or cut off; remove it with its .json, and encode again") from error
