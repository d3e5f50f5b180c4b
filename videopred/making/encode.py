"""`videopred data encode`: the frames of a recipe as tokens of a trained codec, once for all trainings.

What is written is told in `data/encoded.py`. Shards appear whole or not at all; the same command goes on from there.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from videopred import config
from videopred.clip import Clip, stack
from videopred.data.encoded import MANIFEST, RECIPE, EncodedConfig, read
from videopred.data.hold import hold
from videopred.data.split import SPLITS, NoClips
from videopred.data.whole_file import WholeFile
from videopred.tokenizer import Trained

SHARD, PIECE = 64, 64  # clips in a shard, frames that are encoded at a time


@dataclass(frozen=True)
class Encoding:
    """What was done: clips that were made now and that were there, frames made now."""

    folder: Path
    clips: int
    there: int
    frames: int
    seconds: float

    def __str__(self) -> str:
        clips = f"{self.clips} clip" + "s" * (self.clips != 1)
        there = f" ({self.there} more were there)" if self.there else ""
        rate = f", {self.frames / self.seconds:.0f} frames/s" if self.frames else ""
        return f"{clips} encoded{there}, {self.frames} frames{rate}; the recipe is {self.folder / RECIPE}"


def encode(
    recipe: Any, trained: Trained, folder: Path, num_clips: int | None = None, frames: int | None = None
) -> Encoding:
    """Writes what is not there yet of the first `num_clips` clips of each split (None: all), each whole.

    `frames` is the length of clips of a recipe that has no end of its own. Raises ConfigError if the folder is of
    another codec or recipe, ValueError if the codec is of other frames.
    """
    if recipe.format.codec:
        raise ValueError(f"recipe {recipe.name!r}: holds tokens already; give the recipe of its frames")
    trained.require(recipe.format, f"recipe {recipe.name!r}")
    begun, made, there = time.monotonic(), [], 0
    with hold(folder, "encodes clips"), _telling(folder):
        _claim(folder, recipe, trained)
        for split in reversed(SPLITS):  # test first, as it is small
            try:
                dataset = recipe.build(split, frames or 1)
            except NoClips:
                continue
            lengths = _lengths(dataset, recipe, frames)[:num_clips]
            with tqdm(total=len(lengths), unit="clip", desc=split, disable=None) as bar:
                for number, start in enumerate(range(0, len(lengths), SHARD)):
                    wanted = range(start, min(start + SHARD, len(lengths)))
                    if _has(folder / split, number, lengths[start : start + SHARD]):
                        there += len(wanted)
                        bar.update(len(wanted))
                    else:
                        made += [_shard(folder / split, number, dataset, wanted, lengths, trained, bar)]
    clips, count = (sum(numbers) for numbers in zip(*made, strict=True)) if made else (0, 0)
    return Encoding(folder, clips, there, count, time.monotonic() - begun)


@contextmanager
def _telling(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"videopred: stopped: whole shards are in {folder}; the same command goes on from there", file=sys.stderr)
        raise


def _claim(folder: Path, recipe: Any, trained: Trained) -> None:
    """Writes down what the tokens are of, or compares it with what is there. Raises ConfigError."""
    codec = {"name": trained.name, "hash": trained.hash, "step": trained.step, "num_codes": trained.codec.num_codes}
    wanted = {"codec": codec, "recipe": config.to_dict(recipe)}
    path = folder / MANIFEST
    if path.exists():
        old = read(path, "codec", "recipe")
        if changed := config.difference({"hash": old["codec"]["hash"], "recipe": old["recipe"]},
                                        {"hash": trained.hash, "recipe": wanted["recipe"]}):  # fmt: skip
            raise config.ConfigError(f"{folder} holds other tokens: {'; '.join(changed)}. Give another --out")
        return
    form, actions = recipe.format, tuple(getattr(recipe, "action_names", ()))
    made = EncodedConfig(
        root=str(folder), codec=trained.hash, num_codes=codec["num_codes"], image_size=(form.height, form.width),
        name=folder.resolve().name, channels=form.channels, actions=actions,
    )  # fmt: skip
    _write(folder / RECIPE, config.dumps(made).encode())
    _write(path, json.dumps(wanted, indent=1).encode())


def _lengths(dataset: Any, recipe: Any, frames: int | None) -> list[int]:
    """Frames of each clip: of recordings all they have, of others as many as are asked for."""
    if hasattr(dataset, "lengths"):
        return [int(length) for length in dataset.lengths]
    if not (length := frames or dataset.max_frames):
        raise ValueError(f"recipe {recipe.name!r}: its clips have no end; say how long with --frames")
    return [length] * len(dataset)


def _has(folder: Path, number: int, lengths: list[int]) -> bool:
    """Whether a shard holds clips of these lengths, or more of them, or longer ones."""
    path = folder / f"{number:05}.json"
    there = read(path, "lengths")["lengths"] if path.exists() else []
    return len(there) >= len(lengths) and all(has >= wanted for has, wanted in zip(there, lengths))


def _shard(
    folder: Path, number: int, dataset: Any, wanted: range, lengths: list[int], trained: Trained, bar: tqdm
) -> tuple[int, int]:
    """Writes one shard; the number of its clips and frames."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens, actions, ids = [], [], []
    for index in wanted:
        pieces = list(_pieces(dataset, index, lengths[index]))
        tokens += [tokens_of(trained, piece) for piece in pieces]
        actions += [piece.actions for piece in pieces if piece.actions is not None]
        ids.append(pieces[0].id)
        bar.update()
    path = folder / f"{number:05}.npy"
    path.with_suffix(".json").unlink(missing_ok=True)  # of a shard with fewer clips
    whole = np.concatenate(tokens)
    _save(path, whole)
    if actions:
        _save(path.with_suffix(".actions.npy"), torch.cat(actions).numpy().astype(np.int32))
    about = {"ids": ids, "lengths": [lengths[index] for index in wanted]}
    _write(path.with_suffix(".json"), json.dumps(about).encode())
    return len(ids), len(whole)


def _pieces(dataset: Any, index: int, length: int) -> Iterator[Clip]:
    """A clip in pieces: recordings may be longer than memory."""
    if not hasattr(dataset, "cut"):
        yield dataset[index]
        return
    for start in range(0, length, PIECE):
        yield dataset.cut(index, start, min(PIECE, length - start))


def tokens_of(trained: Trained, clip: Clip) -> np.ndarray:
    """uint16 (t, h', w') of one clip of uint8 frames."""
    batch = stack([clip]).to(next(trained.codec.parameters()).device)
    parts = [trained.codec.tokenize(piece.pixels()) for piece in batch.chunks(PIECE)]
    return torch.cat(parts, 1)[0].cpu().numpy().astype(np.uint16)


def _save(path: Path, array: np.ndarray) -> None:
    with WholeFile(path) as file, open(file.temporary, "wb") as content:
        np.lib.format.write_array(content, array, allow_pickle=False)


def _write(path: Path, data: bytes) -> None:
    with WholeFile(path) as file:
        file.temporary.write_bytes(data)
