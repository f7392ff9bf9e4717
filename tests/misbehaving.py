"""A worker for tests of what the server does about those that end, hang or eat."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

from regiontalk.errors import ModelError, UsageError
from regiontalk.serve.processes import limit_memory
from regiontalk.serve.settings import Settings


def work(connection: Connection, _: Settings) -> None:
    connection.send("ready")
    limit_memory()
    while True:
        task, inputs = connection.recv()
        connection.send(TASKS[task](**inputs))


def eat() -> int:
    """More memory than a worker may take."""
    try:
        return len(bytearray(3 << 30))
    except MemoryError:
        return 0


def hang(seconds: float, photo: bytes | None = None) -> None:
    time.sleep(seconds)


def end_once(mark: Path) -> str:
    if not mark.exists():
        mark.touch()
        os._exit(9)
    return "done"


TASKS = {
    "end_once": end_once,
    "about": os.getpid,
    "end": lambda: os._exit(9),
    "hang": hang,
    "eat": eat,
    "refuse": lambda: UsageError("no", hint="yes"),
}


def open_slowly(connection: Connection, settings: Settings) -> None:
    """Its first task takes longer than tasks may."""
    connection.send("ready")
    connection.recv()
    time.sleep(3 * settings.seconds)
    connection.send("open")
    connection.recv()  # until the server ends


def fail(_: Connection, __: Settings) -> None:
    raise ModelError("there is no model")


def index(connection: Connection, settings: Settings) -> None:
    """Is lost the first time, after some photos; done the second time."""
    assert settings.folder is not None
    before = settings.folder / "was-here"
    if not before.exists():
        before.touch()
        connection.send((3, {"done": 3, "total": 9, "skipped": 0, "seconds_left": 1.0}, ""))
        os._exit(9)
    connection.send((9, None, ""))
    connection.recv()  # until the server ends


def sleep(connection: Connection, _: Settings) -> None:
    connection.send("asleep")
    time.sleep(1000)


def always_end(_: Connection, __: Settings) -> None:
    os._exit(9)
