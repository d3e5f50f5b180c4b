"""One training in many processes, as torchrun starts them.

Every process ("rank") computes its share of every batch, and all average their gradients (DDP), so that they hold the
same weights; rank 0 alone reads and writes the run folder. A preset means the same training for any number of
processes: `batch_size` counts the clips of all together, and random numbers are drawn as one process would draw them.

Two groups: gradients go the fastest way there is (NCCL between GPUs), and who waits for whom is settled over gloo,
which notices at once when a process is gone, and so may wait as long as a validation lasts. Outside of `joined` there
is one process, and everything here is free.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from videopred.config import ConfigError

PATIENCE = timedelta(days=2)  # of those that wait while rank 0 validates or saves
TIMEOUT = timedelta(minutes=10)  # for all to arrive at the start, or at one and the same gradient
# How gloo, NCCL and the store say that another process is gone.
GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo", "NCCL", "TCPStore")

Result = TypeVar("Result")
_waiting: Any = None  # the gloo group, while there are several processes


class Deserted(RuntimeError):
    """Another process of this training has ended, so this one cannot go on."""

    exit_code = 3


def rank() -> int:
    return 0 if _waiting is None else distributed.get_rank()


def world() -> int:
    """The number of processes that train together."""
    return 1 if _waiting is None else distributed.get_world_size()


@contextmanager
def joined(device: torch.device) -> Iterator[torch.device]:
    """Joins the processes that torchrun has started, if it has, and yields the device of this one: a GPU each.

    Raises ConfigError if there are too few GPUs, Deserted if another process ends before its time.
    """
    global _waiting
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield device
        return
    device = _of_this_process(device)
    try:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
        _waiting = distributed.new_group(backend="gloo", timeout=PATIENCE)
        yield device
        any_of(False)  # nobody leaves while another may still need it
        distributed.destroy_process_group()  # not after an error: it would wait for processes that are gone
    except RuntimeError as error:
        if not is_desertion(error):
            raise
        raise Deserted("another process of this training has ended; its own message says why") from error
    finally:
        _waiting = None


def is_desertion(error: BaseException) -> bool:
    """Whether this is how torch says that another process is gone."""
    return world() > 1 and type(error).__module__ != __name__ and any(words in str(error) for words in GONE)


def any_of(flag: bool) -> bool:
    """Whether `flag` is true in any process; all get the same answer."""
    if _waiting is None:
        return flag
    found = torch.tensor(int(flag))
    distributed.all_reduce(found, distributed.ReduceOp.MAX, group=_waiting)
    return bool(found)


def first(function: Callable[..., Result], *args: Any) -> Result:
    """What `function` gives in rank 0, in every process; it is called there alone, and the others wait."""
    if _waiting is None:
        return function(*args)
    found: list[Any] = [function(*args) if rank() == 0 else None]
    distributed.broadcast_object_list(found, 0, group=_waiting)
    return found[0]


def mean(numbers: dict[str, Tensor]) -> dict[str, float]:
    """The mean over processes of each of these numbers; reading them ends the wait for the device."""
    values = torch.stack([value.detach().double() for value in numbers.values()]).cpu()
    if _waiting is not None:
        distributed.all_reduce(values, group=_waiting)
        values /= world()
    return dict(zip(numbers, values.tolist(), strict=True))


def share_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Gives every process the optimiser's state of rank 0. (Weights need no such thing: DDP does it.)"""
    if _waiting is not None:
        saved = first(_bytes, optimizer.state_dict())
        if rank():
            optimizer.load_state_dict(torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True))


def share_of(total: int) -> int:
    """How many of `total` clips of a batch are this process's. Raises ConfigError if they cannot be dealt equally."""
    share, rest = divmod(total, world())
    if rest:
        raise ConfigError(
            f"training.batch_size = {total} is shared by {world()} processes: it must be a multiple of their number"
        )
    return share


def uniform(rows: int, *rest: int, generator: Generator) -> Tensor:
    """Random numbers (rows, *rest) in 0..1 for this process's clips: its rows of those one process would draw."""
    return _rows(torch.rand(rows * world(), *rest, generator=generator))


def normal(rows: int, *rest: int, generator: Generator) -> Tensor:
    """As `uniform`, standard normal."""
    return _rows(torch.randn(rows * world(), *rest, generator=generator))


def parallel(module: nn.Module) -> nn.Module:
    """The module with gradients averaged over processes, and with the weights and buffers of rank 0."""
    return module if _waiting is None else DistributedDataParallel(module, broadcast_buffers=False)


def alone(module: nn.Module) -> AbstractContextManager:
    """Within it gradients are only added up here; the first backward pass after it averages them all."""
    return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()


def _rows(drawn: Tensor) -> Tensor:
    return drawn.chunk(world())[rank()]


def _of_this_process(device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    local = int(os.environ["LOCAL_RANK"])
    if local >= torch.cuda.device_count():
        raise ConfigError(
            f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}; "
            f"start at most so many (torchrun --nproc-per-node), or give --device cpu"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def _bytes(state: dict) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()
