"""A run's folder belongs to one process at a time and to one configuration for ever."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from videopred import config
from videopred.checkpoint import CONFIG, steps
from videopred.training import RunConfig, distributed
from videopred.training.checkpoint import replace_file


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Makes the folder and holds it against other processes. Raises ConfigError if one has it, OSError.

    The lock is the kernel's and ends with the process, however that ends: the file `.lock` by itself means nothing.
    (A record lock, not `flock`: workers that outlive a killed process would go on holding that one.)
    Of processes that train together rank 0 holds it for all.
    """
    if distributed.rank():
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise config.ConfigError(f"{folder}: is a file; give a folder to train in")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise config.ConfigError(
                f"{folder}: another process is training in this folder; wait until it ends, or give another --out"
            ) from error
        except OSError:
            pass  # some network disks know no locks
        yield


def claim(folder: Path, run: RunConfig) -> str:
    """Writes the configuration into a new run folder, or checks it against the one there; returns it as TOML text.

    A key that the one there lacks, because it is older, counts as its default. Raises ConfigError, OSError.
    """
    text, path = config.dumps(run), folder / CONFIG
    if not path.exists():
        replace_file(path, text.encode())
        return text
    there = config.parse(path)
    if not there:
        raise config.ConfigError(
            f"{path}: empty; copy the {CONFIG} of the newest step_* folder there, or remove {folder}"
        )
    with suppress(config.ConfigError):  # of another version: what is wrong with it shows in the difference
        there = config.to_dict(config.from_dict(RunConfig, there))
    changed = config.difference(there, config.to_dict(run))
    if changed:
        raise config.ConfigError(
            f"{folder} belongs to another configuration: {'; '.join(changed)}. Give another --out, or the same settings"
            + ("" if steps(folder) else f". There is no checkpoint in it yet, so {folder} can also be removed")
        )
    return text
