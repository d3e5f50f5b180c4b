"""`videopred weights`: the files of other people's networks that FVD and LPIPS need."""

import argparse
import sys
from pathlib import Path
from typing import Any


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "weights",
        help="get the weight files that FVD and LPIPS need",
        description="The files of other people's networks that FVD and LPIPS need. Nothing is downloaded but by fetch.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="which files there are, and which are here")
    fetch = actions.add_parser("fetch", help="download one; run again, it goes on where it stopped")
    fetch.add_argument("name", metavar="NAME")
    given = actions.add_parser("add", help="take over a file that you have")
    given.add_argument("name", metavar="NAME")
    given.add_argument("file", metavar="FILE", type=Path)
    actions.add_parser("path", help="print the folder in which they are kept")


def run(args: argparse.Namespace) -> int:
    from videopred import weights

    if args.action == "path":
        print(weights.folder())
    elif args.action == "list":
        _list()
    else:
        fetched = args.action == "fetch"
        print(weights.fetch(args.name, progress=True) if fetched else weights.add(args.name, args.file))
        print(f"videopred: SHA-256 {weights.recorded(args.name)}", file=sys.stderr)
    return 0


def _list() -> None:
    from videopred import weights

    width = max(len(name) for name in weights.KNOWN)
    for name, known in weights.KNOWN.items():
        path = weights.find(name)
        sum_ = weights.recorded(name)
        seen = f", SHA-256 {sum_[:16]}..." if sum_ else ", never loaded"
        print(f"{name:<{width}}  {known.megabytes:4d} MB  {known.about}: {f'{path}{seen}' if path else 'missing'}")
