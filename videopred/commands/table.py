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
        text = report.page(results, names, _clips(results), **options)
        write(args.report, lambda file: file.write(text.encode(errors="backslashreplace")))
    return 0


def _clips(results: Sequence[dict[str, Any]]) -> list:
    """The clips that the first result of each protocol names, by every model of it that is on this machine."""
    from videopred.evaluation.blocks import blocks, ground
    from videopred.evaluation.shown import shown_of

    clips = []
    for block in blocks(results, across_protocols=True):
        alike = [x for x in results if ground(x) == (block.protocol["hash"], block.protocol.get("data", ""))]
        own = [row["name"] for row in block.models if row.get("role") != "shuffled actions"]
        models = {name: model for name, x in zip(own, alike, strict=True) if (model := _model(name, x)) is not None}
        try:
            clips += shown_of(models, alike[0]) if models else []
        except (ValueError, OSError) as error:
            print(f"videopred: no clips of {block.protocol['name']} in the report: {error}", file=sys.stderr)
    return clips


def _model(name: str, result: dict[str, Any]) -> Any:
    """The predictor that a result is of, or None, which is said."""
    from videopred import checkpoint

    try:
        loaded = checkpoint.load_either(result["checkpoint"]["name"])
        if loaded.hash != result["checkpoint"].get("hash"):
            raise ValueError("the checkpoint of that name is now another one")
        return loaded.predictor
    except (ValueError, OSError) as error:
        print(f"videopred: no clips of {name} in the report: {error}", file=sys.stderr)
        return None


def labels(paths: Sequence[Path]) -> list[str]:
    """What tells results of one checkpoint apart: the files' stems, or their paths where stems are equal."""
    stems = [path.stem for path in paths]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, paths, strict=True)]
