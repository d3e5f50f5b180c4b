"""`videopred eval`: rolls a checkpoint out under a protocol; a table on the screen, everything in one JSON file."""

import argparse
import sys
from pathlib import Path
from typing import Any

from videopred.commands import device

RESULTS = Path("eval") / "results"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "eval",
        help="score a checkpoint under a protocol",
        description="Rolls a checkpoint out under a protocol and scores it beside four trivial predictions. The table "
        "goes to stdout; the JSON file holds every number, and the .npz beside it one per (clip, sample, frame).",
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="a run folder, one of its step_* folders, or a shipped name"
    )
    parser.add_argument("protocol", metavar="PROTOCOL", help="a shipped name, or a path to a TOML file")
    parser.add_argument("--clips", type=int, metavar="N", help="the first N clips in place of the protocol's number")
    parser.add_argument("--samples", type=int, metavar="S", help="rollouts per clip in place of the protocol's number")
    parser.add_argument(
        "--batch-size", type=int, default=16, metavar="B", help="clips rolled out at a time (default 16)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help=f"the result (default: {RESULTS}/<checkpoint>-<protocol>.json below the current folder; a run with "
        "--clips or --samples says so in the name, so that it never replaces a whole one)",
    )
    parser.add_argument("--save-clips", type=Path, metavar="DIR", help="also write what was scored: DIR/data_<i>.npz")
    parser.add_argument(
        "--format",
        choices=["table", "markdown", "csv", "json"],
        default="table",
        help="of what is printed (default table)",
    )
    device.add_option(parser)


def run(args: argparse.Namespace) -> int:

    from videopred import checkpoint
    from videopred.evaluation import Protocol, evaluate
    from videopred.evaluation.result import require_writable
    from videopred.evaluation.table import render

    protocol = Protocol.load(args.protocol)
    loaded = checkpoint.load(args.checkpoint, device.device(args.device))
    out = args.out or default_out(loaded.name, protocol.name, args.clips, args.samples)
    require_writable(out)
    try:
        result = evaluate(
            loaded.predictor,
            protocol,
            num_clips=args.clips,
            samples=args.samples,
            batch_size=args.batch_size,
            checkpoint={"name": loaded.name, "hash": loaded.hash, "step": loaded.step, "config": loaded.config},
            progress=True,
            save_clips=args.save_clips,
        )
    except KeyboardInterrupt:
        print(f"videopred: interrupted; {out} was not written", file=sys.stderr)
        return 130
    result.save(out)
    print(render([result.data], args.format))
    print(f"videopred: result in {out}, arrays in {out.with_suffix('.npz')}", file=sys.stderr)
    return 0


def default_out(checkpoint: str, protocol: str, clips: int | None, samples: int | None) -> Path:
    """Where a result goes if nobody says: named after what was evaluated, below the current folder."""
    changed = [f"-{word}{number}" for word, number in (("clips", clips), ("samples", samples)) if number is not None]
    return RESULTS / f"{checkpoint}-{protocol}{''.join(changed)}.json"
