"""`videopred data list | show | check | make | encode`: recipes, what one says and whether it is so, making clips."""

import argparse
import sys
from pathlib import Path
from typing import Any

from videopred.commands import device
from videopred.config import RUNS

MOST_WORKERS = 1024


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "data", help="list, show, check, make and encode clips (where they come from: recipes)"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list | show | check | make | encode")
    actions.add_parser("list", help="the shipped recipes")
    show = actions.add_parser("show", help="what a recipe says, and how many clips it has")
    show.add_argument("recipe", help="a shipped name, or a path to a TOML file")
    check = actions.add_parser("check", help="read all clips: counts, sizes, ranges, broken files, a contact sheet")
    check.add_argument(
        "recipe", metavar="R_OR_PATH", help="a shipped name, a TOML file, a folder of clips, or one file"
    )
    check.add_argument("--clips", type=int, help="of each split (default: all, or 64 where there is no end)")
    check.add_argument("--frames", type=int, help="of each clip (default: all, or 20 where there is no end)")
    check.add_argument("--out", type=Path, metavar="FILE.png", help="a contact sheet: some clips of each split")
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
    encode = actions.add_parser(
        "encode",
        help="make tokens of a recipe's frames, once for all trainings",
        description="Writes the tokens that a trained codec gives the clips of a recipe, with their actions and ids, "
        "and DIR/recipe.toml, a recipe that reads them. The same command again goes on where it stopped.",
    )
    encode.add_argument("recipe", metavar="RECIPE", help="a shipped name, or a path to a TOML file")
    encode.add_argument(
        "codec",
        metavar="CODEC",
        help=f"a tokenizer: a run folder, a step_* folder, or the name of a shipped model or of a run in {RUNS}",
    )
    encode.add_argument("--clips", type=int, help="the first of each split (default: all)")
    encode.add_argument("--frames", type=int, help="of each clip, where a recipe's clips have no end")
    encode.add_argument("--out", type=Path, metavar="DIR", help="default: datasets/data/<recipe>-<codec>")
    device.add_option(encode)


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        return _list()
    if args.action == "make":
        return _make(args)
    if args.action == "encode":
        return _encode(args)
    return _show(args.recipe) if args.action == "show" else _check(args)


def _list() -> int:
    from videopred import config
    from videopred.checking import describe
    from videopred.data import Recipe

    names = config.shipped("recipes")
    for name in names:
        recipe = config.load(Recipe, "recipes", name)  # type: ignore[arg-type]  # a union is not a type
        print(f"{name:<{max(map(len, names))}}  {recipe.kind}  {describe(recipe.format)}")
    return 0


def _show(name: str) -> int:
    from videopred import config
    from videopred.checking import describe
    from videopred.data import Recipe
    from videopred.data.split import NoClips

    recipe = config.load(Recipe, "recipes", name)  # type: ignore[arg-type]  # a union is not a type
    print(config.dumps(recipe))
    print(f"# frames: {describe(recipe.format)}")
    for split in ("train", "test"):
        try:
            count = len(recipe.build(split, 1))
            print(f"# {split}: {count} clip{'s' * (count != 1)}")
        except NoClips as error:
            print(f"# {split}: none: {error}")
    return 0


def _make(args: argparse.Namespace) -> int:
    from videopred.making import make, plan_for

    for option in ("clips", "frames", "workers"):
        _require_positive(args, option)
    if args.workers and args.workers > MOST_WORKERS:
        raise ValueError(f"--workers {args.workers}: must be at most {MOST_WORKERS}")
    made = make(plan_for(args.recipe, args.overrides, args.clips, args.frames, args.out), args.workers)
    print(made)
    return 0


def _encode(args: argparse.Namespace) -> int:
    from videopred import config, tokenizer
    from videopred.data import Recipe
    from videopred.making.encode import encode

    for option in ("clips", "frames"):
        _require_positive(args, option)
    recipe = config.load(Recipe, "recipes", args.recipe)  # type: ignore[arg-type]  # a union is not a type
    trained = tokenizer.load(args.codec, device.device(args.device))
    folder = args.out or Path("datasets") / "data" / f"{recipe.name}-{trained.name}"
    print(encode(recipe, trained, folder, args.clips, args.frames))
    return 0


def _check(args: argparse.Namespace) -> int:
    from videopred.checking import check
    from videopred.data.whole_file import require_writable

    for option in ("clips", "frames"):
        _require_positive(args, option)
    if args.out:
        if args.out.suffix != ".png":
            raise ValueError(f"--out {args.out}: must end in .png")
        require_writable(args.out)
    broken = check(args.recipe, args.clips, args.frames, args.out)
    if broken:
        print(f"videopred: error: {broken} of {args.recipe} cannot be used", file=sys.stderr)
    return 2 if broken else 0


def _require_positive(args: argparse.Namespace, option: str) -> None:
    value = getattr(args, option)
    if value is not None and value < 1:
        raise ValueError(f"--{option} {value}: must be at least 1")
