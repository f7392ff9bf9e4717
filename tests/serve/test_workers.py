"""Workers that end, hang or eat cost themselves, and are replaced."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import misbehaving
from regiontalk.errors import ModelError, UsageError
from regiontalk.serve import workers
from regiontalk.serve.settings import Settings
from regiontalk.serve.workers import Busy, Lost, Workers

Work = Callable[[Workers], Awaitable[None]]


def with_workers(work: Work, target: Any = misbehaving.work, **settings: Any) -> None:
    async def run() -> None:
        some = Workers(Settings(**{"workers": 1, "seconds": 1.0, **settings}), target)
        try:
            await some.start()
            await work(some)
        finally:
            some.close()

    asyncio.run(run())


def test_one_that_ends_or_hangs_is_replaced() -> None:
    async def work(some: Workers) -> None:
        pids = {await some.ask("about")}
        for task, inputs, reason in (
            ("end", {}, "memory"),
            ("hang", {"seconds": 100}, "longer than 1 seconds"),
        ):
            with pytest.raises(Lost, match=reason):
                await some.ask(task, **inputs)
            pids.add(await some.ask("about"))
        assert len(pids) == 3
        assert some.lost == 3, "what ends a worker is tried twice, what takes too long once"

    with_workers(work)


def test_an_index_may_take_longer_to_open_than_a_task() -> None:
    """A server on a busy machine must not end because of it."""

    async def run() -> None:
        some = Workers(Settings(workers=1, seconds=0.2), misbehaving.open_slowly)
        try:
            assert await some.start() == "open"
            assert some.lost == 0
        finally:
            some.close()

    asyncio.run(run())


def test_a_task_is_not_blamed_for_a_worker_that_others_ended(tmp_path: Path) -> None:
    async def work(some: Workers) -> None:
        os.kill(await some.ask("about"), signal.SIGKILL)  # between two tasks
        assert await some.ask("hang", seconds=0) is None
        assert await some.ask("end_once", mark=tmp_path / "was-here") == "done"  # in a task
        assert some.lost == 2

    with_workers(work)


def test_memory_is_limited_where_the_system_can() -> None:
    async def work(some: Workers) -> None:
        assert await some.ask("eat") == 0

    with_workers(work, seconds=30.0)


def test_errors_come_back_whole() -> None:
    async def work(some: Workers) -> None:
        with pytest.raises(UsageError) as caught:
            await some.ask("refuse")
        assert (caught.value.message, caught.value.hint) == ("no", "yes")

    with_workers(work)


def test_no_more_wait_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_WAITING", 3)

    async def work(some: Workers) -> None:
        asked = [asyncio.create_task(some.ask("hang", seconds=0.05)) for _ in range(10)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in done if one is not None] == [Busy] * 6
        assert await some.ask("hang", seconds=0) is None

    with_workers(work)


def test_uploads_leave_a_worker_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_WAITING_UPLOADS", 3)

    async def work(some: Workers) -> None:
        await some.ask("about")
        uploads = [
            asyncio.create_task(some.ask("hang", seconds=0.5, photo=b"a bomb")) for _ in range(6)
        ]
        await asyncio.sleep(0)  # until they wait
        assert some.waiting == 3
        assert await some.ask("about")
        assert not any(upload.done() for upload in uploads[:4]), "it did not wait for them"
        ended = await asyncio.gather(*uploads, return_exceptions=True)
        assert [type(error) for error in ended if error is not None] == [Busy] * 2

    with_workers(work, workers=2)


def test_who_does_not_wait_for_the_answer_leaves_the_worker_usable() -> None:
    async def work(some: Workers) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(some.ask("hang", seconds=0.3), 0.05)
        pid = await some.ask("about")
        assert pid == await some.ask("about")
        assert some.lost == 0

    with_workers(work)


def test_nothing_is_done_for_those_who_are_gone() -> None:
    async def yes() -> bool:
        return True

    async def work(some: Workers) -> None:
        with pytest.raises(Busy):
            await some.ask("end", yes)
        assert await some.ask("about")
        assert some.lost == 0

    with_workers(work)


def test_what_keeps_a_worker_from_starting_is_told() -> None:
    async def work(_: Workers) -> None: ...

    with pytest.raises(ModelError, match="there is no model"):
        with_workers(work, misbehaving.fail)


def test_closing_while_a_worker_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread sees that the process has ended, and ends it too: the connection is closed once,
    and no other process starts."""

    def close_slowly(connection: Connection) -> None:
        time.sleep(0.2)
        os.close(connection.fileno())

    monkeypatch.setattr(Connection, "_close", close_slowly)

    async def work(some: Workers) -> None:
        task = asyncio.create_task(some.ask("hang", seconds=100))
        await asyncio.sleep(0.3)
        some.close()
        with pytest.raises(Lost):
            await task
        assert multiprocessing.active_children() == []

    with_workers(work, seconds=100.0)
