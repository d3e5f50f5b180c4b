"""A predictor from what a run has saved, or from a model that ships."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from videopred import config, saved, tokenizer
from videopred.data import Recipe
from videopred.predictors import Predictor
from videopred.saved import CONFIG, MODEL, check, fill, read_config, read_tensors, resolve, steps


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
    """The model that `checkpoint` names: a run folder (its newest step), a step folder, or a shipped model's name.

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
    "resolve",
    "steps",
]
