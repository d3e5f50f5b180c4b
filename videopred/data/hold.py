"""A folder that is written to belongs to one process at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from videopred.config import ConfigError

LOCK = ".lock"


@contextmanager
def hold(folder: Path, doing: str) -> Iterator[None]:
    """Makes the folder and holds it against other processes, of which `doing` says what they do there.

    Raises ConfigError if another process has it or it is a file; OSError.

    The lock is the kernel's and ends with the process, however that ends: the file `.lock` by itself means nothing.
    (A record lock, not `flock`: workers that outlive a killed process would go on holding that one.)
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise ConfigError(
                f"{folder}: another process {doing} in this folder; wait until it ends, or give another --out"
            ) from error
        except OSError:
            pass  # some network disks know no locks
        yield
