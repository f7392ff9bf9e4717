"""Worker processes: a photo that crashes its decoder ends a worker, which is replaced, but not the
server.

The server sends the name of one of the `tasks` and its inputs; a worker answers with what is sent
as JSON, or with the error that the library raised. It loads the model once. Memory and time of a
task are limited.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from regiontalk.errors import ImageError, ModelError, RegionTalkError, UsageError
from regiontalk.serve.processes import LOOKING, Child, Work, give_way, limit_memory
from regiontalk.serve.settings import Settings

START_SECONDS = 120.0  # to load the model or to open the index, even on a busy machine
FIRST_TASK = "about"  # it opens the index
MOST_WAITING = 64  # tasks; a page of thumbnails sends many requests at once
MOST_WAITING_UPLOADS = 48  # of them, so that there is room for others


Gone = Callable[[], Awaitable[bool]]


class Busy(RegionTalkError):
    """Too many tasks are waiting."""

    http_status = 503


class OwnFault(RegionTalkError):
    """A bug in this program; the worker has logged the traceback."""


class Workers:
    """`settings.workers` processes, and the queue of tasks that wait for them. Used from the event
    loop.

    Uploaded photos, which may take as long as a task may, leave one worker to all other tasks.

    `tasks`, `refused` (tasks) and `lost` (workers) are counted from the start.
    """

    def __init__(self, settings: Settings, work: Work | None = None) -> None:
        self.tasks = self.refused = self._waiting = self._waiting_uploads = 0
        self._settings = settings
        self._work = work or _work
        self._workers = list[Worker]()
        self._threads = ThreadPoolExecutor(settings.workers, "worker")
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        self._for_uploads = asyncio.Semaphore(max(1, settings.workers - 1))

    @property
    def lost(self) -> int:
        return sum(worker.lost for worker in self._workers)

    @property
    def waiting(self) -> int:
        return self._waiting + self._waiting_uploads

    async def start(self) -> Any:
        """What the first worker reports about the model and the index. The others start after it,
        because starting all at once is slower."""
        self._add_worker()
        about = await self.ask(FIRST_TASK)
        while len(self._workers) < self._settings.workers:
            self._add_worker()
        return about

    def _add_worker(self) -> None:
        self._workers.append(Worker(self._settings, self._work))
        self._free.put_nowait(self._workers[-1])

    async def ask(self, task: str, gone: Gone | None = None, **inputs: Any) -> Any:
        """Runs a task on the next free worker; raises what the task raises.

        `gone`: whether the client has disconnected. The task is not started then.
        """
        if not isinstance(inputs.get("photo"), bytes):
            return await self._run(task, gone, inputs)
        if self._waiting_uploads >= MOST_WAITING_UPLOADS:
            raise self.refusal()
        self._waiting_uploads += 1
        try:
            await self._for_uploads.acquire()
        finally:
            self._waiting_uploads -= 1
        return await self._run(task, gone, inputs, self._for_uploads.release)

    async def _run(
        self,
        task: str,
        gone: Gone | None,
        inputs: dict[str, Any],
        done: Callable[[], None] = lambda: None,
    ) -> Any:
        """`done` is called when the worker is free again."""
        try:
            worker = await self._next_worker()
        except BaseException:
            done()
            raise
        if gone is not None and await gone():
            self._free.put_nowait(worker)
            done()
            raise Busy("the client has disconnected")
        self.tasks += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, worker.ask, task, inputs)

        def set_free(work: asyncio.Future[Any]) -> None:  # also if the client has disconnected
            self._free.put_nowait(worker)
            done()
            if not work.cancelled():
                work.exception()  # or asyncio prints that nobody asked for it

        work.add_done_callback(set_free)
        return await asyncio.shield(work)

    async def _next_worker(self) -> Worker:
        if self.waiting >= MOST_WAITING:
            raise self.refusal()
        self._waiting += 1
        try:
            return await self._free.get()
        finally:
            self._waiting -= 1

    def refusal(self) -> Busy:
        self.refused += 1
        return Busy("the server is busy", hint="try again in a moment")

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(cancel_futures=True)


class Lost(ImageError):
    """The worker ended during its task."""


class Worker:
    """One process at a time, used by one thread at a time."""

    def __init__(self, settings: Settings, work: Work) -> None:
        self._settings = settings
        self._work = work
        self._closed = False
        self._changing = threading.Lock()  # the process: the server may close us at any time
        self.lost = 0
        self._start()

    def _start(self) -> None:
        self._child = Child(self._work, self._settings)
        self._ready = False

    def ask(self, task: str, inputs: dict[str, Any]) -> Any:
        """A process that ended may have been ended for what others did, when memory ran out: so the
        task is tried once more."""
        try:
            try:
                return self._try(task, inputs)
            except (EOFError, OSError) as error:
                if self._closed or isinstance(error, TimeoutError):
                    raise
                self._replace()
                return self._try(task, inputs)
        except TimeoutError as error:  # an OSError too
            self._replace()
            raise Lost(f"this takes longer than {self._seconds(task):g} seconds") from error
        except (EOFError, OSError) as error:
            self._replace()
            raise Lost("this needs more memory than the limit") from error

    def _try(self, task: str, inputs: dict[str, Any]) -> Any:
        if not self._ready:
            self._child.receive(START_SECONDS)
            self._ready = True
        self._child.connection.send((task, inputs))
        return self._child.receive(self._seconds(task))

    def _seconds(self, task: str) -> float:
        return max(START_SECONDS if task == FIRST_TASK else 0.0, self._settings.seconds)

    def _replace(self) -> None:
        with self._changing:
            self.lost += 1
            self._child.end()
            if not self._closed:
                self._start()

    def close(self) -> None:
        with self._changing:
            self._closed = True
            self._child.end()


def _work(connection: Connection, settings: Settings) -> None:
    """The main function of a worker."""
    from regiontalk.serve import tasks

    give_way(LOOKING)
    desk = tasks.Desk.of(settings)
    connection.send("ready")
    limit_memory()
    while True:
        task, inputs = connection.recv()
        connection.send(_attempt(partial(tasks.TASKS[task], desk, **inputs)))


def _attempt(task: Callable[[], Any]) -> Any:
    try:
        return task()
    except ModelError as error:  # the model was loaded, but does not support the task
        return UsageError(error.message, hint=error.hint)
    except RegionTalkError as error:
        return error
    except MemoryError:
        return ImageError("this needs more memory than the limit")
    except Exception:
        traceback.print_exc()
        return OwnFault("an internal error; see the log of the server")
