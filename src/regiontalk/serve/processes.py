"""Processes that work for the server and end with it, within limits on memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from regiontalk.errors import RegionTalkError
from regiontalk.serve.settings import Settings

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LOOKING, INDEXING = 5, 10  # niceness: the server, which has little work itself, comes before both
LARGEST_GROWTH = 2 << 30  # bytes of memory that a process may use in addition to the loaded model

Work = Callable[[Connection, Settings], None]
"""The function that a process runs; it talks to the server through the connection."""

_context = multiprocessing.get_context(
    "spawn"
)  # a fork would inherit the server's sockets and pipes


class Child:
    """A process and our end of the connection with it."""

    def __init__(self, work: Work, settings: Settings) -> None:
        self.connection, theirs = _context.Pipe()
        self._process = _context.Process(target=_run, args=(work, theirs, settings), daemon=True)
        self._process.start()
        theirs.close()
        self._ending = threading.Lock()

    def end(self) -> None:
        """May be called more than once, also by two threads at a time."""
        with self._ending:
            self._process.kill()
            self._process.join()
            self.connection.close()

    def receive(self, seconds: float | None = None) -> Any:
        """The next message; raises EOFError if the process has ended, or the error that it sent."""
        if not self.connection.poll(seconds):
            raise TimeoutError
        message = self.connection.recv()
        if isinstance(message, RegionTalkError):
            raise message
        return message


def _run(work: Work, connection: Connection, settings: Settings) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    threading.Thread(target=_end_with_server, daemon=True).start()
    with suppress(EOFError, OSError):  # the server is gone
        try:
            work(connection, settings)
        except RegionTalkError as error:
            connection.send(error)


def _end_with_server() -> None:
    """A killed server cannot end its processes. One that goes on would hold the index's lock."""
    server = multiprocessing.parent_process()
    assert server is not None
    server.join()
    os._exit(1)


def limit_memory() -> None:
    """Limits private memory if the system can do that. The index is mapped, so it may be larger."""
    status = Path("/proc/self/status")
    if resource is None or not status.exists():
        return
    memory = next(
        int(line.split()[1]) << 10
        for line in status.read_text().splitlines()
        if line.startswith("VmData:")
    )
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory + LARGEST_GROWTH
    resource.setrlimit(
        resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most)
    )


def give_way(steps: int) -> None:
    """Lets processes of a lower niceness go first, if the system can do that."""
    with suppress(AttributeError, OSError):
        os.nice(steps)
