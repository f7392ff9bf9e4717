"""Keeping freed memory for the next step of a training on the CPU."""

from __future__ import annotations

import ctypes
import sys

# glibc's mallopt(3): parameters and values in bytes
TRIM_THRESHOLD = -1
TOP_PAD = -2
MMAP_THRESHOLD = -3
MAX_THRESHOLD = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tells glibc to hand large blocks that were freed to the next step, not to the system; whether
    it was told.

    Every step frees and takes tensors of the same sizes. Given back and taken again, each page is
    cleared by the system first, which can take as long as the arithmetic.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    settings = ((MMAP_THRESHOLD, MAX_THRESHOLD), (TRIM_THRESHOLD, MAX_THRESHOLD), (TOP_PAD, 2**26))
    return all(mallopt(name, value) == 1 for name, value in settings)
