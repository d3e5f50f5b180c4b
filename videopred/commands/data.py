"""`videopred data list | show | check | make`: recipes, what one says, whether its clips are so, and making clips."""

import argparse
import sys
from pathlib import Path
from typing import Any

GENERATED_CLIPS = 64  # read per split where clips are made as they are read
GENERATED_FRAMES = 20
SHEET_CLIPS, SHEET_FRAMES = 6, 12


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("data", help="list, show, check and make clips (where they come from: recipes)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | show | check | make")
    actions.add_parser("list", help="the shipped recipes")
    show = actions.add_parser("show", help="what a recipe says, and how many clips it has")
    show.add_argument("recipe", help="a shipped name, or a path to a TOML file")
    check = actions.add_parser("check", help="read the clips: counts, sizes, ranges, broken files, a contact sheet")
    check.add_argument("recipe", metavar="R_OR_PATH", help="a shipped name, a TOML or .npy file, or a folder of clips")
    check.add_argument("--clips", type=int, help=f"per split (default: all on disk, {GENERATED_CLIPS} of a generator)")
    check.add_argument("--frames", type=int, help=f"per clip (default: all on disk, {GENERATED_FRAMES} of a generator)")
    check.add_argument("--out", type=Path, metavar="FILE.png", help="a contact sheet: a row per clip, train above test")
    make = actions.add_parser(
        "make",
        help="record clips with an engine, or copy those of a recipe, as .npz files that are fast to read",
        description="Records the clips of a recipe that has a recorder (doom-maze), or copies those of any other, "
        "decoded and resized, to DIR/{train,test}/<k>/NNNNNN.npz. The same command again goes on where it stopped; "
        "whatever the number of workers, the files are the same. Prints how much was made.",
    )
    make.add_argument("recipe", metavar="R", help="a shipped name, or a path to a TOML file")
    make.add_argument("overrides", nargs="*", metavar="key.path=value", help="of the recorder's file or the recipe")
    make.add_argument(
        "--clips", type=int, help="of train, test in proportion (default: the file's); or to copy of each"
    )
    make.add_argument("--frames", type=int, help="to copy of each clip (default: all)")
    make.add_argument("--workers", type=int, metavar="K", help="processes (default: one per CPU)")
    make.add_argument("--out", type=Path, metavar="DIR", help="default: the recipe's root; must be given for a copy")


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        return _list()
    if args.action == "make":
        return _make(args)
    return _show(args.recipe) if args.action == "show" else _check(args)


def _list() -> int:
    from videopred import config

    names = config.shipped("recipes")
    for name in names:
        recipe = _load(name)
        print(f"{name:<{max(map(len, names))}}  {recipe.kind}  {_size(recipe.format)}")
    return 0


def _show(name: str) -> int:
    from videopred import config
    from videopred.data.split import NoClips

    recipe = _load(name)
    print(config.dumps(recipe))
    print(f"# frames: {_size(recipe.format)}")
    for split in ("train", "test"):
        try:
            print(f"# {split}: {len(recipe.build(split, 1))} clips")
        except NoClips as error:
            print(f"# {split}: none: {error}")
    return 0


def _make(args: argparse.Namespace) -> int:
    from videopred.making import make, plan_for

    for option in ("clips", "frames", "workers"):
        _require_positive(args, option)
    made = make(plan_for(args.recipe, args.overrides, args.clips, args.frames, args.out), args.workers)
    print(made)
    return 0


def _check(args: argparse.Namespace) -> int:
    from videopred.data.split import NoClips

    for option in ("clips", "frames"):
        _require_positive(args, option)
    if args.out and args.out.suffix != ".png":
        raise ValueError(f"--out {args.out}: must end in .png")
    recipe = _load(args.recipe)
    missing, broken, sheets = [], [], []
    for split in ("train", "test"):
        try:
            max_frames = recipe.build(split, 1).max_frames
            dataset = recipe.build(split, args.frames or max_frames or GENERATED_FRAMES)
        except NoClips as error:
            missing.append(f"{split}: {error}")
            continue
        limit = args.clips or (len(dataset) if max_frames else GENERATED_CLIPS)
        sheets.append(_read(recipe, split, dataset, min(limit, len(dataset)), broken))
    if len(missing) == 2:
        raise ValueError("; ".join(missing))
    for line in missing:
        print(f"none      {line}")
    if args.out:
        _write_sheet(sheets, args.out)
    if broken:
        print(f"videopred: error: {len(broken)} clips of {args.recipe} cannot be used", file=sys.stderr)
    return 2 if broken else 0


def _read(recipe: Any, split: str, dataset: Any, count: int, broken: list[str]) -> list[Any]:
    """Reads `count` clips, prints what they are like, adds to `broken`; gives frames (t, h, w, c) for the sheet."""
    import numpy as np
    from tqdm import tqdm

    levels, ids, sheet, good, frames = np.zeros(256, np.int64), set(), [], 0, 0
    for index in tqdm(range(count), desc=split, unit="clip", disable=None):
        try:
            clip = dataset[index]
            pixels = _usable(clip, recipe.format)
        except ValueError as error:
            broken.append(str(error))
            print(f"broken    {split}: clip {index}: {error}")
            continue
        good, frames = good + 1, frames + len(pixels)
        levels += np.bincount(pixels.ravel(), minlength=256)
        ids.add(clip.id)
        if len(sheet) < SHEET_CLIPS:
            sheet.append(pixels[:: max(1, len(pixels) // SHEET_FRAMES)][:SHEET_FRAMES])
    if len(ids) < good:
        broken.append(f"{split}: {good - len(ids)} ids are not unique")
        print(f"broken    {broken[-1]}")
    used, total = levels.nonzero()[0], max(1, levels.sum())
    print(f"{split:<9} {good} of {len(dataset)} clips read, {frames} frames, {_size(recipe.format)}", end="")
    print(
        f", values {used[0]}..{used[-1]}, mean {levels @ np.arange(256) / total:.2f}, black {levels[0] / total:.1%}"
        if good
        else ""
    )
    return sheet


def _usable(clip: Any, expected: Any) -> Any:
    """The clip's frames as an array, or ValueError if they are not uint8 of the recipe's format."""
    shape = (expected.height, expected.width, expected.channels)
    pixels = clip.frames.numpy()
    if pixels.dtype != "uint8" or pixels.shape[1:] != shape:
        raise ValueError(f"{clip.id}: frames are {pixels.dtype} {pixels.shape[1:]}; the recipe says uint8 {shape}")
    return pixels


def _write_sheet(sheets: list[list[Any]], path: Path) -> None:
    """Rows of clips, columns of frames, on grey; small frames enlarged by whole numbers; a gap between splits."""
    import numpy as np
    from PIL import Image

    rows = []
    for clips in sheets:
        for frames in clips:
            scale = max(1, 64 // max(frames.shape[1:3]))
            frames = np.broadcast_to(frames, (*frames.shape[:3], 3)).repeat(scale, 1).repeat(scale, 2)
            padded = np.pad(frames, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=96)
            rows.append(np.concatenate(list(padded), 1))
        if clips:
            rows.append(np.full((8, rows[-1].shape[1], 3), 96, np.uint8))
    if not rows:
        return
    width = max(row.shape[1] for row in rows)
    rows = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=96) for row in rows[:-1]]
    Image.fromarray(np.concatenate(rows)).save(path)
    print(f"sheet     {path}")


def _require_positive(args: argparse.Namespace, option: str) -> None:
    value = getattr(args, option)
    if value is not None and value < 1:
        raise ValueError(f"--{option} {value}: must be at least 1")


def _load(name: str) -> Any:
    from videopred import config
    from videopred.data import MovingMNISTFilesConfig, Recipe

    if name not in config.shipped("recipes") and (name.endswith(".npy") or Path(name).is_dir()):
        return MovingMNISTFilesConfig(root=name, name=Path(name).stem)
    return config.load(Recipe, "recipes", name)  # type: ignore[arg-type]  # a union is not a type


def _size(format: Any) -> str:
    colour = {1: "gray", 3: "RGB"}[format.channels]
    actions = f", {format.num_actions} actions" if format.num_actions else ""
    return f"{format.height}x{format.width} {colour}{actions}"
