"""Reads it all, prints what it is like, and draws a contact sheet."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from videopred import config
from videopred.checking.sources import Source, sources
from videopred.checking.tally import Tally
from videopred.clip import Clip
from videopred.data.sheet import Sheet
from videopred.data.writer import PictureWriter

SHEET_CLIPS = 6  # of each split


def check(name: str, clips: int | None = None, frames: int | None = None, out: Path | None = None) -> int:
    """Prints what the clips of a recipe, a folder or a file are like; gives how many things are broken.

    `clips` of each split and `frames` of each clip are the most that is read; a sheet goes to `out`, a PNG. Raises
    ValueError if there are no clips at all.
    """
    recipe, found = sources(name, clips, frames)
    if all(source.none and not source.broken for source in found):
        raise ValueError("; ".join(f"{source.name}: {source.none}" for source in found))
    if recipe is not None and Path(name).exists() and Path(name).suffix != ".toml":
        print(f"recipe    {'; '.join(_said(recipe))}")
    sheet = Sheet(found[0].format, found[0].actions) if out else None
    broken = sum(_read(source, sheet) for source in found)
    if sheet is not None and out is not None and sheet.rows:
        with PictureWriter(out) as picture:
            picture.write(sheet.picture)
        print(f"sheet     {out}")
    return broken


def _said(recipe: Any) -> list[str]:
    """The lines of a recipe's file, without what goes without saying."""
    usual = {field.name: field.default for field in dataclasses.fields(recipe)}
    said = {name: value for name, value in config.to_dict(recipe).items() if getattr(recipe, name) != usual[name]}
    said = {"kind": recipe.kind} | {name: value for name, value in said.items() if name != "name"}
    return [f"{name} = {json.dumps(value)}" for name, value in said.items()]  # which, here, is also TOML


def _read(source: Source, sheet: Sheet | None) -> int:
    """Reads the clips of one split and prints what they are like; gives how many things are broken."""
    broken = list(source.broken)
    for line in broken:
        print(f"broken    {line}")
    if source.none:
        print(f"none      {source.name}: {source.none}")
        return len(broken)
    tally = Tally(source)
    if sheet is not None:
        sheet.head(source.name)
    with tqdm(total=sum(source.lengths), desc=source.name, unit="frame", unit_scale=True, disable=None) as bar:
        for index in range(len(source.lengths)):
            shown = _Shown(source, index, sheet if index < SHEET_CLIPS else None)
            tally.begin()
            try:
                for piece in source.pieces(index):
                    tally.add(piece)
                    shown.add(piece)
                    bar.update(piece.num_frames)
            except ValueError as error:
                broken.append(f"{source.name}: clip {index}: {error}")
                print(f"broken    {broken[-1]}")
                continue
            tally.end()
            shown.end()
    if len(tally.ids) < len(tally.lengths):
        broken.append(f"{source.name}: {len(tally.lengths) - len(tally.ids)} ids are not unique")
        print(f"broken    {broken[-1]}")
    first, *rest = tally.lines()
    print(f"{source.name:<9} {first}")
    for line in rest:
        print(f"{'':<9} {line}")
    return len(broken)


class _Shown:
    """The frames of one clip that the sheet shows, picked out of its pieces."""

    def __init__(self, source: Source, index: int, sheet: Sheet | None):
        self.sheet, self.time = sheet, 0
        count = min(sheet.columns, int(source.lengths[index])) if sheet else 0
        self.times = np.linspace(0, source.lengths[index] - 1, count).round().astype(int)
        self.parts: list[Clip] = []

    def add(self, piece: Clip) -> None:
        here = self.times[(self.times >= self.time) & (self.times < self.time + piece.num_frames)] - self.time
        self.time += piece.num_frames
        if len(here):
            assert piece.frames is not None
            actions = None if piece.actions is None else piece.actions[here]
            self.parts.append(Clip(frames=piece.frames[here], actions=actions, id=piece.id))

    def end(self) -> None:
        if self.sheet is None or not self.parts:
            return
        frames = torch.cat([part.content for part in self.parts]).numpy()
        actions = [part.actions for part in self.parts if part.actions is not None]
        self.sheet.add(str(self.parts[0].id), frames, torch.cat(actions).numpy() if actions else None)
