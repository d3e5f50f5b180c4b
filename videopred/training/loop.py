"""The training loop: a pure function of (configuration, step), so that stopping and going on changes nothing.

In many processes each runs this loop, in step with the others (`distributed`); rank 0 alone touches the run folder.
"""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from videopred.clip import Clip
from videopred.data.hold import hold
from videopred.data.loader import batches
from videopred.training import RunConfig, TrainingConfig, checkpoint, distributed
from videopred.training.ema import EMA
from videopred.training.folder import claim
from videopred.training.learner import Learner
from videopred.training.log import Log
from videopred.training.optimizer import learning_rate
from videopred.training.precision import autocasts
from videopred.training.start import begin, take_over

Validate = Callable[[nn.Module, int], dict[str, float]]
# How torch says what is the machine's fault without an error class of its own.
MACHINE_WORDS = ("can't allocate memory", "No space left on device", "DataLoader worker (pid")

TOGETHER = 0.5  # seconds


class Diverged(RuntimeError):
    """The loss or its gradient is no longer a number."""

    exit_code = 3


class Halted(RuntimeError):
    """The machine gave out: the disk is full, the memory is, or a file cannot be written any more."""

    exit_code = 3


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop; the step was finished and saved."""


@dataclass
class Progress:
    """Updates made, the newest step folder with the step it holds, and the step folder before that."""

    step: int = 0
    saved: Path | None = None
    saved_step: int = 0
    earlier: Path | None = None
    own: bool = False  # whether this process wrote `saved`

    def __str__(self) -> str:
        return f"the last good checkpoint is {self.saved}" if self.saved else "nothing had been saved yet"


def train(run: RunConfig, folder: Path, device: torch.device, validate: Validate | None = None) -> Path:
    """Trains to the last step and returns the last step folder; goes on from what `folder` already holds.

    Raises ConfigError if `folder` belongs to another configuration or process, Diverged, Halted, Interrupted, OSError.
    """
    settings = run.training
    run, predictor, optimizer = begin(run, device)
    run = distributed.first(take_over, run, folder, checkpoint.kept(predictor))
    average = EMA(checkpoint.kept(predictor), settings.ema) if settings.ema and distributed.rank() == 0 else None
    dataset = run.recipe.build("train", settings.clip_frames)
    distributed.share_of(settings.batch_size)
    with hold(folder, "is training") if distributed.rank() == 0 else nullcontext():
        text = distributed.first(claim, folder, run)
        at = resume(folder, predictor, optimizer, average)
        learner = distributed.parallel(Learner(predictor, settings))
        reading = closing(clips_of(dataset, settings, at.step, device))
        with _halting(at), reading as clips, Log(folder, at.step, settings, device) as log, _Stop() as stop:
            while True:
                asked = distributed.any_of(stop.asked)
                due = at.step % settings.save_every == 0 or at.step == settings.steps or asked
                if due and at.step > at.saved_step:
                    at.earlier, at.own = at.saved, True
                    at.saved = distributed.first(
                        checkpoint.write, folder, at.step, text, predictor, optimizer, average and average.weights
                    )
                    at.saved_step = at.step
                if asked:
                    raise Interrupted(_say(f"stopped after step {at.step}; {at}; the same command goes on from there"))
                if validate is not None and log.lacks_validation(at.step):
                    scores = distributed.first(_validated, validate, checkpoint.kept(predictor), average, at.step)
                    log.validation(at.step, scores)
                    continue  # perhaps it was asked to stop meanwhile
                if at.step == settings.steps:
                    distributed.first(checkpoint.prune, folder, settings.keep, settings.keep_every)
                    break
                begun = time.perf_counter()
                numbers = update(learner, optimizer, clips, settings, at.step)
                if not _finite(numbers):
                    raise distributed.first(_diverged, numbers, at)
                if at.step == at.saved_step:  # only now is it known that the newest weights are good
                    distributed.first(checkpoint.prune, folder, settings.keep, settings.keep_every)
                at.step += 1
                if average is not None:
                    average.update(checkpoint.kept(predictor), at.step)
                log.step(at.step, numbers, time.perf_counter() - begun)
    assert at.saved is not None
    return at.saved


def resume(folder: Path, predictor: nn.Module, optimizer: torch.optim.Optimizer, average: EMA | None) -> Progress:
    """Fills everything from the newest checkpoint that can be read, if there is one."""
    found = distributed.first(checkpoint.restore, folder, predictor, optimizer, average and average.weights)
    if found is None:
        return Progress()
    distributed.share_optimizer(optimizer)
    for problem in found.damage:
        _say(f"a checkpoint could not be read and was set aside as damaged_step_*: {problem}")
    torch.set_num_threads(found.threads)  # sums are added in another order with another number of threads
    _say(f"going on from {found.folder}")
    return Progress(found.step, found.folder, found.step)


def update(
    learner: nn.Module, optimizer: torch.optim.Optimizer, clips: Iterator[Clip], settings: TrainingConfig, step: int
) -> dict[str, float]:
    """One update from `accumulate` batches; nothing is changed if the loss or the gradient is not finite."""
    seed = int(np.random.SeedSequence([settings.seed, step]).generate_state(1, np.uint64)[0] >> 1)
    torch.manual_seed(seed + distributed.rank())  # dropout
    generator = torch.Generator().manual_seed(seed)
    rate = learning_rate(settings.optimizer, step, settings.steps)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
    optimizer.zero_grad(set_to_none=True)
    learner.train()
    totals: dict[str, torch.Tensor] = {}
    for left in reversed(range(settings.accumulate)):
        clip = drop_actions(next(clips), settings.action_dropout, generator)
        device = clip.content.device
        with distributed.alone(learner) if left else nullcontext():
            with torch.autocast(device.type, torch.bfloat16, enabled=autocasts(settings.precision, device)):
                loss, metrics = learner(clip, step / settings.steps, generator)
            (loss / settings.accumulate).backward()
        for name, value in {"loss": loss, **metrics}.items():
            part = value.detach() / settings.accumulate
            totals[name] = totals[name] + part if name in totals else part
    norm = torch.nn.utils.clip_grad_norm_(learner.parameters(), settings.clip_gradient or math.inf)
    numbers = distributed.mean(totals) | {"gradient": norm.item(), "learning_rate": rate}
    if _finite(numbers):
        optimizer.step()
        if isinstance(learner, Learner):  # not in many processes
            learner.settle(generator)
    return numbers


def drop_actions(clip: Clip, share: float, generator: torch.Generator) -> Clip:
    """Makes all actions of a random `share` of the clips of a batch unknown (-1)."""
    if clip.actions is None or not share:
        return clip
    dropped = distributed.uniform(len(clip.actions), 1, generator=generator).lt(share).to(clip.actions.device)
    return replace(clip, actions=clip.actions.masked_fill(dropped, -1))


def clips_of(dataset: Any, settings: TrainingConfig, step: int, device: torch.device) -> Generator[Clip]:
    """Batches of clips for the updates from `step` on, on the device; of many processes, this one's share."""
    position, share = step * settings.accumulate, distributed.share_of(settings.batch_size)
    for clip in batches(dataset, share, settings.seed, position=position, workers=settings.workers,
                        rank=distributed.rank(), world=distributed.world()):  # fmt: skip
        yield clip.to(device)


def _validated(validate: Validate, predictor: nn.Module, average: EMA | None, step: int) -> dict[str, float]:
    if average is None:
        return validate(predictor.eval(), step)
    raw = {name: tensor.clone() for name, tensor in predictor.state_dict().items()}
    predictor.load_state_dict(average.weights)
    try:
        return validate(predictor.eval(), step)
    finally:
        predictor.load_state_dict(raw)


def _finite(numbers: dict[str, float]) -> bool:
    return math.isfinite(numbers["loss"]) and math.isfinite(numbers["gradient"])


def _diverged(numbers: dict[str, float], at: Progress) -> Diverged:
    """The error that says what to do, having set aside the checkpoint whose own weights give it.

    It would predict no numbers. One that another process wrote is left: it may be good, and what is wrong new.
    """
    culprit = ""
    if at.saved and at.step == at.saved_step:
        culprit = " (and cannot be gone on from)"
        if at.own:
            aside = checkpoint.set_aside(at.saved, "diverged")
            at.saved, culprit = at.earlier, f" ({aside} was set aside: its weights give this)"
    what = f"loss {numbers['loss']}, gradient norm {numbers['gradient']}"
    return Diverged(
        f"training diverged at step {at.step + 1}: {what}; {at}{culprit}. "
        f"Try, with another --out, a lower training.optimizer.learning_rate (now {numbers['learning_rate']:.2g}), "
        f"a longer training.optimizer.warmup_steps, or training.clip_gradient=1.0"
    )


@contextmanager
def _halting(at: Progress) -> Iterator[None]:
    """Turns what the machine did into a Halted that says what was saved and where."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        elif isinstance(error, MemoryError | torch.OutOfMemoryError) or any(w in str(error) for w in MACHINE_WORDS):
            what = f"the machine gave out ({' '.join(str(error).split()) or 'out of memory'})"
        elif distributed.is_desertion(error):
            what = "another process of this training has ended (its own message says why)"
        else:
            raise
        raise Halted(
            f"{what}: training stopped after step {at.step}; {at}. "
            f"Once that is mended, the same command goes on from there"
        ) from error


def _say(text: str) -> str:
    if distributed.rank() == 0:
        print(f"videopred: {text}", file=sys.stderr)
    return text


class _Stop:
    """Turns the first Ctrl-C or SIGTERM into a wish to stop after this step; one that comes later stops at once.

    Not one that comes together with the first: `timeout` and terminals tell a process and its group.
    """

    asked, since = False, 0.0

    def __enter__(self) -> "_Stop":
        # Python hears signals in its main thread only; elsewhere whoever started the thread must stop it
        heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        self.before = {number: signal.signal(number, self._ask) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if self.asked and now - self.since > TOGETHER:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self.since = True, now
