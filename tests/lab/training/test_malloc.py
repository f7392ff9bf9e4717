"""Freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Page faults of taking and freeing 32 MB again and again, without and with the setting.
FAULTS = """
import resource, torch
from regiontalk.lab.training.malloc import keep_freed_memory

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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_large_blocks_are_used_again():
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    without, with_it = map(int, done.stdout.split())
    assert with_it < without / 10
