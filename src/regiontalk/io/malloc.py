"""Whether the C library keeps freed memory for what comes next, or gives it back to the system.

Only glibc has such settings; they hold for the whole process.
"""

from __future__ import annotations

import ctypes
import sys

# glibc's mallopt(3): parameters and values in bytes
TRIM_THRESHOLD = -1
TOP_PAD = -2
MMAP_THRESHOLD = -3
MAX_THRESHOLD = 2**31 - 1
LARGE_BLOCK = 2**20


def keep_freed_memory() -> bool:
    """Tells glibc to hand large blocks that were freed to the next step of a training, not to the
    system; whether it was told.

    Every step frees and takes tensors of the same sizes. Given back and taken again, each page is
    cleared by the system first, which can take as long as the arithmetic.
    """
    return _set((MMAP_THRESHOLD, MAX_THRESHOLD), (TRIM_THRESHOLD, MAX_THRESHOLD), (TOP_PAD, 2**26))


def give_freed_memory_back() -> bool:
    """Tells glibc to give large blocks back to the system when they are freed; whether it was told.

    It would keep those of up to 32 MB for each thread that freed some, though other threads need
    the room.
    """
    return _set((MMAP_THRESHOLD, LARGE_BLOCK))


def _set(*settings: tuple[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return all(mallopt(name, value) == 1 for name, value in settings)
