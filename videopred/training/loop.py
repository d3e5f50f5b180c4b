"""The training loop: a pure function of (configuration, step), so that stopping and going on changes nothing."""

import json
import math
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from videopred import config
from videopred.clip import Clip
from videopred.data.loader import batches
from videopred.training import RunConfig, TrainingConfig, checkpoint
from videopred.training.ema import EMA
from videopred.training.log import Log, memory_gib
from videopred.training.optimizer import learning_rate

Validate = Callable[[nn.Module, int], dict[str, float]]


class Diverged(RuntimeError):
    """The loss is no longer a number."""

    exit_code = 3


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop; the step was finished and saved."""


def train(run: RunConfig, folder: Path, device: torch.device, validate: Validate | None = None) -> Path:
    """Trains to the last step and returns the last step folder; goes on from what `folder` already holds.

    Raises ConfigError if `folder` belongs to another configuration, Diverged, Interrupted, OSError (disk full).
    """
    settings = run.training
    text = claim(folder, run)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    predictor = run.predictor.build(run.recipe.format).to(device)
    optimizer = settings.optimizer.build(predictor)
    average = EMA(predictor, settings.ema) if settings.ema else None
    saved, step = resume(folder, predictor, optimizer, average)
    clips = _clips(run, step, device)
    with Log(folder, step, settings.steps, settings.tensorboard) as log, _Stop() as stop:
        while step < settings.steps:
            numbers = update(predictor, optimizer, clips, settings, step)
            if not math.isfinite(numbers["loss"] + numbers["gradient"]):
                raise Diverged(_advice(numbers, step, saved))
            step += 1
            if average is not None:
                average.update(predictor, step)
            log.step(step, numbers, settings, device)
            due = step % settings.save_every == 0 or step == settings.steps
            if due or stop.asked:
                saved = checkpoint.write(folder, step, text, predictor, optimizer, average and average.weights)
                checkpoint.prune(folder, settings.keep, settings.keep_every)
            if validate is not None and settings.validate_every and step % settings.validate_every == 0:
                log.write(step, _validated(validate, predictor, average, step))
            if stop.asked:
                raise Interrupted(f"stopped after step {step}, saved in {saved}; the same command goes on from there")
    assert saved is not None
    return saved


def claim(folder: Path, run: RunConfig) -> str:
    """Writes the configuration into a new run folder, or checks it against the one there; returns it as TOML text."""
    text = config.dumps(run)
    path = folder / "config.toml"
    if path.exists():
        changed = config.difference(config.parse(path), config.to_dict(run))
        if changed:
            raise config.ConfigError(
                f"{folder} belongs to another configuration: {'; '.join(changed)}. Give another --out, or the same settings"
            )
        return text
    folder.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)
    return text


def resume(folder: Path, predictor: nn.Module, optimizer: torch.optim.Optimizer, average: EMA | None):
    """Fills everything from the newest checkpoint; returns (its folder or None, the step to go on from)."""
    found = checkpoint.restore(folder, predictor, optimizer)
    if found is None:
        return None, 0
    saved, step, threads = found
    torch.set_num_threads(threads)  # sums are added in another order with another number of threads
    if average is not None:
        average.restore(checkpoint.read_tensors(saved / checkpoint.MODEL))
    return saved, step


def update(
    predictor: nn.Module, optimizer: torch.optim.Optimizer, clips: Iterator[Clip], settings: TrainingConfig, step: int
) -> dict[str, float]:
    """One update from `accumulate` batches; nothing is changed if the loss or the gradient is not finite."""
    seed = int(np.random.SeedSequence([settings.seed, step]).generate_state(1, np.uint64)[0] >> 1)
    torch.manual_seed(seed)  # dropout
    generator = torch.Generator().manual_seed(seed)
    rate = learning_rate(settings.optimizer, step, settings.steps)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    predictor.train()
    totals: dict[str, torch.Tensor] = {}
    for _ in range(settings.accumulate):
        clip = _drop_actions(next(clips), settings.action_dropout, generator)
        with torch.autocast(clip.content.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            loss, metrics = settings.feeding.loss(predictor, clip, step / settings.steps, generator)
        (loss / settings.accumulate).backward()
        for name, value in {"loss": loss, **metrics}.items():
            totals[name] = totals.get(name, 0) + value.detach() / settings.accumulate
    limit = settings.clip_gradient or math.inf
    norm = torch.nn.utils.clip_grad_norm_(predictor.parameters(), limit)
    numbers = {name: value.item() for name, value in totals.items()}
    numbers |= {"gradient": norm.item(), "learning_rate": rate}
    if math.isfinite(numbers["loss"] + numbers["gradient"]):
        optimizer.step()
    return numbers


def _clips(run: RunConfig, step: int, device: torch.device) -> Iterator[Clip]:
    settings = run.training
    dataset = run.recipe.build("train", settings.clip_frames)
    position = step * settings.accumulate
    for clip in batches(dataset, settings.batch_size, settings.seed, position=position, workers=settings.workers):
        yield clip.to(device)


def _drop_actions(clip: Clip, share: float, generator: torch.Generator) -> Clip:
    if clip.actions is None or not share:
        return clip
    dropped = torch.rand(len(clip.actions), 1, generator=generator).lt(share).to(clip.actions.device)
    return replace(clip, actions=clip.actions.masked_fill(dropped, -1))


def _validated(validate: Validate, predictor: nn.Module, average: EMA | None, step: int) -> dict[str, float]:
    raw = {name: tensor.clone() for name, tensor in predictor.state_dict().items()}
    predictor.load_state_dict(raw if average is None else average.weights)
    try:
        return validate(predictor.eval(), step)
    finally:
        predictor.load_state_dict(raw)


def _advice(numbers: dict[str, float], step: int, saved: Path | None) -> str:
    kept = f"the last good checkpoint is {saved}" if saved else "nothing had been saved yet"
    return (
        f"training diverged at step {step}: loss {numbers['loss']}, gradient norm {numbers['gradient']}; {kept}. "
        f"Try a lower training.optimizer.learning_rate, a longer warmup_steps, or training.clip_gradient = 1.0"
    )


class _Stop:
    """Turns the first Ctrl-C or SIGTERM into a wish to stop after this step; the second Ctrl-C stops at once."""

    asked = False

    def __enter__(self) -> "_Stop":
        self.before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
