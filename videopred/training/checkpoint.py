"""Step folders: everything a run needs to go on as if it had never stopped. Written whole or not at all.

    step_00000200/model.safetensors      weights that predict (the average, if there is one), with config.toml: a model
                  training.safetensors   raw weights and the optimiser's moments
                  training.json          step and number of threads

Randomness and the place in the data are functions of (seed, step), so there is nothing else to save. A folder is made
under another name, forced to disk and renamed, and renamed before it is removed: a kill at any moment leaves the last
complete one, and none that is half there.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from videopred.checkpoint import CONFIG, MODEL, check, fill, read_config, read_tensors, steps

TENSORS, NUMBERS = "training.safetensors", "training.json"
# What a damaged folder raises. Other errors (no permission, too many open files) say nothing about it and end the run.
DAMAGE = (ValueError, FileNotFoundError, IsADirectoryError, NotADirectoryError)


@dataclass(frozen=True)
class Restored:
    """What a run goes on from, and what is wrong with the newer step folders that had to be passed over."""

    folder: Path
    step: int
    threads: int
    damage: tuple[str, ...]


def write(run: Path, step: int, config: str, module: nn.Module, optimizer: torch.optim.Optimizer,
          average: dict[str, Tensor] | None) -> Path:  # fmt: skip
    """Saves a step folder. Raises OSError (disk full, ...) having removed what it had written of it."""
    folder, draft = run / f"step_{step:08d}", _draft(run, step)
    raw = module.state_dict()
    tensors = {f"weights.{name}": tensor for name, tensor in raw.items()} | _moments(module, optimizer)
    numbers = json.dumps({"step": step, "threads": torch.get_num_threads()})
    try:
        draft.mkdir()
        write_file(draft / MODEL, _bytes(kept(module).state_dict() if average is None else average))
        write_file(draft / CONFIG, config.encode())
        write_file(draft / TENSORS, _bytes(tensors))
        write_file(draft / NUMBERS, numbers.encode())
        sync(draft)
        os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync(run)
    return folder


def kept(module: nn.Module) -> nn.Module:
    """The part of what is trained that is the model; the rest, such as a critic, is only needed to go on."""
    return getattr(module, "kept", module)


def restore(
    run: Path, module: nn.Module, optimizer: torch.optim.Optimizer, average: dict[str, Tensor] | None
) -> Restored | None:
    """Fills all three from the newest complete step folder; None if the run has no step folder.

    A damaged one is passed over for the one before it, and renamed to `damaged_step_*` so that nobody takes it for the
    newest. Raises ValueError if there are step folders but none can be read; then nothing is renamed.
    """
    for draft in run.glob(".step_*.draft"):
        shutil.rmtree(draft, ignore_errors=True)
    damage: dict[Path, str] = {}
    for folder in reversed(steps(run)):
        try:
            step, threads = _restore(folder, module, optimizer, average)
        except DAMAGE as error:
            damage[folder] = str(error)
            continue
        for broken in damage:
            set_aside(broken, "damaged")
        return Restored(folder, step, threads, tuple(damage.values()))
    if damage:
        raise ValueError(
            f"{run}: no checkpoint can be read: {'; '.join(damage.values())}. Move the folder away to start anew"
        )
    return None


def set_aside(folder: Path, why: str) -> Path:
    """Renames a step folder to `<why>_step_*`, so that nobody takes it for the newest; returns where it is then."""
    aside = folder.with_name(f"{why}_{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(folder, aside)
    return aside


def prune(run: Path, keep: int, keep_every: int) -> None:
    """Removes all but the newest `keep` step folders and, if `keep_every` is not 0, those at its multiples."""
    for folder in steps(run)[:-keep]:
        step = int(folder.name.removeprefix("step_"))
        if not keep_every or step % keep_every:
            os.replace(folder, _draft(run, step))
            shutil.rmtree(_draft(run, step), ignore_errors=True)  # what stays, a later start removes


def write_file(path: Path, data: bytes) -> None:
    """Writes a file and forces it to disk. Raises OSError that names the file."""
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a kill or a full disk leaves what was there."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        write_file(draft, data)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(folder: Path) -> None:
    """Forces to disk which names a folder holds."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _draft(run: Path, step: int) -> Path:
    return run / f".step_{step:08d}.draft"


def _restore(
    folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer, average: dict[str, Tensor] | None
) -> tuple[int, int]:
    """Reads and checks everything before it changes anything. Raises OSError, ValueError."""
    step, threads = _numbers(folder / NUMBERS)
    if step != int(folder.name.removeprefix("step_")):
        raise ValueError(f"{folder / NUMBERS}: is of step {step}, and its folder is called after another")
    read_config(folder)
    model, tensors = read_tensors(folder / MODEL), read_tensors(folder / TENSORS)
    check(kept(module), model, folder / MODEL)
    moments = _check_moments(module, tensors, folder / TENSORS)
    fill(module, {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")},
         folder / TENSORS)  # fmt: skip
    for parameter, state in moments.items():
        optimizer.state[parameter] = {
            key: value.clone() if key == "step" else _like(parameter, value) for key, value in state.items()
        }
    for name, tensor in (average or {}).items():
        tensor.copy_(model[name])
    return step, threads


def _numbers(path: Path) -> tuple[int, int]:
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        return int(numbers["step"]), int(numbers["threads"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged or cut off; use an earlier step") from error


def _moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {f"moments.{name}.{key}": value
            for name, parameter in module.named_parameters()
            for key, value in optimizer.state[parameter].items()}  # fmt: skip


def _check_moments(module: nn.Module, tensors: dict[str, Tensor], source: Path) -> dict[Tensor, dict[str, Tensor]]:
    parameters, found = dict(module.named_parameters()), {}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        owner, _, key = rest.rpartition(".")
        if kind != "moments":
            continue
        if owner not in parameters or (key != "step" and value.shape != parameters[owner].shape):
            raise ValueError(f"{source}: moments of another model: {name} is {tuple(value.shape)}")
        found.setdefault(parameters[owner], {})[key] = value
    return found


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """A moment as the optimiser itself would hold it: on the parameter's device, in its memory layout."""
    return torch.empty_like(parameter, requires_grad=False).copy_(value)


def _bytes(tensors: dict[str, Tensor]) -> bytes:
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
