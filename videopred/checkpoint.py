"""A predictor from what a run has saved, or from a model that ships."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from videopred import config, saved, tokenizer
from videopred.data import Recipe
from videopred.predictors import Predictor
from videopred.saved import CONFIG, MODEL, check, fill, read_config, read_tensors, resolve, steps

SAMPLING = ("temperature", "draft_steps", "revise_steps", "revisions")


@dataclass(frozen=True)
class Loaded:
    """A predictor ready to use, in evaluation mode, and where it comes from; `hash` is SHA-256 of the weights file."""

    predictor: nn.Module
    recipe: Recipe
    name: str
    step: int
    hash: str
    config: dict[str, Any]


def load(checkpoint: str, device: torch.device | str = "cpu") -> Loaded:
    """The model that `checkpoint` names: a run folder (its newest step), a step folder, or a name (`saved.resolve`).

    Raises FileNotFoundError if there is none, ValueError if its files are damaged or do not belong together.
    """
    folder = resolve(checkpoint)
    raw = read_config(folder)
    if saved.is_tokenizer(raw):
        raise ValueError(
            f"{folder}: is a tokenizer, which predicts nothing; give a model that was trained on its tokens"
        )
    try:
        recipe = config.from_dict(Recipe, raw["recipe"], "recipe")
        predictor = config.from_dict(Predictor, raw["predictor"], "predictor").build(recipe.format)
    except ValueError as error:
        raise ValueError(f"{folder / CONFIG}: no model can be built from it: {error}") from error
    fill(predictor, read_tensors(folder / MODEL), folder / MODEL)
    predictor = predictor.eval().to(device)
    return Loaded(predictor, recipe, saved.name(folder), saved.step(folder), saved.digest(folder), raw)


def load_either(checkpoint: str, device: torch.device | str = "cpu") -> Loaded:
    """As `load`; of a tokenizer the codec stands in the predictor's place, for what takes both."""
    if not saved.is_tokenizer(read_config(resolve(checkpoint))):
        return load(checkpoint, device)
    trained = tokenizer.load(checkpoint, device)
    return Loaded(trained.codec, trained.recipe, trained.name, trained.step, trained.hash, trained.config)


def resample(loaded: Loaded, texts: Sequence[str]) -> Loaded:
    """The same model, drawing otherwise: `texts` such as "predictor.prior.revisions=0". No weight depends on these.

    Its predictor is changed in place. Raises ValueError for what is not among the settings by which it draws.
    """
    parts = {"predictor": loaded.predictor, "predictor.prior": getattr(loaded.predictor, "prior", None)}
    known = {f"{path}.{key}": part for path, part in parts.items() for key in SAMPLING
             if hasattr(getattr(part, "config", None), key)}  # fmt: skip
    raw = copy.deepcopy(loaded.config)
    for text in texts:
        path = text.partition("=")[0].strip()
        if path not in known:
            raise ValueError(
                f"{text!r}: this model draws by " + (", ".join(known) or "no settings: it is deterministic")
            )
        config.override(raw, text)
        table, part = path.rpartition(".")[0], known[path]
        settings = raw
        for name in table.split("."):
            settings = settings[name]
        part.config = config.from_dict(type(part.config), settings, table)  # type: ignore[union-attr]
    return replace(loaded, config=raw)


__all__ = [
    "CONFIG",
    "MODEL",
    "Loaded",
    "check",
    "fill",
    "load",
    "load_either",
    "read_config",
    "read_tensors",
    "resample",
    "resolve",
    "steps",
]
