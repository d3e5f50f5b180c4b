"""What a model is on disk: `model.safetensors` and `config.toml` in one folder. No pickle.

A run folder holds step folders `step_00001000`, each a model; a name means a model that ships under checkpoints/, or
a run in checkpoints/runs. Where there are both it is the shipped one, so that what people quote by a name is one model.
The files hold numbers and settings only. One setting can bring in code: a part whose `kind` is "package.module:Config"
is imported, so such a checkpoint may run what is installed or on PYTHONPATH under that name, as `import` would.
"""

import functools
import hashlib
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from videopred import config

MODEL, CONFIG = "model.safetensors", "config.toml"
SHIPPED = config.CHECKOUT / "checkpoints"


def resolve(checkpoint: str) -> Path:
    """The folder that holds the model's files. Raises FileNotFoundError that says what was looked for."""
    if found := _newest(Path(checkpoint)):
        return found
    own = next((run for place in _homes() if _newest(run := place / checkpoint)), None)
    if found := _newest(SHIPPED / checkpoint):
        if own is not None:
            _say_shipped(checkpoint, own)
        return found
    if own is not None and (found := _newest(own)):
        return found
    if Path(checkpoint).exists():
        raise FileNotFoundError(
            f"{checkpoint}: holds no {MODEL} and no step_* folder with one; give a run folder or a step"
        )
    names = shipped()
    raise FileNotFoundError(
        f"{checkpoint}: no such checkpoint. Give a run folder, one of its step_* folders, the name of a run in "
        f"{config.RUNS}, or a shipped model; shipped "
        + (f"are {', '.join(names)}" if names else "models lie under checkpoints/ of the source repository, not in the "
           "installed package: clone it, or copy that folder and give its path")
    )  # fmt: skip


def shipped() -> list[str]:
    """Names of the models that ship, sorted; none in an installed package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{MODEL}"))


def runs() -> dict[str, Path]:
    """The runs that a name may mean, sorted: by name, the newest folder of each with a model."""
    found = {
        place.name: newest for home in reversed(_homes()) for place in home.glob("*") if (newest := _newest(place))
    }
    return dict(sorted(found.items()))


def _homes() -> tuple[Path, Path]:
    """Where runs lie: under the current folder, where training writes, and in the checkout."""
    return config.RUNS, SHIPPED / "runs"


def _newest(folder: Path) -> Path | None:
    """The folder itself if it holds a model, else its newest step folder that does."""
    if (folder / MODEL).is_file():
        return folder
    return next((path for path in reversed(steps(folder)) if (path / MODEL).is_file()), None)


@functools.cache  # said once
def _say_shipped(checkpoint: str, own: Path) -> None:
    if os.environ.get("RANK", "0") == "0":  # of processes that train together one speaks
        text = f"using the shipped model {checkpoint}; your run is {own}, give its path to use it"
        print(f"videopred: {text}", file=sys.stderr)


def steps(run: Path) -> list[Path]:
    """The step folders of a run, oldest first."""
    found = [path for path in run.glob("step_*") if path.name.removeprefix("step_").isdecimal() and path.is_dir()]
    return sorted(found, key=step)


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


def is_tokenizer(raw: dict[str, Any]) -> bool:
    """Whether a configuration is that of a tokenizer, which stands in a predictor's place."""
    return isinstance(raw["predictor"], dict) and raw["predictor"].get("kind") == "tokenizer"


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


def digest(folder: Path) -> str:
    """SHA-256 of the weights file."""
    return hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()


def name(folder: Path) -> str:
    """What a model is called: its run folder, or its own."""
    folder = folder.resolve()  # "." has no name
    return folder.parent.name if folder.name.startswith("step_") else folder.name


def step(folder: Path) -> int:
    """Updates a model has had, by its folder's name or card.json; 0 if neither says."""
    folder = folder.resolve()
    prefix, _, number = folder.name.rpartition("_")
    if prefix == "step" and number.isdecimal():
        return int(number)
    card = folder / "card.json"
    try:
        return json.loads(card.read_text(encoding="utf-8"))["step"] if card.is_file() else 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{card}: damaged: it does not say the step") from error
