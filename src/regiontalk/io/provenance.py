"""Where a result comes from: the command, the machine, the commit, and the SHA-256 of a file."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from regiontalk.errors import DataError
from regiontalk.io.files import open_file


def command_line() -> str:
    name = Path(sys.argv[0]).name
    return shlex.join(["regiontalk" if name in ("-c", "__main__.py") else name, *sys.argv[1:]])


def cpu_cores() -> int:
    """The cores that this process may use; in a container fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_name() -> str:
    """The processor, for example "2 cores of Intel(R) Xeon(R) CPU"."""
    name = _cpu_info("model name") or platform.processor() or platform.machine()
    return f"{cpu_cores()} cores of {name}"


SPEED_INSTRUCTIONS = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve"),
)
"""What matters to the speed of a network, by Linux's names: x86, then ARM."""


def instruction_sets() -> list[str]:
    """The names among `SPEED_INSTRUCTIONS` that the CPU has; empty where the system does not
    tell."""
    flags = (_cpu_info("flags") or _cpu_info("Features")).split()
    return [name for name in SPEED_INSTRUCTIONS if name in flags]


def _cpu_info(field: str) -> str:
    """A field of the first core; empty where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(field))
    return next(values, "")


def file_fingerprint(path: Path) -> str:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error


def git(folder: Path, *arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
