"""`videopred eval`: rolls a checkpoint out under a protocol; a table on the screen, everything in one JSON file."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from videopred import config
from videopred.commands import device, sampling

RESULTS = Path("eval") / "results"


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "eval",
        help="score a checkpoint under a protocol",
        description="Rolls a checkpoint out under a protocol and scores it beside four trivial predictions; of a "
        "tokenizer, each frame of the horizon is made from its own tokens, and the use of codes is told. The table "
        "goes to stdout; the JSON file holds every number, and the .npz beside it one per (clip, sample, frame). "
        "Ended early, the same command goes on with what it had finished, and gives the same numbers.",
    )
    parser.add_argument(
        "checkpoint", nargs="?", metavar="CHECKPOINT", help="a run folder, one of its step_* folders, or a shipped name"
    )
    parser.add_argument("protocol", metavar="PROTOCOL", help="a shipped name, or a path to a TOML file")
    parser.add_argument(
        "--predictions",
        type=Path,
        metavar="PATH",
        help="in place of a checkpoint, with --targets: clips that somebody predicted (.npz with `fake` as TECO writes "
        "them, .npy, videos, or a folder of them), which hold context and horizon, or the horizon alone",
    )
    parser.add_argument("--targets", type=Path, metavar="PATH", help="the true clips (.npz: `real`), in the same order")
    parser.add_argument("--name", metavar="ROW", help="what the row of --predictions is called (default: after PATH)")
    parser.add_argument("--clips", type=int, metavar="N", help="the first N clips in place of the protocol's number")
    parser.add_argument("--samples", type=int, metavar="S", help="rollouts per clip in place of the protocol's number")
    sampling.add_option(parser)
    parser.add_argument("--batch-size", type=int, metavar="B", help="clips rolled out at a time (default 16)")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that share the clips, each on a GPU of its own as far as there are; the numbers are the same "
        "(default 1)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.json",
        help=f"the result (default: {RESULTS}/<checkpoint>-<protocol>.json below the current folder; a run with "
        "--clips or --samples says so in the name, so that it never replaces a whole one, and that of another "
        "checkpoint is not replaced either)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE.html", help="also write one page: tables, curves, clips that play"
    )
    parser.add_argument("--save-clips", type=Path, metavar="DIR", help="also write what was scored: DIR/data_<i>.npz")
    parser.add_argument(
        "--format",
        choices=["table", "markdown", "latex", "csv", "json"],
        default="table",
        help="of what is printed (default table)",
    )
    device.add_option(parser)


def run(args: argparse.Namespace) -> int:
    from videopred.evaluation import report
    from videopred.evaluation.parts import Kept
    from videopred.evaluation.result import write
    from videopred.evaluation.table import render

    if args.report is not None:
        report.require_writable(args.report)
    of_files = args.predictions is not None or args.targets is not None
    if (args.checkpoint is None) != of_files or (args.predictions is None) != (args.targets is None):
        raise config.ConfigError("give CHECKPOINT PROTOCOL, or --predictions PATH --targets PATH PROTOCOL")
    if args.name is not None and not of_files:
        raise config.ConfigError("--name is for --predictions; the row of a checkpoint is called after its folder")
    with ExitStack() as held:
        try:
            result, out, clips = (_files if of_files else _checkpoint)(args, held)
        except KeyboardInterrupt:
            print("videopred: interrupted; the same command goes on with what is finished", file=sys.stderr)
            return 130
        try:
            result.save(out)
            Kept(kept_beside(out)).end()
        except OSError:
            print(f"videopred: {out} was not written; the same command tries again", file=sys.stderr)
            raise
        finally:
            print(render([result.data], args.format))
    saved = "" if args.save_clips is None else f", clips in {args.save_clips}"
    print(f"videopred: result in {out}, arrays in {out.with_suffix('.npz')}{saved}", file=sys.stderr)
    if args.report is not None:
        text = report.page([result.data], clips=clips())
        write(args.report, lambda file: file.write(text.encode(errors="backslashreplace")))
        print(f"videopred: report in {args.report}", file=sys.stderr)
    return 0


def _checkpoint(args: argparse.Namespace, held: ExitStack) -> tuple[Any, Path, Callable[[], list]]:
    """The result, where it goes, and what makes clips for the report. What is kept is held until `held` ends."""
    from videopred import checkpoint
    from videopred.data.hold import hold
    from videopred.evaluation import Protocol, evaluate
    from videopred.evaluation.parts import Kept
    from videopred.evaluation.result import require_writable
    from videopred.evaluation.shown import shown

    protocol = Protocol.load(args.protocol)
    loaded = checkpoint.load_either(args.checkpoint, device.device(args.device))
    loaded = checkpoint.resample(loaded, args.sampling)
    own = {"name": loaded.name, "hash": loaded.hash, "step": loaded.step, "config": loaded.config}
    out = args.out or _unclaimed(default_out(loaded.name, protocol.name, args.clips, args.samples, args.sampling), own)
    require_writable(out)
    held.enter_context(hold(kept_beside(out), "is evaluating"))
    held.callback(Kept(kept_beside(out)).tidy)
    result = evaluate(
        loaded.predictor,
        protocol,
        num_clips=args.clips,
        samples=args.samples,
        batch_size=16 if args.batch_size is None else args.batch_size,
        checkpoint=own,
        progress=True,
        save_clips=args.save_clips,
        workers=args.workers,
        keep=kept_beside(out),
    )
    models = {loaded.name: loaded.predictor}
    return result, out, lambda: shown(models, protocol.shortened(args.clips, 1), result.data)


def _files(args: argparse.Namespace, held: ExitStack) -> tuple[Any, Path, Callable[[], list]]:
    from videopred.data.hold import hold
    from videopred.evaluation import Protocol, evaluate_files
    from videopred.evaluation.files import name_of
    from videopred.evaluation.parts import Kept
    from videopred.evaluation.result import require_writable
    from videopred.evaluation.shown import shown_files

    given = (args.clips, args.samples, args.batch_size, args.save_clips)
    if args.sampling or any(x is not None for x in given):
        raise config.ConfigError(
            "--clips, --samples, --sampling, --batch-size and --save-clips are for a checkpoint; files are scored as "
            "they are"
        )
    protocol = Protocol.load(args.protocol)
    name = args.name or name_of(args.predictions)
    own = {"name": name, "predictions": str(args.predictions), "targets": str(args.targets)}
    out = args.out or _unclaimed(default_out(name.replace(os.sep, "-"), protocol.name, None, None), own)
    require_writable(out)
    where = device.device(args.device)
    held.enter_context(hold(kept_beside(out), "is evaluating"))
    held.callback(Kept(kept_beside(out)).tidy)
    options = {"progress": True, "device": where, "workers": args.workers, "keep": kept_beside(out)}
    files = args.predictions, args.targets, protocol
    result = evaluate_files(*files, name=name, **options)
    return result, out, lambda: shown_files(*files, result.data)


def default_out(
    checkpoint: str, protocol: str, clips: int | None, samples: int | None, sampling: Sequence[str] = ()
) -> Path:
    """Where a result goes if nobody says: named after what was evaluated, below the current folder."""
    changed = [f"-{word}{number}" for word, number in (("clips", clips), ("samples", samples)) if number is not None]
    changed += [f"-{text.partition('=')[0].rpartition('.')[2]}{text.partition('=')[2]}" for text in sampling]
    return RESULTS / f"{checkpoint}-{protocol}{''.join(changed)}.json"


def _unclaimed(out: Path, own: dict[str, Any]) -> Path:
    """`out`, a default name. Raises ConfigError if the result there is of other weights or files than `own`.

    Those of other weights are not replaced even if they are an older step of the same run: a result that took hours is
    not to be lost for a name that nobody chose. What cannot be read as a result is no reason to stop.
    """
    from videopred.evaluation.result import read

    try:
        before = read(out)["checkpoint"]
    except ValueError:
        return out
    if _identity(before) == _identity(own):
        return out
    raise config.ConfigError(
        f"{out}: holds the result of {_told(before)}; that of {_told(own)} would replace it. Give --out FILE.json for "
        "the new one, or move the old one away"
    )


def _identity(checkpoint: dict[str, Any]) -> Any:
    """What tells weights from others, whatever they are called; of files where they lie."""
    paths = [checkpoint.get(side) for side in ("predictions", "targets")]
    return checkpoint.get("hash") or [None if path is None else os.path.abspath(path) for path in paths]


def _told(checkpoint: dict[str, Any]) -> str:
    if "predictions" in checkpoint:
        return f"predictions {checkpoint['predictions']} against {checkpoint.get('targets')}"
    name, step, weights = (checkpoint.get(key) for key in ("name", "step", "hash"))
    return f"checkpoint {name} at step {step} (weights {str(weights)[:12]})"


def kept_beside(out: Path) -> Path:
    """The folder in which finished batches of a result wait."""
    return out.with_suffix(".parts")
