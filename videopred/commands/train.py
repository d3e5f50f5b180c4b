"""`videopred train`: trains a preset in a folder, and goes on from what the folder already holds."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from videopred.commands import device
from videopred.config import RUNS

DRAWN = 2  # clips in a strip


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "train",
        help="train a model; the same command again resumes",
        description="Trains what CONFIG says in a run folder: config.toml, metrics.jsonl, step_*, strip_*.png "
        "(truth above prediction). The same command again goes on where it stopped, bit for bit on a CPU. Ctrl-C and "
        "SIGTERM finish the step and save. Under torchrun all processes train one model. Prints the last checkpoint's "
        "path.",
    )
    parser.add_argument("config", metavar="CONFIG", help="a preset (videopred list presets), or a path to a TOML file")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value", help="for example training.steps=100")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"the run folder (default: {RUNS}/<config name>)")
    parser.add_argument(
        "--from",
        dest="origin",
        metavar="CHECKPOINT",
        help="begin a new run with the weights of this model (averaged ones, if it has them); optimiser, "
        "schedule and steps start anew",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="time a few updates instead: prints where the time goes, writes a trace (profile.json) to the run folder",
    )
    device.add_option(parser)


def run(args: argparse.Namespace) -> int:
    from videopred import config

    config.find("presets", args.config)  # a name that is wrong is told before torch is imported
    from videopred.training import RunConfig, distributed
    from videopred.training.loop import train

    origin = [] if args.origin is None else [f"origin.checkpoint={json.dumps(args.origin, ensure_ascii=False)}"]
    preset = config.load(RunConfig, "presets", args.config, [*args.overrides, *origin])
    folder = args.out or RUNS / preset.name
    if args.profile:
        from videopred.training.profile import profiled

        print(profiled(preset, folder, device.device(args.device)))
        return 0
    validate = validation(preset, folder) if preset.training.validate_every else None
    with distributed.joined(device.device(args.device)) as place:
        last = train(preset, folder, place, validate)
        if distributed.rank() == 0:
            print(last)
    return 0


def validation(preset: Any, folder: Path) -> Any:
    """A function that rolls out the last few test clips, draws them in `folder`, and returns their scores.

    Of a tokenizer, it makes each frame from its own tokens.
    """
    import numpy as np

    from videopred import config
    from videopred.data.originals import frames_of
    from videopred.data.strip import strip
    from videopred.data.writer import PictureWriter
    from videopred.evaluation import Protocol, evaluate
    from videopred.metrics.intensity import EnergyConfig, InkConfig
    from videopred.metrics.psnr import PSNRConfig
    from videopred.metrics.ssim import SSIMConfig

    settings, recipe = preset.training, frames_of(preset.recipe)
    clips = len(recipe.build("test", settings.context + settings.horizon))
    if settings.validation_clips > clips:
        raise config.ConfigError(
            f"training.validation_clips = {settings.validation_clips}: the test split has {clips} clips; "
            "ask for at most so many, or turn validation off with training.validate_every=0"
        )
    protocol = Protocol(
        name="validation",
        recipe=recipe,
        first_clip=clips - settings.validation_clips,  # protocols take the first ones
        num_clips=settings.validation_clips,
        context=settings.context,
        horizon=settings.horizon,
        metrics=(PSNRConfig(), SSIMConfig(), InkConfig(), EnergyConfig()),
    )

    def validate(predictor: Any, step: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as kept:
            result = evaluate(predictor, protocol, batch_size=protocol.num_clips, save_clips=kept)
            with np.load(Path(kept) / "data_0.npz") as clips:
                row = result.data["rows"][0]
                made = "from tokens" if "codes" in row else "prediction"
                picture = strip(clips["real"][:DRAWN], clips["fake"][:DRAWN], protocol.context, made=made)
        with PictureWriter(folder / f"strip_{step:08d}.png") as writer:
            writer.write(picture)
        metrics = row["metrics"]
        scores = {f"validation/{kind}/{window}": found["mean"]
                  for kind, score in metrics.items() for window, found in score.get("windows", {}).items()}  # fmt: skip
        scores |= {f"validation/{name}": row["codes"][name] for name in ("usage", "perplexity") if "codes" in row}
        return {name: score for name, score in scores.items() if score is not None}

    return validate
