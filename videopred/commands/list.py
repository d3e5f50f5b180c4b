"""`videopred list`: what there is to choose from."""

import argparse
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

from videopred import config

UNIONS = {
    "dynamics": ("videopred.dynamics", "Dynamics"),
    "spatial": ("videopred.spatial", "Spatial"),
    "codecs": ("videopred.codecs", "Codec"),
    "tokenizers": ("videopred.codecs", "Tokenizer"),
    "predictors": ("videopred.predictors", "Predictor"),
    "metrics": ("videopred.metrics", "Metric"),
}


def add(subparsers) -> None:
    parser = subparsers.add_parser("list", help="what there is to choose from", description=__doc__)
    parser.add_argument("what", choices=[*UNIONS, *config.FOLDERS])


def run(args: argparse.Namespace) -> int:
    lines = _files(args.what) if args.what in config.FOLDERS else _members(*UNIONS[args.what])
    width = max((len(name) for name in lines), default=0)
    for name, text in lines.items():
        print(f"{name:<{width}}  {text}".rstrip())
    return 0


def _members(module: str, union: str) -> dict[str, str]:
    """The members of a union type: their kinds, each with the first line of its config's docstring, or its module's."""
    members = getattr(importlib.import_module(module), union)
    return {_kind(member): _first_line(member) for member in get_args(members) or (members,)}


def _kind(member: Any) -> str:
    return get_args(get_type_hints(member)["kind"])[0]


def _first_line(member: Any) -> str:
    module = sys.modules[member.__module__]
    sisters = [part for part in vars(module).values() if hasattr(part, "kind") and part.__module__ == module.__name__]
    return (inspect.getdoc(member if len(sisters) > 1 else module) or "").partition("\n")[0]


def _files(folder: str) -> dict[str, str]:
    return {name: _comment(config.find(folder, name)) for name in config.shipped(folder)}


def _comment(path: Path) -> str:
    """The first sentence of the comment that a file begins with."""
    lines = path.read_text().splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return " ".join(line.lstrip("# ") for line in lines[:end]).partition(". ")[0].rstrip(".")
