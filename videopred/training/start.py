"""How a run begins: its predictor, untrained, with the trained codec inside that it is built upon, if it is.

Or, where the run has an origin, with the weights of another run's model: those that predict, the average if it has one.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from videopred import config, saved, tokenizer
from videopred.training import RunConfig


def begin(run: RunConfig, device: torch.device) -> tuple[RunConfig, nn.Module, torch.optim.Optimizer]:
    """Sets threads and seed, and gives what `start` does, the predictor on `device`, with its optimiser."""
    settings = run.training
    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    run, predictor = start(run)
    predictor = predictor.to(device)
    return run, predictor, settings.optimizer.build(predictor)


def start(run: RunConfig) -> tuple[RunConfig, nn.Module]:
    """The predictor of `run`, and `run` with the hash of the codec whose weights were put in.

    Raises FileNotFoundError if there is no such codec, ConfigError or ValueError if it is not what the run needs.
    """
    predictor = run.predictor.build(run.recipe.format)
    part = getattr(run.predictor, "tokenizer", None)
    if part is None:
        return run, predictor
    if not part.checkpoint:
        raise config.ConfigError(
            "predictor.tokenizer.checkpoint = '': a codec must be trained first (videopred train doom-maze-vq-small); "
            "then give its run folder or name"
        )
    trained = tokenizer.load(part.checkpoint)
    trained.require(run.recipe.format, f"recipe {run.recipe.name!r}")
    if part.hash not in ("", trained.hash):
        raise config.ConfigError(
            f"predictor.tokenizer.hash = {part.hash!r}: the codec {part.checkpoint} now has {trained.hash!r}; name the "
            "codec that the run began with as predictor.tokenizer.checkpoint, or give a new run an empty hash"
        )
    if lines := config.difference(
        config.to_dict(part.codec), trained.config["predictor"]["codec"], "predictor.tokenizer.codec"
    ):
        raise config.ConfigError(f"the codec {part.checkpoint} has another shape than the config: {'; '.join(lines)}")
    predictor.tokenizer.codec.load_state_dict(trained.codec.state_dict())  # type: ignore[union-attr]
    settled = replace(run.predictor, tokenizer=replace(part, hash=trained.hash))  # type: ignore[call-arg]
    return replace(run, predictor=settled), predictor


def take_over(run: RunConfig, folder: Path, model: nn.Module) -> RunConfig:
    """Fills `model` from the origin of `run`, if it has one and `folder` holds no step yet; `run` with its hash.

    Raises FileNotFoundError if there is no such checkpoint, ValueError if its weights are not this model's.
    """
    origin, path = run.origin, folder / saved.CONFIG
    if origin is None:
        return run
    if saved.steps(folder):
        there = config.parse(path).get("origin", {}) if path.exists() else {}
        same = there.get("checkpoint") == origin.checkpoint and not origin.hash
        return replace(run, origin=replace(origin, hash=there.get("hash", ""))) if same else run
    source = saved.resolve(origin.checkpoint)
    raw, found = saved.read_config(source), saved.digest(source)
    if origin.hash not in ("", found):
        raise ValueError(f"origin.hash = {origin.hash!r}: {source} now has {found!r}; give the model that it was")
    codecs = getattr(getattr(run.predictor, "tokenizer", None), "hash", ""), _codec(raw)
    if codecs[0] != codecs[1]:
        raise ValueError(
            f"{source}: stands on the codec {codecs[1][:12] or 'none'}, and this run on {codecs[0][:12] or 'none'}; "
            "give the codec of that model as predictor.tokenizer.checkpoint"
        )
    saved.fill(model, saved.read_tensors(source / saved.MODEL), source / saved.MODEL)
    return replace(run, origin=replace(origin, hash=found))


def _codec(raw: dict[str, Any]) -> str:
    """The hash of the codec that a saved configuration's predictor stands on; "" if on none."""
    part = raw["predictor"].get("tokenizer", {}) if isinstance(raw["predictor"], dict) else {}
    return part.get("hash", "") if isinstance(part, dict) else ""
