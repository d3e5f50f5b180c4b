"""`videopred show`: a config with everything filled in, and the size of each part of its model.

The output is the TOML that `videopred train` takes; what is not TOML stands in comments.
"""

import argparse
from collections import Counter
from typing import Any

from videopred import config


def add(subparsers) -> None:
    parser = subparsers.add_parser("show", help="a config in full and its model's parts", description=__doc__)
    source = "a preset, a TOML file, or a checkpoint's folder; a name that is both means the preset"
    parser.add_argument("source", metavar="CONFIG_OR_CHECKPOINT", help=source)


def run(args: argparse.Namespace) -> int:
    table, predictor = _config(args.source) if _is_config(args.source) else _checkpoint(args.source)
    print(config.dumps(table))
    counts = _parameters(predictor)
    width = max(map(len, counts))
    print("# parameters")
    for part, count in [*counts.items(), ("total", sum(counts.values()))]:
        print(f"#   {part:<{width}}  {count:>13,}")
    return 0


def _is_config(source: str) -> bool:
    return source.endswith(".toml") or source in config.shipped("presets")


def _config(source: str) -> tuple[Any, Any]:
    from videopred.training import RunConfig

    run = config.load(RunConfig, "presets", source)
    return run, run.predictor.build(run.recipe.format)


def _checkpoint(source: str) -> tuple[Any, Any]:
    from videopred import checkpoint

    try:
        loaded = checkpoint.load_either(source)
    except FileNotFoundError as error:
        raise ValueError(f"{error}; presets: {', '.join(config.shipped('presets'))}") from error
    return loaded.config, loaded.predictor


def _parameters(predictor: Any) -> Counter[str]:
    """Numbers of trained parameters by part, the layers of a stack together: `stack.dynamics`, `stack.spatial`, ..."""
    counts: Counter[str] = Counter()
    for name, parameter in predictor.named_parameters():
        words = [word for word in name.split(".")[:-1] if word != "layers" and not word.isdigit()]
        counts[".".join(words[:2])] += parameter.numel()
    return counts
