"""A file that appears whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class WholeFile:
    """Fills a temporary file in the same folder, which takes the name `path` when the `with` block ends without error.

    After an error the temporary file is removed, and an old file of that name stays as it was. Members write to
    `temporary`; `finish` puts what is still held back into it, `release` lets go of what is held and raises nothing.
    """

    def __init__(self, path: Path):
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def finish(self) -> None: ...

    def release(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.finish()
                _sync(self.temporary)
                os.replace(self.temporary, self.path)
        except OSError as late:
            error = late
        finally:
            self.release()
            self.temporary.unlink(missing_ok=True)
        ours = isinstance(error, OSError) and (error.filename == str(self.temporary) or error.errno in DISK_FULL)
        if isinstance(error, OSError) and (ours or kind is None):  # people know the file by the name they gave it
            raise OSError(error.errno, error.strerror, str(self.path)) from error


def _sync(path: Path) -> None:
    """On disk before it takes the name: after a power cut there is the old file or the new one."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def require_writable(path: Path) -> None:
    """Raises ValueError unless a file can be made at `path`: to be asked before the work. Makes its folder."""
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(f"{path}: cannot be written: what should be its folder is a file") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror}") from error
