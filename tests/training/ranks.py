"""Trains in one and in two processes, and lets them fail: `python ranks.py FOLDER`. Prints exit statuses as JSON.

Not a test itself: the processes are forked from this one, which has imported torch, and find each other as those that
torchrun starts do. What they say goes to FOLDER/<name of the run>.log, what they saw to FOLDER/<name>.<rank>.ids.
"""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # DDP and the optimiser want it; imported once, all processes have it
from conftest import TINY

from videopred import cli, config
from videopred.training import RunConfig, distributed, loop

# Everything that draws random numbers clip by clip, and more than one batch to an update.
LINES = """
    training.steps=8 training.save_every=4 training.batch_size=4 training.accumulate=2 training.validate_every=4
    training.feeding.kind=scheduled_sampling training.feeding.min_context=2 training.feeding.max_context=3
    training.feeding.ramp=0.01
"""
WORDS = LINES.split()
Hook = Callable[[int, int], None]  # of (rank, step), before an update


def at(step: int, rank: int, deed: Callable[[], None]) -> Hook:
    return lambda who, when: deed() if (who, when) == (rank, step) else None


def fail() -> None:
    raise ValueError("rank one has had enough")


def start(root: Path, name: str, words: list[str], rank: int, world: int, port: int, hook: Hook | None) -> int:
    """Forks one process of a training in the folder root / name; returns its id."""
    process = os.fork()
    if process:
        return process
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    read, update = loop.batches, loop.update

    def batches(*args, **kwargs):
        with open(root / f"{name}.{rank}.ids", "a") as file:
            for clip in read(*args, **kwargs):
                file.write(json.dumps(clip.id) + "\n")
                file.flush()
                yield clip

    def hooked(learner, optimizer, clips, settings, step):
        if hook is not None:
            hook(rank, step)
        return update(learner, optimizer, clips, settings, step)

    def validate(predictor, step):
        assert distributed.rank() == 0 and not predictor.training
        return {"score": sum(tensor.double().square().sum().item() for tensor in predictor.state_dict().values())}

    code = 0
    sys.stderr = open(root / f"{name}.log", "a")  # noqa: SIM115
    try:
        loop.batches, loop.update = batches, hooked
        run = config.load(RunConfig, "presets", "debug", [*TINY, *words])
        with distributed.joined(torch.device("cpu")) as device:
            loop.train(run, root / name, device, validate)
    except BaseException as error:
        code = cli.status(error)
        traceback.print_exception(error)
        cli.say(f"rank {rank} says: {error}")
    finally:
        sys.stderr.flush()
        os._exit(code)


def run(root: Path, name: str, words: list[str], world: int, hook: Hook | None = None) -> list[int]:
    """Trains in `world` processes; their exit statuses, negative for a signal."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [start(root, name, words, rank, world, port, hook) for rank in range(world)]
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def main(root: Path) -> None:
    torch.set_num_threads(1)
    stop, kill = (lambda: os.kill(os.getpid(), signal.SIGTERM)), (lambda: os.kill(os.getpid(), signal.SIGKILL))
    closed = ["training.feeding.kind=closed_loop", "training.feeding.max_context=3", "training.feeding.min_context=2",
              "training.feeding.min_horizon=2", "training.feeding.max_horizon=3", "training.feeding.warmup=0.2",
              "training.feeding.max_gradient=2", "training.batch_size=4", "training.steps=6"]  # fmt: skip
    codes = {
        "one": [run(root, "one", WORDS, 1)],
        "two": [run(root, "two", WORDS, 2)],
        "two, then one": [run(root, "two, then one", WORDS, 2, at(4, 1, stop)), run(root, "two, then one", WORDS, 1)],
        "one, then two": [run(root, "one, then two", WORDS, 1, at(4, 0, stop)), run(root, "one, then two", WORDS, 2)],
        "closed loop, one": [run(root, "closed loop, one", closed, 1)],
        "closed loop, two": [run(root, "closed loop, two", closed, 2)],
        "raises": [run(root, "raises", WORDS, 2, at(5, 1, fail))],
        "killed": [run(root, "killed", WORDS, 2, at(5, 1, kill))],
        "odd": [run(root, "odd", ["training.batch_size=3"], 2)],
        "diverges": [run(root, "diverges", ["training.optimizer.learning_rate=1e30", "training.save_every=1",
                                            "training.optimizer.warmup_steps=0", "training.batch_size=2"], 2)],
    }  # fmt: skip
    print(json.dumps(codes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
