"""A PostgreSQL server of the tests' own, with pgvector."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest


class Server:
    """Started at once; `kill` and `start` it at will. Its folder is not pytest's: as root, it runs
    as another user."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="regiontalk-postgres-"))
        self.start()

    def start(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where it keeps its own notes
            pgserver: Any = pytest.importorskip(
                "pgserver", reason="no PostgreSQL: pip install pgserver"
            )
            while True:
                with suppress(subprocess.TimeoutExpired):  # it only waits ten seconds
                    self._server = pgserver.PostgresServer(self.folder, cleanup_mode="stop")
                    break
        self.address = str(self._server.get_uri())

    def kill(self) -> None:
        """As if its machine had lost power: all of its processes at once."""
        pid = self._server.get_pid()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        *_, port, socket = (self.folder / "postmaster.pid").read_text().splitlines()[:5]
        (self.folder / "postmaster.pid").unlink()
        Path(
            socket, f".s.PGSQL.{port}.lock"
        ).unlink()  # the process that it names may stay on as a zombie

    def stop(self) -> None:
        self._server._cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)
