"""Freed memory stays with the process, or goes back at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Page faults of taking and freeing 32 MB again and again, without and with the setting.
FAULTS = """
import resource, torch
from regiontalk.io.malloc import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(8_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
assert keep_freed_memory()
faults()
print(first, faults())
"""
# Megabytes that a process has after it freed 19 of 20 blocks of 8 MB.
HELD = """
import sys
import numpy as np
from regiontalk.io.malloc import give_freed_memory_back

def held():
    lines = open("/proc/self/status")
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) // 1024

if sys.argv[1] == "back":
    assert give_freed_memory_back()
np.ones(3_000_000)  # once 24 MB were freed, glibc keeps smaller blocks
before = held()
blocks = [np.ones(1_000_000) for _ in range(20)]
del blocks[:-1]
print(held() - before)
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")


def printed(program: str, *arguments: str) -> list[int]:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


@linux_only
def test_large_blocks_are_used_again() -> None:
    without, with_it = printed(FAULTS)
    assert with_it < without / 10


@linux_only
def test_large_blocks_go_back_when_they_are_freed() -> None:
    assert printed(HELD, "kept")[0] > 100
    assert printed(HELD, "back")[0] < 20
