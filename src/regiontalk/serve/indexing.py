"""The process that keeps the index up to date while the server answers from what is indexed so far.

It looks at the photos of the folder, and then watches the folder: when photos are added, changed or
deleted, it updates the index again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from regiontalk.errors import RegionTalkError
from regiontalk.images.paths import WITH_VIDEOS, find_photos
from regiontalk.search.build import Progress
from regiontalk.search.index import Index
from regiontalk.serve.corrections import Corrections
from regiontalk.serve.processes import INDEXING, Child, Work, give_way, limit_memory
from regiontalk.serve.settings import Settings

MAX_FAILURES = 3  # processes in a row that may fail; each continues where the last one stopped
REPORT_SECONDS = 0.5
WATCH_SECONDS = 2.0  # between two looks at the folder
WATCH_SHARE = 0.05  # of the time at most is spent with looking at the folder
RETRY_SECONDS = 30.0  # after an update that failed, for example because another program updates

Files = Mapping[str, tuple[int, int]]
"""The size and the time of change of each photo of a folder."""


class News(NamedTuple):
    """What the process reports: how many photos the index has, `progress` as in the JSON of the
    health call (None: there is nothing left to do), and what went wrong."""

    photos: int
    progress: dict[str, Any] | None
    problem: str = ""


class Indexing:
    """Watches the folder and updates its index. Its state: the last `News`, and `updates`, the
    number of finished updates."""

    def __init__(self, settings: Settings, work: Work | None = None) -> None:
        self.photos = 0
        self.problem = ""
        self.updates = 0
        self.progress = Progress(0, 0, 0, None)._asdict() if settings.updates_index else None
        self._settings = settings
        self._work = work or _index
        self._closed = False
        self._child: Child | None = None

    def begin(self, photos: int) -> None:
        """Starts the process; `photos` are in the index already."""
        self.photos = photos
        if self._settings.updates_index:
            self._child = Child(self._work, self._settings)
            threading.Thread(target=self._follow, args=(self._child,), daemon=True).start()

    def _follow(self, child: Child) -> None:
        failures = 0
        while failures < MAX_FAILURES:
            try:
                while True:
                    self.photos, self.progress, self.problem = child.receive()
                    if self.progress is None:
                        self.updates += 1
                        failures = 0
            except RegionTalkError as error:
                self.problem = _explain(error)
                break
            except (EOFError, OSError):
                if self._closed:
                    return
                failures += 1
                self.problem = "the indexing process ended early"
                child.end()
                child = self._child = Child(self._work, self._settings)
        self.progress = None
        child.end()  # otherwise it stays in the table of processes

    def close(self) -> None:
        self._closed = True
        if self._child is not None:
            self._child.end()


def _explain(error: RegionTalkError) -> str:
    return error.message + (f" ({error.hint})" if error.hint else "")


def _index(connection: Connection, settings: Settings) -> None:
    """Updates the index when the folder has changed, until the server ends."""
    from regiontalk.serve.tasks import Desk

    give_way(INDEXING)
    index = Desk.of(settings).index
    assert index is not None
    limit_memory()
    reporter = _Reporter(connection, index)
    indexed: Files | None = None
    retry_at = 0.0
    while True:
        began = time.monotonic()
        files = find_files(index.folder)
        seconds = time.monotonic() - began
        is_due = files != indexed or (reporter.problem and began >= retry_at)
        if files is None:
            reporter.report_missing()
        elif is_due or reporter.is_missing:
            reporter.update()
            indexed = files
            retry_at = time.monotonic() + RETRY_SECONDS
        if connection.poll(max(WATCH_SECONDS, seconds * (1 / WATCH_SHARE - 1))):
            connection.recv()  # raises EOFError: the server has ended


def find_files(folder: Path) -> Files | None:
    """The photos of a folder; None if the folder is not there."""
    if not folder.is_dir():
        return None
    files = {}
    for path in find_photos([str(folder)], suffixes=WITH_VIDEOS).paths:
        with suppress(OSError):  # deleted meanwhile
            status = Path(path).stat()
            files[path] = (status.st_size, status.st_mtime_ns)
    return files


class _Reporter:
    """Updates an index, and reports what happens."""

    def __init__(self, connection: Connection, index: Index) -> None:
        self._connection = connection
        self._index = index
        self._photos = 0
        self._reported = 0.0
        self.problem = ""
        self.is_missing = False

    def update(self) -> None:
        self.is_missing = False
        try:
            self._index.update(watch=self._report_progress)
            Corrections.of(self._index).follow(self._index)
            self.problem = ""
        except RegionTalkError as error:
            self.problem = _explain(error)
        self._report(None)

    def report_missing(self) -> None:
        if not self.is_missing:
            self.is_missing = True
            self.problem = (
                f"{self._index.folder} is not there at the moment; nothing is lost, "
                "and the page goes on when it is back"
            )
            self._report(None)

    def _report_progress(self, progress: Progress) -> None:
        if progress.total and time.monotonic() - self._reported > REPORT_SECONDS:
            self._reported = time.monotonic()
            left = None if progress.seconds_left is None else round(progress.seconds_left, 1)
            self._report(progress._replace(seconds_left=left)._asdict())

    def _report(self, progress: dict[str, Any] | None) -> None:
        with suppress(RegionTalkError):  # the index is in a folder that is not there
            self._photos = len(self._index)
        self._connection.send(News(self._photos, progress, self.problem))
