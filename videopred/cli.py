"""The command line: finds the command, runs it, and turns what goes wrong into an exit status and a line.

    0 done     2 the user's mistake     3 the machine's, or a training that diverged     130 interrupted     1 our fault

A mistake is an error that videopred raised on purpose (`raise ValueError(...)` in our own code), or a file that cannot
be read or written. A ValueError from deeper down, say from inside torch, is our fault: we let something through.
"""

import argparse
import dis
import errno
import importlib
import io
import os
import select
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

from videopred import __version__, allocator
from videopred.config import ConfigError

COMMANDS = ("train", "rollout", "eval", "table", "data", "show", "list", "weights", "bench", "sweep")

USER_ERRNO = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.EISDIR, errno.ENOTDIR}
USER_ERRNO |= {errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP}
MACHINE_ERRNO = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EFBIG}
MACHINE_WORDS = ("No space left on device", "can't allocate memory")  # safetensors and torch on the CPU say it this way


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"videopred: error: {message} (see {self.prog} --help)\n")


def parser() -> Parser:
    """The parser of the whole command line."""
    top = Parser(prog="videopred", description="Video prediction: train a model, roll it out for ever, evaluate it.")
    top.add_argument("--version", action="version", version=f"videopred {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        _module(name).add(subparsers)
    return top


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Arguments of a command; key.path=value overrides may stand before, between and after the options."""
    top = parser()
    args, rest = top.parse_known_args(argv)
    if hasattr(args, "overrides") and not any(word.startswith("-") for word in rest):
        args.overrides = [*args.overrides, *rest]
    elif rest:
        Parser(prog=f"{top.prog} {args.command}").error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and gives its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be text; stderr is as lenient already
        sys.stdout.reconfigure(errors="backslashreplace")
    before = _hear_termination()
    try:
        args = parse(argv)
        allocator.keep_memory()  # before torch allocates
        code = _module(args.command).run(args)
        sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt) as error:
        return _report(error, argv)
    finally:
        _settle_stdout()
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _hear_termination() -> Any:
    """Makes SIGTERM end a command as Ctrl-C does, its temporary files removed; returns what it did before, or None.

    Only where it would kill the process: a caller's own handler stays. Training and making clips set theirs.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return None
    return signal.signal(signal.SIGTERM, signal.default_int_handler)


def _report(error: BaseException, argv: Sequence[str]) -> int:
    if isinstance(error, BrokenPipeError) and _reader_left():  # as `head` does when it has seen enough
        return 0
    code = status(error)
    if code == 1:
        traceback.print_exception(error)
        say(f"this is a fault of videopred {__version__}, not yours. Please report it, with the lines above")
        say(f"and what was run: videopred {shlex.join(argv)}")
    else:
        say("interrupted" if code == 130 else f"error: {_line(error)}")
    return code


def say(text: str) -> None:
    print(f"videopred: {text}", file=sys.stderr)


def status(error: BaseException) -> int:
    """The exit status that an error deserves; an `exit_code` it carries decides."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, KeyboardInterrupt):
        return 130
    if (code := getattr(error, "exit_code", None)) is not None:
        return code
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or number in MACHINE_ERRNO:
        return 3
    if any(words in str(error) for words in MACHINE_WORDS):
        return 3
    if isinstance(error, ConfigError) or number in USER_ERRNO:
        return 2
    return 2 if isinstance(error, ValueError | OSError) and _raised_by_us(error.__traceback__) else 1


def _raised_by_us(trace: TracebackType | None) -> bool:
    """Whether the innermost frame is videopred's and stands at a `raise`, not at a call of something that failed."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] != __package__:
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return f"out of memory: {' '.join(str(error).split()) or 'try a smaller batch'}"
    return " ".join(str(error).split()) or type(error).__name__


def _reader_left() -> bool:
    """Whether nobody reads stdout any more: poll answers without being asked for anything."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def _settle_stdout() -> None:
    """Where stdout cannot be written, keeps Python from trying, and complaining, once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _module(command: str):
    return importlib.import_module(f"videopred.commands.{command}")
