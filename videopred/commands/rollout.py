"""`videopred rollout`: what a checkpoint predicts, as a video, a picture or arrays, for as long as one likes."""

import argparse
import dataclasses
import sys
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

from videopred.commands import action_list, device, progress, sampling
from videopred.config import RUNS

CONTEXT, HORIZON, FPS = 16, 200, Fraction(20)  # where neither the command line nor the checkpoint or file says
LEAST = {"index": 0, "count": 1, "context": 1, "horizon": 1, "samples": 1, "seed": 0, "scale": 1}
WARMUP = 2  # frames that --profile leaves out, for the first ones are slower
TRUTH_BYTES = 2**29  # of true frames that are held: truth without an end is shown for so long


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "rollout",
        help="predict frames, as long as you like, into a video",
        description="Shows a checkpoint the first frames of a clip and lets it go on by itself. Truth stands beside "
        "prediction for as long as there is truth. Frames are written as they come, so that any horizon takes the same "
        "memory. Prints the path of the file.",
    )
    option = parser.add_argument
    named = f"a run folder, one of its step_* folders, or the name of a shipped model or of a run in {RUNS}"
    option("checkpoint", metavar="CHECKPOINT", help=named)
    option("--out", type=Path, required=True, metavar="FILE", help="ends in .mp4 .webm .gif .png or .npz")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--recipe", metavar="R", help="test clips of this recipe (default: of the checkpoint's own)")
    source.add_argument(
        "--clip", type=Path, metavar="FILE", help="clips of a .npz or .npy file, a video, or a folder of pictures"
    )
    option("--index", type=int, default=0, metavar="I", help="the first clip (default 0)")
    option("--count", type=int, default=1, metavar="N", help="clips I, I+1, ... in one file (default 1)")
    option("--context", type=int, metavar="C", help=f"frames shown (default: the checkpoint's, or {CONTEXT})")
    option("--horizon", type=int, metavar="H", help=f"frames predicted (default: the checkpoint's, or {HORIZON})")
    option(
        "--actions",
        metavar="FILE|LIST",
        help="that lead to the predicted frames: a list such as left,left,forward*20, by the names of the checkpoint's "
        "recipe, or by number (-1 or unknown: not known); a .txt of such; or an .npz with `actions` (default: the "
        "clip's own)",
    )
    option("--samples", type=int, default=1, metavar="S", help="rollouts per clip, of a stochastic model (default 1)")
    option("--seed", type=int, default=0, metavar="S", help="of the samples (default 0)")
    sampling.add_option(parser)
    option("--scale", type=int, metavar="K", help="draws pixels as squares of K (default: as suits the clips)")
    option("--fps", metavar="F", help=f"frames per second of a video (default: the clip's, or {FPS})")
    option(
        "--profile",
        action="store_true",
        help="also print where the time of a frame goes, of all clips and samples together, part by part",
    )
    device.add_option(parser)


def run(args: argparse.Namespace) -> int:
    from videopred import checkpoint
    from videopred.data.drawing import Layout
    from videopred.data.writer import require_writable, rollout_writer
    from videopred.predictors.timeline import Timeline

    for name, least in LEAST.items():
        if getattr(args, name) is not None and getattr(args, name) < least:
            raise ValueError(f"--{name} {getattr(args, name)}: must be at least {least}")
    require_writable(args.out)
    if args.clip is not None and args.clip.exists() and args.out.exists() and args.out.samefile(args.clip):
        raise ValueError(f"--out {args.out}: is the clip itself; give another name, so that it is not replaced")
    fps = None if args.fps is None else _fps(args.fps, args.out.suffix)
    place = device.device(args.device)
    loaded = checkpoint.resample(checkpoint.load(args.checkpoint, place), args.sampling)
    predictor: Any = loaded.predictor
    if args.samples > 1 and predictor.noise_shape() is None:
        raise ValueError(f"--samples {args.samples}: this model is deterministic, all would be the same; ask for 1")

    names = getattr(loaded.recipe, "action_names", ())
    given = None if args.actions is None else action_list.read(args.actions, names)
    context, horizon = _lengths(args, loaded.config.get("training"), given)
    dataset = _dataset(args, loaded, context + horizon)
    clip = _batch(dataset, args, context)
    actions = _joined(given, clip, context, horizon, predictor.format.num_actions)
    if actions is not None and args.horizon is None:
        horizon = min(horizon, actions.shape[1] - context)
    _require_actions(actions, context, horizon, predictor.format.num_actions)
    clip = clip if given is None else _while_agreeing(clip, actions, context)
    words = _words(actions, names)
    layout = Layout(predictor.format, clip.id, context, horizon, args.samples, args.scale, words)
    fps = fps or getattr(dataset, "fps", None) or FPS
    timeline = Timeline(place) if args.profile else None
    with rollout_writer(args.out, layout, fps, None if actions is None else actions.numpy()) as write:
        _roll_out(predictor, clip, actions, layout, args.seed, place, write, timeline)
    if timeline is not None:
        print(*timeline.table("frame, by part", horizon - _unwatched(horizon)), sep="\n")
    print(args.out)
    return 0


def _unwatched(horizon: int) -> int:
    return min(WARMUP, horizon - 1)


def _roll_out(
    predictor: Any, clip: Any, actions: Any, layout: Any, seed: int, place: Any, write: Any, timeline: Any = None
) -> None:
    """Writes the context and then what is predicted, frame by frame; `timeline` is told what takes how long."""
    import torch

    from videopred.clip import Clip, to_uint8
    from videopred.predictors.timeline import by_part
    from videopred.rollout import noise_for, rollout

    truth, context, ahead = clip.frames.numpy(), layout.context, None
    if actions is not None:
        actions = actions.to(place)
        actions, ahead = actions[:, :context], actions[:, context:]
    with torch.no_grad():
        state = predictor.observe(Clip(frames=clip.frames[:, :context].to(place), actions=actions, id=clip.id))
    draw = noise_for
    if timeline is not None:
        draw, write = timeline.within("noise", draw), timeline.within("writing", write)
    samples = [
        rollout(predictor, state, actions=ahead, record=timeline is None,
                noise=lambda i, s=s: draw(predictor, seed, layout.clips, s, i))
        for s in range(layout.samples)
    ]  # fmt: skip
    for t in range(context):
        write(truth[:, t], truth[:, t, None].repeat(layout.samples, 1))
    broken: dict[str, int] = {}  # clip: its first frame that is not finite
    with nullcontext() if timeline is None else by_part(predictor, timeline):
        for t in progress.told(range(layout.horizon), layout.horizon, "rollout", "frames"):
            if timeline is not None and t == _unwatched(layout.horizon):
                timeline.reset()
            frames = torch.stack([next(sample) for sample in samples], 1).cpu()  # (n, samples, c, h, w)
            for i in (~frames.isfinite().flatten(1).all(1)).nonzero().flatten().tolist():
                broken.setdefault(layout.clips[i], t + 1)
            real = truth[:, context + t] if context + t < truth.shape[1] else None
            write(real, to_uint8(frames.nan_to_num(nan=-1)).numpy())
    for name, frame in broken.items():
        print(f"videopred: clip {name}: not finite from predicted frame {frame} on; drawn black", file=sys.stderr)


def _while_agreeing(clip: Any, actions: Any, context: int) -> Any:
    """The clips without the truth that came of other actions than the given ones; whole where theirs are unknown."""
    if clip.actions is None:
        return clip
    length = min(clip.actions.shape[1], actions.shape[1])
    apart = (clip.actions[:, :length] != actions[:, :length]).any(0).nonzero().flatten().tolist()
    end = min([frame for frame in apart if frame >= context], default=clip.frames.shape[1])
    if end < clip.frames.shape[1]:
        frame = end - context + 1
        print(
            f"videopred: from predicted frame {frame} on the actions differ from the clip's: no truth", file=sys.stderr
        )
    return dataclasses.replace(clip, frames=clip.frames[:, :end])


def _lengths(args: argparse.Namespace, training: Any, given: Any) -> tuple[int, int]:
    """Context and horizon: as the command line says; else as many frames as actions; else as the checkpoint says."""
    horizon = args.horizon or (given.shape[-1] if given is not None else _length(training, "horizon", HORIZON))
    return args.context or _length(training, "context", CONTEXT), horizon


def _length(training: Any, name: str, usual: int) -> int:
    """What [training] of a checkpoint's config.toml says. Raises ValueError if that is no length."""
    length = training.get(name, usual) if isinstance(training, dict) else usual
    if type(length) is not int or length < 1:
        raise ValueError(
            f"config.toml of the checkpoint says training.{name} = {length!r}: must be a whole number from 1 on; "
            f"mend it, or give --{name}"
        )
    return length


def _dataset(args: argparse.Namespace, loaded: Any, frames: int) -> Any:
    """Clips of the file, or test clips of the recipe, up to `frames` frames long."""
    from videopred import config
    from videopred.data import Recipe
    from videopred.data.clip_file import ClipFile
    from videopred.data.originals import frames_of

    format = loaded.predictor.format
    frames = min(frames, max(1, TRUTH_BYTES // (args.count * format.height * format.width * format.channels)))
    if args.clip is not None:
        return ClipFile(args.clip, format, frames)
    recipe = frames_of(loaded.recipe if args.recipe is None else config.load(Recipe, "recipes", args.recipe))  # type: ignore[arg-type]
    has, takes = (f"{f.height} x {f.width} x {f.channels}" for f in (recipe.format, format))
    if has != takes:
        raise ValueError(
            f"recipe {recipe.name!r} gives frames of {has}, the model takes {takes}; choose another recipe"
        )
    most = recipe.build("test", 1).max_frames
    return recipe.build("test", frames if most is None else min(frames, most))


def _batch(dataset: Any, args: argparse.Namespace, context: int) -> Any:
    """The clips that are asked for. Raises ValueError if there are not so many, or they end within the context."""
    from videopred.clip import stack

    last = args.index + args.count - 1
    if last >= len(dataset):
        raise ValueError(f"clip {last} is asked for, there are clips 0..{len(dataset) - 1}; see --index and --count")
    clip = stack([dataset[i] for i in range(args.index, last + 1)])
    if clip.num_frames < context:
        raise ValueError(f"--context {context}: the clip has {clip.num_frames} frames; ask for at most so many")
    return clip


def _joined(given: Any, clip: Any, context: int, horizon: int, num_actions: int) -> Any:
    """Actions (n, t) of context and predicted frames, the given ones in place of the clip's; None if there are none."""
    import torch

    if given is None:
        return clip.actions if num_actions and clip.actions is not None else None
    if num_actions == 0:
        raise ValueError("--actions: this model takes no actions")
    count = len(clip.frames)
    if given.ndim == 2 and len(given) != count:
        raise ValueError(f"--actions: there are rows for {len(given)} clips; --count is {count}")
    if clip.actions is None:
        print("videopred: the clip has no actions: those of its context are unknown to the model", file=sys.stderr)
    before = torch.full((count, context), -1) if clip.actions is None else clip.actions[:, :context]
    ahead = torch.from_numpy(given)[..., :horizon]
    return torch.cat([before, ahead.expand(count, ahead.shape[-1])], 1)


def _require_actions(actions: Any, context: int, horizon: int, num_actions: int) -> None:
    """Raises ValueError unless there is a valid action for every frame, where the model needs them."""
    if actions is None and num_actions > 1:
        raise ValueError(
            "this model needs the actions that lead to the predicted frames, and the clip has none; give --actions, "
            f"each 0..{num_actions - 1}, or -1 for unknown"
        )
    if actions is None:
        return
    known = actions.shape[1] - context
    if known < horizon or horizon < 1:
        raise ValueError(
            f"--horizon {horizon}: there are actions for {known} frames after the context of {context}; ask for at "
            "most so many, or give more by --actions"
        )
    low, high = int(actions.min()), int(actions.max())
    if low < -1 or high >= num_actions:
        raise ValueError(f"actions lie in {low}..{high}; must be 0..{num_actions - 1}, or -1 for unknown")


def _words(actions: Any, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """What is written under every frame of every clip: its action's name; nothing where actions have no names."""
    if actions is None or not names:
        return ()
    return tuple(tuple("unknown" if i < 0 else names[i] for i in row) for row in actions.tolist())


def _fps(text: str, suffix: str) -> Fraction:
    """Frames per second: a number such as 29.97, or a fraction such as 30000/1001."""
    most = 50 if suffix.lower() == ".gif" else 1000  # viewers slow down a .gif that is faster
    try:
        fps = Fraction(text).limit_denominator(1001)
    except (ValueError, ZeroDivisionError):
        fps = Fraction(0)
    if not 0 < fps <= most:
        raise ValueError(f"--fps {text}: must be a number above 0, and at most {most} for {suffix}")
    return fps
