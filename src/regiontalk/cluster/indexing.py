"""Photos looked at by the workers of a cluster, for an index.

An index in PostgreSQL is written by the workers themselves; one in a folder has one writer, who gets what they saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from regiontalk.cluster.answers import in_chunks
from regiontalk.cluster.ray_engine import run
from regiontalk.errors import InputError, UsageError
from regiontalk.model import Model
from regiontalk.search.build import Job, See, SeeAll, Seen, identify
from regiontalk.search.store import Entry, IndexedModel, Store, Stored


@dataclass(frozen=True)
class Looking:
    """The work of a worker; with the address of a data base, what is seen is put there."""

    see: See
    store: str | None

    def __call__(self, model: Model, jobs: Sequence[Job]) -> list[tuple[str, Seen]]:
        return [(job.file.path, self._look(model, job)) for job in jobs]

    def _look(self, model: Model, job: Job) -> Seen:
        try:
            seen = self.see(model, job)
        except (InputError, UsageError) as error:
            return error
        if self.store is None or not isinstance(seen, Entry):
            return seen
        _opened(self.store, identify(model)).put([seen])
        return Stored(seen.file, seen.digest)


@cache
def _opened(address: str, model: IndexedModel) -> Store:
    """Once in a process."""
    from regiontalk.search.postgres_store import PostgresStore

    return PostgresStore(address, model)


def see_on_cluster(load: Callable[[], Model], workers: int, address: str | None, store: str | None) -> SeeAll:
    """`address`: of the cluster. `store`: of the data base that holds the index; None for one in a folder."""

    def see_all(see: See, jobs: Sequence[Job]) -> Iterator[tuple[str, Seen]]:
        for chunk in run(load, Looking(see, store), in_chunks(jobs, workers), workers, address):
            yield from chunk

    return see_all
