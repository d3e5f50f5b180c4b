"""Work that several processes share, and that ends as a whole: if one fails, or the one that asked goes, all stop.

Each worker has a session of its own. So Ctrl-C reaches only the process that started them, which stops them in order,
and what they in turn have started, such as an engine, goes with them.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn, TypeVar

Part = TypeVar("Part")
T = TypeVar("T")

PATIENCE = 5  # seconds that a worker has to end when it is asked to


class WorkerDied(Exception):
    """A worker ended without a word."""

    exit_code = 3


def work(
    do: Callable[[Part], Iterable[T]], parts: Sequence[Part], workers: int, *, start: str | None = None
) -> Generator[T]:
    """What `do` yields for every one of `parts`, as it comes; worker k of n takes parts k, k + n, k + 2n ...

    start : how processes start, as in `multiprocessing` ("spawn" where torch runs: its threads do not survive a fork)

    Raises what a worker raises (RuntimeError, with the trace, for what was nobody's mistake but ours), WorkerDied.
    """
    crew: dict[Connection, Any] = {}
    context: Any = multiprocessing.get_context(start)
    try:
        for k in range(min(workers, len(parts))):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(do, parts[k::workers], theirs), daemon=True)
            process.start()
            crew[ours] = process
            theirs.close()  # the worker has it, and when the worker ends it is closed
        waiting = set(crew)
        while waiting:
            for connection in wait(list(waiting)):
                assert isinstance(connection, Connection)
                try:
                    word, value = connection.recv()
                except EOFError:
                    crew[connection].join()
                    raise WorkerDied(f"a worker ended: {_cause(crew[connection].exitcode)}") from None
                if word == "raised":
                    raise value
                if word == "done":
                    waiting.remove(connection)
                else:
                    yield value
    finally:
        _dismiss(list(crew.values()))


def _work(do: Callable[[Part], Iterable[T]], parts: Sequence[Part], connection: Connection) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    asked = multiprocessing.parent_process()
    assert asked is not None
    try:
        for part in parts:
            for value in do(part):
                if not asked.is_alive():
                    return
                connection.send(("did", value))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing is left but to end, in order
        connection.send(("done", None))
    except KeyboardInterrupt:  # an engine that hears SIGTERM in our place says it so
        return
    except Exception as error:
        if asked.is_alive():
            connection.send(("raised", _portable(error)))


def _leave(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def _portable(error: Exception) -> Exception:
    """The error as another process can raise it: mistakes and failures of the machine as such, others with a trace."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    ours = trace is not None and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "videopred"
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    if isinstance(error, MemoryError) or (isinstance(error, ValueError) and ours):
        return (MemoryError if isinstance(error, MemoryError) else ValueError)(str(error))
    return RuntimeError("in a worker:\n" + "".join(traceback.format_exception(error)))


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        killed = " (out of memory?)" if code == -signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{killed}"
    return f"exit status {code}"


def _dismiss(crew: list[Any]) -> None:
    for process in crew:
        process.terminate()
    for process in crew:
        process.join(PATIENCE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # its session: what it may have left behind, too
        process.join()
