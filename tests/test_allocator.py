"""Freed memory stays in the process, where glibc is the allocator."""

import os
import platform
import subprocess
import sys

import pytest

from videopred import allocator

SIZE = 64 << 20
CODE = f"""
import os
from videopred import allocator

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

print(int(KEEP and allocator.keep_memory()))
before = resident()
block = bytearray(b"1") * {SIZE}
del block
print(resident() - before)
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc only")


def measure(keep: bool, **variables: str) -> tuple[bool, int]:
    """Whether memory is kept, and bytes still resident after a large block was freed; in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in allocator.USERS} | variables
    code = CODE.replace("KEEP", str(keep))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    kept, left = done.stdout.split()
    return bool(int(kept)), int(left)


@glibc
def test_a_freed_block_stays():
    kept, left = measure(keep=True)
    assert kept
    assert left > 0.9 * SIZE


@glibc
def test_without_it_a_freed_block_goes():
    assert measure(keep=False)[1] < 0.1 * SIZE


@glibc
def test_what_the_environment_says_wins():
    kept, left = measure(keep=True, MALLOC_MMAP_MAX_="100")
    assert not kept
    assert left < 0.1 * SIZE


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert allocator.keep_memory() is False


@pytest.mark.parametrize("library", [object(), None], ids=["musl", "none"])
def test_another_libc_is_left_alone(monkeypatch, library):
    import ctypes

    for name in allocator.USERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert allocator.keep_memory() is False
