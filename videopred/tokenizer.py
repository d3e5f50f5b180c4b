"""Tokenizers that a run has trained, frozen for use. Read as every model is: `videopred.saved` says from where."""

from dataclasses import dataclass
from typing import Any

import torch

from videopred import config, saved
from videopred.clip import Format
from videopred.codecs import Tokenizer
from videopred.codecs.vqgan import VQGAN
from videopred.data import Recipe


@dataclass(frozen=True)
class Trained:
    """A frozen codec in evaluation mode and where it comes from.

    recipe : what it was trained on; frames of another size or other channels are refused
    hash   : SHA-256 of the weights file, to which tokens belong
    """

    codec: VQGAN
    recipe: Recipe
    name: str
    step: int
    hash: str
    config: dict[str, Any]

    def require(self, format: Format, what: str) -> None:
        """Raises ValueError unless frames of `format` are what the codec was trained on, and tokens its own.

        `what` is called so in the error.
        """
        has, takes = ((f.channels, f.height, f.width) for f in (format, self.recipe.format))
        if has != takes:
            raise ValueError(
                f"{what}: has frames of {has[1]}x{has[2]} and {has[0]} channels; the codec {self.name} takes "
                f"{takes[1]}x{takes[2]} and {takes[0]}; give a codec that was trained on such frames"
            )
        if format.codec not in ("", self.hash):
            raise ValueError(
                f"{what}: holds tokens of a codec with hash {format.codec[:12]}, and {self.name} has {self.hash[:12]}; "
                "give the codec that made them, or encode anew"
            )


def load(checkpoint: str, device: torch.device | str = "cpu") -> Trained:
    """The codec that `checkpoint` names: a run folder, a step folder, or a name (`saved.resolve`).

    Raises FileNotFoundError if there is none, ValueError if it holds no tokenizer or its files are damaged.
    """
    try:
        folder = saved.resolve(checkpoint)
    except FileNotFoundError as error:
        if checkpoint in config.shipped("presets"):
            raise FileNotFoundError(
                f"{checkpoint}: has not been trained; run `videopred train {checkpoint}`"
            ) from error
        raise
    raw = saved.read_config(folder)
    if not saved.is_tokenizer(raw):
        raise ValueError(
            f"{folder}: is a predictor, not a tokenizer; give what `videopred train` made of a preset with "
            'predictor.kind = "tokenizer", such as doom-maze-vq-small'
        )
    try:
        recipe = config.from_dict(Recipe, raw["recipe"], "recipe")
        frames = recipe.format
        codec = config.from_dict(Tokenizer, raw["predictor"].get("codec", {}), "predictor.codec").build(
            frames.channels, frames.height, frames.width
        )
    except ValueError as error:
        raise ValueError(f"{folder / saved.CONFIG}: no codec can be built from it: {error}") from error
    saved.fill(codec, saved.read_tensors(folder / saved.MODEL), folder / saved.MODEL)
    if not codec.codebook.used.any():
        raise ValueError(f"{folder}: has not been trained: none of its codes has ever been used; train it first")
    codec = codec.eval().requires_grad_(False).to(device)
    return Trained(codec, recipe, saved.name(folder), saved.step(folder), saved.digest(folder), raw)
