"""Kills training over and over and lets it go on: `python killing.py FOLDER`. Prints what it did as JSON.

Not a test itself: the processes are forked from this one, which has imported torch and trained a moment. Half of them
kill themselves at a random operation on files (Python's audit hooks name them), half are killed by a timer.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
from conftest import TIMES, TINY

from videopred import config
from videopred.training import RunConfig
from videopred.training.loop import train

STEPS, KILLS = 60, 30
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")
OVERRIDES = [f"training.steps={STEPS}", "training.save_every=1", "training.keep=2"]


def fork(folder: Path, wanted: str, count: int, report: Path) -> int:
    """Starts training in a process of its own; it kills itself at its `count`-th `wanted` of a file of `folder`."""
    process = os.fork()
    if process:
        return process
    left = count

    def hook(event: str, args: tuple) -> None:
        nonlocal left
        if event == wanted and (event == "os.remove" or str(folder) in str(args[0])):
            left -= 1
            if left == 0:
                with open(report, "a") as file:
                    file.write(f"{event}\n")
                os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        sys.addaudithook(hook)
        run = config.load(RunConfig, "presets", "debug", [*TINY, *OVERRIDES])
        train(run, folder, torch.device("cpu"))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def await_step(folder: Path) -> None:
    """Waits for a new step folder: from then on a kill may fall anywhere in a save or an update."""
    before = set(folder.glob("step_*"))
    until = time.monotonic() + 20
    while time.monotonic() < until and not set(folder.glob("step_*")) - before:
        time.sleep(0.001)


def digest(folder: Path) -> list[str]:
    last = folder / f"step_{STEPS:08d}"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    log = [{key: value for key, value in line.items() if key not in TIMES} for line in lines]
    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(last.iterdir())]
    return [*files, hashlib.sha256(json.dumps(log).encode()).hexdigest()]


def main(root: Path) -> None:
    torch.set_num_threads(1)
    sys.stderr = open(root / "log", "w")  # noqa: SIM115
    run = config.load(RunConfig, "presets", "debug", [*TINY, "training.steps=1"])
    train(run, root / "warm", torch.device("cpu"))  # what is imported and read once, the processes then have
    dice = random.Random(0)
    report, killed, straight = root / "report", root / "killed", root / "straight"
    timed, code = 0, -1
    for number in range(KILLS):
        wanted = EVENTS[number // 2 % len(EVENTS)] if number % 2 else ""
        process = fork(killed, wanted, dice.randrange(1, 30 if wanted == "open" else 4), report)
        if not wanted:
            await_step(killed)
            time.sleep(dice.uniform(0, 0.05))
            os.kill(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code >= 0:
            break
        timed += not wanted
    if code < 0:
        code = os.waitstatus_to_exitcode(os.waitpid(fork(killed, "", 0, report), 0)[1])
    assert code == 0, (root / "log").read_text()[-2000:]
    assert os.waitstatus_to_exitcode(os.waitpid(fork(straight, "", 0, report), 0)[1]) == 0
    kills = report.read_text().split() + ["timer"] * timed
    damaged = [path.name for path in killed.glob("damaged_*")]
    print(json.dumps({"straight": digest(straight), "killed": digest(killed), "kills": kills, "damaged": damaged}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
