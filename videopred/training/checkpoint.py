"""Step folders: everything a run needs to go on as if it had never stopped. Written whole or not at all.

    step_00000200/model.safetensors      weights that predict (the average, if there is one), with config.toml: a model
                  training.safetensors   raw weights and the optimiser's moments
                  training.json          step and number of threads

Randomness and the place in the data are functions of (seed, step), so there is nothing else to save. A folder is made
under another name, forced to disk and renamed: a kill at any moment leaves the last complete one.
"""

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from videopred.checkpoint import CONFIG, MODEL, fill, read_tensors

TENSORS, NUMBERS = "training.safetensors", "training.json"


def write(run: Path, step: int, config: str, module: nn.Module, optimizer: torch.optim.Optimizer,
          average: dict[str, Tensor] | None) -> Path:  # fmt: skip
    """Saves a step folder. Raises OSError (disk full, ...) having removed what it had written of it."""
    folder, draft = run / f"step_{step:08d}", run / f".step_{step:08d}.draft"
    raw = module.state_dict()
    tensors = {f"weights.{name}": tensor for name, tensor in raw.items()} | _moments(module, optimizer)
    numbers = json.dumps({"step": step, "threads": torch.get_num_threads()})
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _write(draft / MODEL, _bytes(raw if average is None else average))
        _write(draft / CONFIG, config.encode())
        _write(draft / TENSORS, _bytes(tensors))
        _write(draft / NUMBERS, numbers.encode())
        _sync(draft)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(draft, folder)
        _sync(run)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def restore(run: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Path, int, int] | None:
    """Fills module and optimiser from the newest complete step folder; returns (folder, step, threads), or None.

    A damaged folder is passed over for the one before it. Raises ValueError if there are folders but none can be read.
    """
    for draft in run.glob(".step_*.draft"):
        shutil.rmtree(draft)
    problems = []
    for folder in reversed(steps(run)):
        try:
            numbers = json.loads((folder / NUMBERS).read_text())
            tensors = read_tensors(folder / TENSORS)
            read_tensors(folder / MODEL)
            weights = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
            fill(module, weights, folder / TENSORS)
            _set_moments(module, optimizer, tensors)
            return folder, numbers["step"], numbers["threads"]
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{folder.name}: {error}")
    if problems:
        raise ValueError(f"{run}: no checkpoint can be read ({'; '.join(problems)}); move the folder away to start anew")
    return None


def prune(run: Path, keep: int, keep_every: int) -> None:
    """Removes all but the newest `keep` step folders and, if `keep_every` is not 0, those at its multiples."""
    for folder in steps(run)[:-keep]:
        if not keep_every or int(folder.name.removeprefix("step_")) % keep_every:
            shutil.rmtree(folder, ignore_errors=True)


def steps(run: Path) -> list[Path]:
    """The step folders of a run, oldest first."""
    return sorted(folder for folder in run.glob("step_*") if folder.is_dir())


def _moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {f"moments.{name}.{key}": value
            for name, parameter in module.named_parameters()
            for key, value in optimizer.state[parameter].items()}  # fmt: skip


def _set_moments(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    for name, parameter in module.named_parameters():
        prefix = f"moments.{name}."
        state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if state:
            optimizer.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device) for key, value in state.items()
            }


def _bytes(tensors: dict[str, Tensor]) -> bytes:
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
