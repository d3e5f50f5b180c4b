"""What a model is on disk: `model.safetensors` and `config.toml` in one folder. No pickle.

A run folder holds step folders `step_00001000`, each a model; a name means a model that ships under checkpoints/.
The files hold numbers and settings only. One setting can bring in code: a part whose `kind` is "package.module:Config"
is imported, so such a checkpoint may run what is installed or on PYTHONPATH under that name, as `import` would.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from videopred import config
from videopred.data import Recipe
from videopred.predictors import Predictor

MODEL, CONFIG = "model.safetensors", "config.toml"
SHIPPED = config.CHECKOUT / "checkpoints"


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
    try:
        recipe = config.from_dict(Recipe, raw["recipe"], "recipe")
        predictor = config.from_dict(Predictor, raw["predictor"], "predictor").build(recipe.format)
    except ValueError as error:
        raise ValueError(f"{folder / CONFIG}: no model can be built from it: {error}") from error
    fill(predictor, read_tensors(folder / MODEL), folder / MODEL)
    digest = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()
    whole = folder.resolve()  # "." has no name
    return Loaded(predictor.eval().to(device), recipe, _name(whole), _step(whole), digest, raw)


def resolve(checkpoint: str) -> Path:
    """The folder that holds the model's files. Raises FileNotFoundError that says what was looked for."""
    for folder in (Path(checkpoint), SHIPPED / checkpoint, SHIPPED / "runs" / checkpoint):
        if (folder / MODEL).is_file():
            return folder
        complete = [step for step in steps(folder) if (step / MODEL).is_file()]
        if complete:
            return complete[-1]
    if Path(checkpoint).exists():
        raise FileNotFoundError(
            f"{checkpoint}: holds no {MODEL} and no step_* folder with one; give a run folder or a step"
        )
    names = sorted(path.parent.name for path in SHIPPED.glob(f"*/{MODEL}"))
    raise FileNotFoundError(
        f"{checkpoint}: no such checkpoint. Give a run folder, one of its step_* folders, or a shipped model; shipped "
        + (f"are {', '.join(names)}" if names else "models lie under checkpoints/ of the source repository, not in the "
           "installed package: clone it, or copy that folder and give its path")
    )  # fmt: skip


def steps(run: Path) -> list[Path]:
    """The step folders of a run, oldest first."""
    found = [path for path in run.glob("step_*") if path.name.removeprefix("step_").isdecimal() and path.is_dir()]
    return sorted(found, key=_step)


def read_config(folder: Path) -> dict[str, Any]:
    """The whole configuration that is saved beside the weights. Raises FileNotFoundError, ValueError if damaged."""
    path = folder / CONFIG
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: missing, so the model's shape is unknown") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: damaged: {error}") from error
    for key in ("recipe", "predictor"):
        if key not in raw:
            raise ValueError(f"{path}: has no [{key}], so it is empty, or not a videopred checkpoint's")
    return raw


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file. Raises OSError, ValueError if it is damaged."""
    try:
        open(path, "rb").close()  # safetensors would call every file that it cannot open missing
        return load_file(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: missing") from error
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged or cut off ({error}); use an earlier step") from error


def fill(module: nn.Module, weights: dict[str, Tensor], source: Path) -> None:
    """Loads weights strictly. Raises ValueError that names the first misfit; then nothing has been changed."""
    check(module, weights, source)
    module.load_state_dict(weights)


def check(module: nn.Module, weights: dict[str, Tensor], source: Path) -> None:
    """Raises ValueError that names the first tensor in which the file `source` does not fit `module`."""
    wanted = module.state_dict()
    for name in [*wanted, *weights]:
        if name not in weights:
            raise ValueError(f"{source}: weights of another model: {name}: the file lacks it")
        if name not in wanted:
            raise ValueError(f"{source}: weights of another model: {name}: the model has no such tensor")
        if wanted[name].shape != weights[name].shape:
            raise ValueError(
                f"{source}: weights of another model: {name} is {tuple(weights[name].shape)}, "
                f"the config makes it {tuple(wanted[name].shape)}"
            )


def _name(folder: Path) -> str:
    return folder.parent.name if folder.name.startswith("step_") else folder.name


def _step(folder: Path) -> int:
    prefix, _, number = folder.name.rpartition("_")
    if prefix == "step" and number.isdecimal():
        return int(number)
    card = folder / "card.json"
    try:
        return json.loads(card.read_text(encoding="utf-8"))["step"] if card.is_file() else 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{card}: damaged: it does not say the step") from error
