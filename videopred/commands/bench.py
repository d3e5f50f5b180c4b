"""`videopred bench`: how fast it is here, beside what it has to be compared with, measured in turn."""

import argparse
from pathlib import Path
from typing import Any


def add(subparsers: Any) -> None:
    from videopred.bench import NAMES, OF_A_MODEL

    parser = subparsers.add_parser(
        "bench",
        help="how fast it is on this machine",
        description="Measures one part of videopred beside what it is to be compared with, in turn, round\n"
        "after round. A ratio is the median over rounds of this row's time over that of the row it names. The number\n"
        "of threads is torch's; OMP_NUM_THREADS sets it.",
        epilog="benches (without one, this list is printed):\n" + "\n".join(listed()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bench", nargs="?", choices=NAMES, metavar="BENCH", help="one of those below")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter rollouts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    parser.add_argument("--curve", type=Path, metavar="FILE.svg", help="of rollout only: draws frame time over horizon")
    parser.add_argument(
        "--checkpoint",
        metavar="CHECKPOINT",
        help=f"of {' and '.join(OF_A_MODEL)} only (default: the shipped moving-mnist-small, or where that is missing "
        "the same untrained)",
    )


def listed() -> list[str]:
    """A line for each bench: its name and what it measures."""
    from videopred.bench import NAMES

    return [f"  {name:<{max(map(len, NAMES))}}  {what}" for name, what in NAMES.items()]


def run(args: argparse.Namespace) -> int:
    import importlib

    from videopred.bench import OF_A_MODEL

    if args.bench is None:
        print(*listed(), sep="\n")
        return 0
    if args.checkpoint is not None and args.bench not in OF_A_MODEL:
        raise ValueError(f"--checkpoint {args.checkpoint}: only {' and '.join(OF_A_MODEL)} take one")

    from videopred import allocator
    from videopred.bench import curve, machine, report
    from videopred.data.whole_file import require_writable

    if args.curve is not None and (args.bench != "rollout" or args.curve.suffix != ".svg"):
        raise ValueError(f"--curve {args.curve}: only `bench rollout` has one, and its name must end in .svg")
    for path in filter(None, (args.json, args.curve)):
        require_writable(path)
    bench = importlib.import_module(f"videopred.bench.{args.bench}")
    rows = list(bench.rows(args.quick, args.checkpoint))
    environment = machine.environment(rounds=5 if args.quick else 15)  # last: what it frees would hide a leak
    environment["keeps_freed_memory"] = allocator.keep_memory()  # as `cli` did before all this: it halves some times
    data = report.to_dict(args.bench, args.quick, environment, rows)
    if args.json is not None:
        report.save(data, args.json)
    if args.curve is not None:
        report.write(curve.curve(data["rows"]), args.curve)
    print(report.table(data))
    return 0
