"""Keeps freed memory in the process, so that large tensors are not paid for twice.

glibc maps every block above 32 MiB afresh and gives it back to the system when it is freed; the system then zeroes the
same pages again, one fault for each 4 KiB, at the next step of the loop. For tensors that live one step this costs more
than what is done to them (134 MB through the scan: 47 ms, of which 31 ms were page faults).
"""

import os
import sys

# <malloc.h>: option -> value. No block of its own mapping, never trim the heap, grow it by 64 MiB at a time.
SETTINGS = {"M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, -1), "M_TOP_PAD": (-2, 64 << 20)}
USERS = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


def keep_memory() -> bool:
    """Tells glibc's malloc to keep what is freed; to be called before the large allocations. Whether it did.

    The price: the process stays as large as it once was. Does nothing on other systems, and where the environment
    already says how malloc is to behave (one of `USERS`).
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in USERS):
        return False
    import ctypes

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):  # musl
        return False
    done = [libc.mallopt(option, value) for option, value in SETTINGS.values()]
    return all(done)
