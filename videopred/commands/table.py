"""`videopred table`: results of `videopred eval`, side by side."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "table",
        help="print results side by side",
        description="Prints results of `videopred eval` in one table. Numbers are comparable only under one protocol "
        "(the hash says so), so results of different protocols are refused unless --across-protocols asks for one "
        "table each.",
    )
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULT.json", help="files that `videopred eval` wrote"
    )
    parser.add_argument(
        "--format",
        choices=["table", "markdown", "latex", "csv", "json"],
        default="table",
        help="default: table; markdown and latex print the best of each column in bold",
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="ROW",
        help="also compare every row with this one clip by clip: difference and 95 %% interval (paired bootstrap)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE.html", help="also write one page: tables, curves, clips that play"
    )
    parser.add_argument("--across-protocols", action="store_true", help="one table for each protocol")


def run(args: argparse.Namespace) -> int:
    from videopred.evaluation import report
    from videopred.evaluation.result import read, write
    from videopred.evaluation.table import render

    if args.report is not None:
        report.require_writable(args.report)
    results, names = [read(path) for path in args.results], labels(args.results)
    options = {"across_protocols": args.across_protocols, "against": args.against}
    print(render(results, args.format, names, **options))
    if args.report is not None:
        text = report.page(results, names, *_clips(results), **options)
        write(args.report, lambda file: file.write(text.encode(errors="backslashreplace")))
        print(f"videopred: report in {args.report}", file=sys.stderr)
    return 0


def _clips(results: Sequence[dict[str, Any]]) -> tuple[list, list[str]]:
    """The clips that a result of each protocol names, by every model of it that is on this machine.

    The result is the first whose model is here. Also why there are no clips of others, which is said on stderr too.
    """
    from videopred.evaluation.blocks import blocks, ground
    from videopred.evaluation.shown import shown_of

    clips, absent = [], []
    for block in blocks(results, across_protocols=True):
        alike = [x for x in results if ground(x) == (block.protocol["hash"], block.protocol.get("data", ""))]
        own = [row["name"] for row in block.models if row.get("role") != "shuffled actions"]
        models, here = {}, []
        for name, x in zip(own, alike, strict=True):
            try:
                models[name] = _model(x["checkpoint"])
                here.append(x)
            except (ValueError, OSError) as error:
                absent.append(f"no clips of {name} in the report: {error}")
        try:
            clips += shown_of(models, here[0]) if models else []
        except (ValueError, OSError) as error:
            absent.append(f"no clips of {block.protocol['name']} in the report: {error}")
    for text in absent:
        print(f"videopred: {text}", file=sys.stderr)
    return clips, absent


def _model(of: dict[str, Any]) -> Any:
    """The predictor of the `checkpoint` of a result. Raises ValueError or OSError that says why there is none."""
    from videopred import checkpoint

    if "predictions" in of:
        raise ValueError(
            "they were predicted elsewhere, and a result holds numbers, not frames; `videopred eval --predictions ... "
            "--targets ... --report` shows them"
        )
    if "name" not in of:
        raise ValueError("the result does not say of which checkpoint it is")
    loaded = checkpoint.load_either(of["name"])
    if loaded.hash != of.get("hash"):
        raise ValueError("the checkpoint of that name is now another one")
    return loaded.predictor


def labels(paths: Sequence[Path]) -> list[str]:
    """What tells results of one checkpoint apart: the files' stems, or their paths where stems are equal."""
    stems = [path.stem for path in paths]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, paths, strict=True)]
