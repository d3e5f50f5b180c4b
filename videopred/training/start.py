"""How a run begins: its predictor, untrained, with the trained codec inside that it is built upon, if it is."""

from dataclasses import replace

import torch
from torch import nn

from videopred import config, tokenizer
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
