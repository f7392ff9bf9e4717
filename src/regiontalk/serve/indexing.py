"""The process that updates the index while the server answers from what is indexed so far."""

from __future__ import annotations

import threading
import time
from multiprocessing.connection import Connection

from regiontalk.errors import RegionTalkError
from regiontalk.search.build import Progress
from regiontalk.serve.processes import INDEXING, Child, Work, give_way, limit_memory
from regiontalk.serve.settings import Settings

TRIES = 3  # processes that may fail; each continues where the last one stopped
REPORT_SECONDS = 0.5


class Indexing:
    """Its state: `photos` in the index, `progress` as in the JSON of the health call, and the last
    `problem`."""

    def __init__(self, settings: Settings, photos: int, work: Work | None = None) -> None:
        self.photos, self.problem = photos, ""
        self.progress = Progress(0, 0, 0, None)._asdict() if settings.updates_index else None
        self._settings, self._work, self._closed = settings, work or _index, False
        if settings.updates_index:
            self._child = Child(self._work, settings)
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._follow()
        self.progress = None
        self._child.end()  # otherwise it stays in the table of processes

    def _follow(self) -> None:
        for _ in range(TRIES):
            try:
                while True:
                    self.photos, self.progress = self._child.receive()
                    if self.progress is None:
                        return
            except RegionTalkError as error:
                self.problem = error.message + (f" ({error.hint})" if error.hint else "")
                break
            except (EOFError, OSError):
                if self._closed:
                    return
                self.problem = "the indexing process ended early"
                self._child.end()
                self._child = Child(self._work, self._settings)

    def close(self) -> None:
        self._closed = True
        if self._settings.updates_index:
            self._child.end()


def _index(connection: Connection, settings: Settings) -> None:
    """Sends how many photos the index has, and the progress; None if there is nothing left to
    do."""
    from regiontalk.serve.corrections import Corrections
    from regiontalk.serve.tasks import Desk

    give_way(INDEXING)
    index = Desk.of(settings).index
    assert index is not None
    limit_memory()
    told = 0.0

    def watch(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told > REPORT_SECONDS:
            told = time.monotonic()
            left = None if progress.seconds_left is None else round(progress.seconds_left, 1)
            connection.send((len(index), progress._replace(seconds_left=left)._asdict()))

    index.update(watch=watch)
    Corrections.of(index).follow(index)
    connection.send((len(index), None))
