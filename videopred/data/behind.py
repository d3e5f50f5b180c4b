"""Work in a thread of its own: the next frames are predicted while the last ones are drawn and encoded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Event, Thread


@contextmanager
def behind(work: Callable[..., None], ahead: int = 8) -> Iterator[Callable[..., None]]:
    """A function that hands its arguments to `work`, which is called with them in another thread, in order.

    At most `ahead` calls wait; then the caller does. All are done when the block ends. An error of `work` is raised in
    the caller, at its next call or at the end of the block; if the block ends with an error, what waits is dropped.
    """
    waiting: Queue[tuple | None] = Queue(ahead)
    failed: list[BaseException] = []
    dropping = Event()

    def serve() -> None:
        while (arguments := waiting.get()) is not None:
            if not dropping.is_set():
                try:
                    work(*arguments)
                except BaseException as error:
                    failed.append(error)
                    dropping.set()  # and go on, so that nobody waits for room

    def hand(*arguments) -> None:
        if failed:
            raise failed[0]
        waiting.put(arguments)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield hand
    except BaseException:
        dropping.set()
        raise
    finally:
        waiting.put(None)
        thread.join()
    if failed:
        raise failed[0]
