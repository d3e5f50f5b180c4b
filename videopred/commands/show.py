"""`videopred show`: a config with everything filled in, and what each part of its model is and costs.

The output is the TOML that `videopred train` takes; what is not TOML stands in comments.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from videopred import config

FRAMES = 2  # observed, before the one whose cost is counted


def add(subparsers) -> None:
    parser = subparsers.add_parser("show", help="a config in full and its model's parts", description=__doc__)
    source = "a preset, a TOML file, or a checkpoint's folder; a name that is both means the preset"
    parser.add_argument("source", metavar="CONFIG_OR_CHECKPOINT", help=source)


def run(args: argparse.Namespace) -> int:
    from videopred.predictors.parts import parameters

    table, predictor = _config(args.source) if _is_config(args.source) else _checkpoint(args.source)
    predictor = getattr(predictor, "kept", predictor)  # of a tokenizer the codec, without its critic
    print(_explained(config.dumps(table), predictor))
    flops, states = cost(predictor) if hasattr(predictor, "predict") else (there_and_back(predictor), Counter())
    counts = parameters(predictor)
    _print(("part", "parameters", "FLOPs per frame"), {part: (counts[part], flops[part]) for part in counts | flops})
    if states:
        print("#")
        heads = f"state of one clip after {FRAMES + 1} frames", "bytes"
        _print(heads, {name: (size,) for name, size in states.items()})
    if prior := getattr(predictor, "prior", None):
        print(f"#\n# calls of the prior per frame: {prior.calls}")
    return 0


def _explained(text: str, predictor: Any) -> str:
    """The config with a comment where a 0 stands for a number that the recipe gives."""
    told = f"num_actions = 0  # 0: as many as the recipe has, {predictor.format.num_actions}"
    return text.replace("[predictor.actions]\nnum_actions = 0\n", f"[predictor.actions]\n{told}\n")


def cost(predictor: Any) -> tuple[Counter[str], Counter[str]]:
    """FLOPs of one predicted frame by part, and bytes of the state after it, by layer where there is a stack."""
    import torch

    from videopred.clip import Clip
    from videopred.evaluation.cost import flops_by_part
    from videopred.predictors.stack import Stack
    from videopred.rollout import noise_for

    form, ids = predictor.format, ("",)
    predictor.eval()
    unknown = torch.full((1, FRAMES), -1)
    frames = torch.zeros(1, FRAMES, form.height, form.width, form.channels, dtype=torch.uint8)
    action, noise = unknown[:, 0] if form.num_actions else None, noise_for(predictor, 0, ids, 0, 0)
    with torch.no_grad():
        state = predictor.observe(Clip(frames=frames, actions=unknown if form.num_actions else None, id=ids))
        flops, layers = flops_by_part(predictor, state, action, noise), []
        hooks = [
            part.register_forward_hook(lambda stack, args, output: layers.extend(output[1]))
            for part in predictor.modules()
            if isinstance(part, Stack)
        ]
        newest, memory = predictor.predict(state, action, noise)[1]
        for hook in hooks:
            hook.remove()
    sizes = Counter({"newest frame": _bytes(newest)})
    sizes |= Counter({f"layer {i}": _bytes(layer) for i, layer in enumerate(layers)})
    return flops, +(sizes | Counter({"other": _bytes(memory) - sum(map(_bytes, layers))}))


def there_and_back(codec: Any) -> Counter[str]:
    """FLOPs of a frame to tokens and back by part."""
    import torch

    from videopred.nn.flops import counting
    from videopred.predictors.parts import spending

    form = codec.format
    frame = torch.zeros(1, 1, form.channels, form.height, form.width)
    with torch.no_grad(), counting() as counter, spending(codec, counter.get_total_flops) as spent:
        codec.eval().decode(codec.embed(codec.tokenize(frame)))
    return spent + Counter({"(other)": counter.get_total_flops() - spent.total()})


def _bytes(state: Any) -> int:
    return sum(map(_bytes, state)) if isinstance(state, tuple) else 0 if state is None else state.nbytes


def _print(heads: tuple[str, ...], rows: dict[str, tuple[int, ...]]) -> None:
    """A table in comments, with a total."""
    rows = rows | {"total": tuple(map(sum, zip(*rows.values(), strict=True)))}
    lines = [heads, *((name, *(f"{number:,}" for number in row)) for name, row in rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *cells in lines:
        print(f"# {name:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True)), sep="  ")


def _is_config(source: str) -> bool:
    return source.endswith(".toml") or source in config.shipped("presets")


def _config(source: str) -> tuple[Any, Any]:
    from videopred.training import RunConfig

    run = config.load(RunConfig, "presets", source)
    return run, run.predictor.build(run.recipe.format)


def _checkpoint(source: str) -> tuple[Any, Any]:
    from videopred import checkpoint, saved

    try:
        loaded = checkpoint.load_either(source)
    except FileNotFoundError as error:
        names = [*saved.shipped(), *saved.runs()]
        if "/" in source or Path(source).exists() or source in names:
            raise
        told = config.meant(source, [*config.shipped("presets"), *names])
        raise ValueError(f"{source}: neither a preset nor a checkpoint{told} (or give a path)") from error
    return loaded.config, loaded.predictor
