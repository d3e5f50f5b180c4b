"""What a run says while it trains: a progress line, `metrics.jsonl`, and TensorBoard where it is asked for."""

import json
import resource
import sys
import time
from pathlib import Path
from types import TracebackType

import torch
from tqdm import tqdm

from videopred.training import TrainingConfig


class Log:
    """Appends to `metrics.jsonl` of a run; lines past `step`, left by a run that was killed, are dropped first."""

    def __init__(self, run: Path, step: int, total: int, tensorboard: bool):
        self.path = run / "metrics.jsonl"
        if self.path.exists():
            _cut(self.path, step)
        self.file = open(self.path, "a")
        self.board = _board(run) if tensorboard else None
        self.bar = tqdm(total=total, initial=step, unit="step", disable=not sys.stderr.isatty(), dynamic_ncols=True)
        self.lapse, self.steps = time.perf_counter(), 0

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.close()
        self.file.close()
        if self.board is not None:
            self.board.close()

    def step(self, step: int, numbers: dict[str, float], settings: TrainingConfig, device: torch.device) -> None:
        """After update number `step`: moves the bar, and every `log_every` updates says how things stand."""
        self.bar.update()
        self.steps += 1
        if step % settings.log_every and step != settings.steps:
            return
        now = time.perf_counter()
        seconds, self.lapse, self.steps = (now - self.lapse) / self.steps, now, 0
        frames = settings.batch_size * settings.accumulate * settings.clip_frames
        numbers = numbers | {"ms_per_step": 1000 * seconds, "frames_per_second": frames / seconds}
        numbers["memory_gib"] = memory_gib(device)
        self.write(step, numbers)
        if not self.bar.disable:
            self.bar.set_postfix_str(_line(numbers))
        else:
            left = seconds * (settings.steps - step)
            print(f"step {step}/{settings.steps} {_line(numbers)} {tqdm.format_interval(left)} left", file=sys.stderr)

    def write(self, step: int, numbers: dict[str, float]) -> None:
        """One line of the file, and the same to TensorBoard."""
        self.file.write(json.dumps({"step": step, **numbers}) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in numbers.items():
                self.board.add_scalar(name, value, step)


def memory_gib(device: torch.device) -> float:
    """The largest memory this process has held, in GiB: on the GPU if it trains there, else resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _line(numbers: dict[str, float]) -> str:
    return (f"loss {numbers['loss']:.4g} lr {numbers['learning_rate']:.2g} grad {numbers['gradient']:.2g} "
            f"{numbers['ms_per_step']:.0f} ms/step {numbers['frames_per_second']:.0f} frames/s "
            f"{numbers['memory_gib']:.1f} GiB")  # fmt: skip


def _cut(path: Path, step: int) -> None:
    lines = []
    for line in path.read_text().splitlines():
        try:
            if json.loads(line)["step"] <= step:
                lines.append(line)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue  # a line cut off by a kill
    path.write_text("".join(line + "\n" for line in lines))


def _board(run: Path):
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError("training.tensorboard = true needs the package tensorboard: pip install tensorboard") from error
    return SummaryWriter(str(run / "tensorboard"))
