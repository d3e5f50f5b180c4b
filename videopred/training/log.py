"""What a run says while it trains: a progress line, `metrics.jsonl`, and TensorBoard where it is asked for."""

import json
import math
import os
import resource
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from tqdm import tqdm

from videopred.training import TrainingConfig, distributed
from videopred.training.checkpoint import replace_file


class Log:
    """Appends to `metrics.jsonl` of a run: a line of training every `log_every` steps, and one for every validation.

    Lines past `step`, left by a run that was killed, are dropped first. What is not finite is written as null.
    Of processes that train together rank 0 writes and speaks for all.
    """

    def __init__(self, run: Path, step: int, settings: TrainingConfig, device: torch.device):
        self.settings, self.device = settings, device
        self.speaks = distributed.rank() == 0
        self.board = _board(run, step) if settings.tensorboard and self.speaks else None
        lines = distributed.first(_cut, run / "metrics.jsonl", step)
        self.validated = {line["step"] for line in lines if "loss" not in line}
        self.file = open(run / "metrics.jsonl" if self.speaks else os.devnull, "a", encoding="utf-8")  # noqa: SIM115
        quiet = not sys.stderr.isatty() or not self.speaks
        self.bar = tqdm(total=settings.steps, initial=step, unit="step", disable=quiet, dynamic_ncols=True)
        self.seconds, self.steps, self.frames = 0.0, 0, 0.0

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.close()
        if self.board is not None:
            self.board.close()
        self.file.close()

    def step(self, step: int, numbers: dict[str, float], seconds: float) -> None:
        """After update number `step`: moves the bar, and every `log_every` updates says how things stand."""
        settings = self.settings
        self.bar.update()
        self.seconds, self.steps = self.seconds + seconds, self.steps + 1
        self.frames += settings.feeding.frames(settings.clip_frames, (step - 1) / settings.steps)
        if step % settings.log_every and step != settings.steps:
            return
        each, rate = self.seconds / self.steps, settings.batch_size * settings.accumulate * self.frames / self.seconds
        self.seconds, self.steps, self.frames = 0.0, 0, 0.0
        numbers = numbers | {"ms_per_step": 1000 * each, "frames_per_second": rate}
        numbers["memory_gib"] = memory_gib(self.device)
        self._write(step, numbers)
        if not self.bar.disable:
            self.bar.set_postfix_str(_line(numbers))
        elif self.speaks:
            left = tqdm.format_interval(each * (settings.steps - step))
            print(f"step {step}/{settings.steps} {_line(numbers)} {left} left", file=sys.stderr)

    def lacks_validation(self, step: int) -> bool:
        """Whether the weights of `step` should be validated and have not been."""
        every = self.settings.validate_every
        return every > 0 and step > 0 and step % every == 0 and step not in self.validated

    def validation(self, step: int, scores: dict[str, float]) -> None:
        self.validated.add(step)
        self._write(step, scores)

    def _write(self, step: int, numbers: dict[str, float]) -> None:
        """One line of the file, and the same to TensorBoard."""
        found = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        self.file.write(json.dumps({"step": step, **found}) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in found.items():
                if value is not None:
                    self.board.add_scalar(name, value, step)


def memory_gib(device: torch.device) -> float:
    """The largest memory this process has held, in GiB: on the GPU if it trains there, else resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _line(numbers: dict[str, float]) -> str:
    nats = f" ({numbers['nats']:.4g} nats a token)" if "nats" in numbers else ""
    return (f"loss {numbers['loss']:.4g}{nats} lr {numbers['learning_rate']:.2g} grad {numbers['gradient']:.2g} "
            f"{numbers['ms_per_step']:.0f} ms/step {numbers['frames_per_second']:.0f} frames/s "
            f"{numbers['memory_gib']:.1f} GiB")  # fmt: skip


def _cut(path: Path, step: int) -> list[dict[str, Any]]:
    """The lines up to `step`; those past it, and what a kill has cut off, are removed from the file."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines, kept = [], ""
    for line in text.splitlines():
        try:
            found = json.loads(line)
            if found["step"] <= step:
                lines.append(found)
                kept += line + "\n"
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
    if kept != text:
        replace_file(path, kept.encode())
    return lines


def _board(run: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(
            "training.tensorboard = true needs the package tensorboard: pip install tensorboard"
        ) from error
    return SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)
