"""`videopred sweep`: the cells of an ablation, trained and scored under one budget, in one table."""

import argparse
from pathlib import Path
from typing import Any

from videopred.commands import device
from videopred.config import RUNS

RESULTS = Path("eval") / "results"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "sweep",
        help="run an ablation: one preset, changed cell by cell",
        description="Trains and scores each cell of an ablation file and prints one table. The result file is "
        "rewritten after each cell. The same command again goes on: cells that are in the file are not run again, one "
        "that was cut short resumes.",
    )
    parser.add_argument("ablation", metavar="FILE", help="a shipped name (videopred list ablations), or a path")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help=f"default: {RESULTS}/ablation-<name>.json")
    parser.add_argument("--runs", type=Path, metavar="DIR", help=f"run folders (default: {RUNS}/ablation-<name>)")
    parser.add_argument("--format", choices=["table", "markdown", "json"], default="table", help="default: table")
    device.add_option(parser)


def run(args: argparse.Namespace) -> int:
    import json

    from videopred import config

    config.find("ablations", args.ablation)  # a name that is wrong is told before torch is imported
    from videopred.evaluation.sweep_table import table
    from videopred.sweep import Ablation, say, sweep

    ablation = config.load(Ablation, "ablations", args.ablation)
    out = args.out or RESULTS / f"ablation-{ablation.name}.json"
    runs = args.runs or RUNS / f"ablation-{ablation.name}"
    data = sweep(ablation, work(ablation, device.device(args.device)), runs, out)
    say(f"the result is {out}, the trained models are in {runs}")
    print(json.dumps(data, indent=1) if args.format == "json" else table(data, markdown=args.format == "markdown"))
    return 0


def work(ablation: Any, place: Any) -> Any:
    """What training and evaluation give a sweep on this device."""
    from videopred import checkpoint, config
    from videopred.evaluation import Protocol, evaluate
    from videopred.sweep import Failed, Work
    from videopred.training import RunConfig
    from videopred.training.loop import Diverged, train
    from videopred.training.timing import costs

    protocol = Protocol.load(ablation.protocol).shortened(ablation.clips or None, None)

    def parameters(preset: Any) -> int:
        return sum(p.numel() for p in preset.predictor.build(preset.recipe.format).parameters())

    def trained(preset: Any, folder: Path) -> Path:
        try:
            return train(preset, folder, place)
        except Diverged as error:
            raise Failed(str(error)) from error

    def scored(path: Path) -> dict[str, Any]:
        loaded = checkpoint.load(str(path), place)
        of = {"name": loaded.name, "hash": loaded.hash, "step": loaded.step}
        return evaluate(loaded.predictor, protocol, checkpoint=of, progress=True).data

    return Work(
        load=lambda overrides: config.load(RunConfig, "presets", ablation.base, overrides),
        parameters=parameters,
        costs=lambda presets: costs(presets, place),
        train=trained,
        evaluate=scored,
        protocol=protocol.to_dict(),
    )
