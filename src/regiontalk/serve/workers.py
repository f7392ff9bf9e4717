"""Processes that do the work: what a photo does to its decoder costs a process, which is replaced, never the server.

The server asks for one of the `tasks` by name, with its inputs; a worker answers with what goes out as JSON, or with
the error that the library raised. It loads the model once, and may take so much memory and so much time for a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from regiontalk.errors import ImageError, RegionTalkError
from regiontalk.serve.settings import Settings

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LARGEST_GROWTH = 2 << 30  # bytes of memory that a worker may take beside the loaded model
START_SECONDS = 120.0  # to load the model, on a machine that is busy
MOST_WAITING = 64  # tasks; a page full of thumbnails waits at once

_processes = multiprocessing.get_context("spawn")  # a fork would inherit the server's sockets and pipes


class Busy(RegionTalkError):
    """More is asked for than can be done soon."""

    http_status = 503


class Unexpected(RegionTalkError):
    """A mistake in our program; the worker has written where."""


@dataclass
class Counts:
    """What happened since the start, for `/metrics`."""

    tasks: int = 0
    lost: int = 0
    refused: int = 0


class Workers:
    """As many processes as `settings.workers`. All but `close` is called from the event loop."""

    def __init__(self, settings: Settings) -> None:
        self.counts = Counts()
        self.waiting = 0
        self._workers = [Worker(settings) for _ in range(settings.workers)]
        self._threads = ThreadPoolExecutor(settings.workers, "worker")
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        for worker in self._workers:
            self._free.put_nowait(worker)

    async def ask(self, task: str, **inputs: Any) -> Any:
        """What a worker answers to a task, as soon as one is free; raises what the task raises."""
        if self.waiting >= MOST_WAITING:
            self.counts.refused += 1
            raise Busy("too much is asked for at the moment", hint="try again in a moment")
        self.waiting += 1
        try:
            worker = await self._free.get()
        finally:
            self.waiting -= 1
        self.counts.tasks += 1
        lost = worker.lost
        work = asyncio.get_running_loop().run_in_executor(self._threads, worker.ask, task, inputs)

        def release(done: asyncio.Future[Any]) -> None:
            """Also where nobody waits for the answer any more."""
            self.counts.lost += worker.lost - lost
            done.cancelled() or done.exception()
            self._free.put_nowait(worker)

        work.add_done_callback(release)
        return await asyncio.shield(work)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(cancel_futures=True)


class Worker:
    """One process at a time. It is asked by one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self.lost = 0
        self._settings, self._closed = settings, False
        self._start()

    def _start(self) -> None:
        self._ready = False
        self._connection, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_work, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, task: str, inputs: dict[str, Any]) -> Any:
        try:
            if not self._ready:
                self._answer(START_SECONDS)
                self._ready = True
            self._connection.send((task, inputs))
            return self._answer(self._settings.seconds)
        except (EOFError, OSError) as error:
            self._replace()
            raise ImageError("this photo takes more memory than it may") from error
        except TimeoutError as error:
            self._replace()
            raise ImageError(f"this photo takes longer than {self._settings.seconds:g} seconds") from error

    def _answer(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            raise TimeoutError
        answer = self._connection.recv()
        if isinstance(answer, RegionTalkError):
            raise answer
        return answer

    def _replace(self) -> None:
        self.lost += 1
        self._end()
        if not self._closed:
            self._start()

    def close(self) -> None:
        self._closed = True
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


def _work(connection: Connection, settings: Settings) -> None:
    """A worker's life: it ends with the server, whatever ends that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    from regiontalk.serve import tasks

    with contextlib.suppress(EOFError, OSError):  # the server is gone
        try:
            desk = tasks.Desk.of(settings)
        except RegionTalkError as error:
            connection.send(error)
            return
        connection.send(None)
        _limit_memory()
        while True:
            task, inputs = connection.recv()
            connection.send(_attempt(desk, task, inputs))


def _attempt(desk: Any, task: str, inputs: dict[str, Any]) -> Any:
    from regiontalk.serve import tasks

    try:
        return tasks.TASKS[task](desk, **inputs)
    except RegionTalkError as error:
        return error
    except MemoryError:
        return ImageError("this photo takes more memory than it may")
    except Exception:
        traceback.print_exc()
        return Unexpected("an error of the server's own; its log says more")


def _limit_memory() -> None:
    """Where the system can limit it: private memory, for the index is mapped and may be larger."""
    status = Path("/proc/self/status")
    if resource is None or not status.exists():
        return
    taken = next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith("VmData:"))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = taken + LARGEST_GROWTH
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
