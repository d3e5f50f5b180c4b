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
KINDS = {
    "dynamics": "memory over time (predictor.stack.dynamics.kind)",
    "spatial": "mixing within a frame (predictor.stack.spatial.kind)",
    "codecs": "frames to latents and back (predictor.codec.kind)",
    "tokenizers": "frames to tokens and back (predictor.codec.kind of a tokenizer)",
    "predictors": "what is trained (predictor.kind)",
    "metrics": "what predictions are scored by",
    "presets": "what `videopred train` takes",
    "recipes": "data sets, which presets and protocols name",
    "protocols": "what `videopred eval` takes",
    "ablations": "what `videopred sweep` takes",
    "checkpoints": f"shipped models and the runs in {config.RUNS}",
}


def add(subparsers) -> None:
    parser = subparsers.add_parser("list", help="what there is to choose from", description=__doc__)
    what = f"one of {', '.join(KINDS)} (without: what each of these is)"
    parser.add_argument("what", nargs="?", choices=KINDS, metavar="KIND", help=what)


def run(args: argparse.Namespace) -> int:
    if args.what is None:
        lines = KINDS
    elif args.what == "checkpoints":
        lines = _checkpoints()
    else:
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


def _checkpoints() -> dict[str, str]:
    """What commands take as a checkpoint: names, or the path where a shipped model has the name of a run."""
    from videopred import saved

    shipped = {name: saved.SHIPPED / name for name in saved.shipped()}
    lines = {name: f"shipped, step {saved.step(folder)}" for name, folder in shipped.items()}
    for name, folder in saved.runs().items():
        run = folder.parent if folder.name.startswith("step_") else folder
        lines[str(run) if name in shipped else name] = f"{run}, step {saved.step(folder)}"
    return lines


def _comment(path: Path) -> str:
    """The first sentence of the comment that a file begins with."""
    lines = path.read_text().splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return " ".join(line.lstrip("# ") for line in lines[:end]).partition(". ")[0].rstrip(".")
