"""Indexes photos by the workers of a cluster.

An index in PostgreSQL is written by the workers themselves; an index in a folder has one writer,
which gets their results. Photos in tar files and object stores need PostgreSQL; they are added
once, and not checked again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from regiontalk.errors import InputError, UsageError
from regiontalk.lab.cluster import sources
from regiontalk.lab.cluster.addresses import SIGN
from regiontalk.lab.cluster.answers import as_files, in_chunks, make_chunks, not_done
from regiontalk.lab.cluster.ray_engine import run
from regiontalk.model import Model
from regiontalk.search.build import (
    Job,
    Progress,
    See,
    SeeAll,
    Seen,
    Update,
    Watch,
    identify,
    to_entry,
)
from regiontalk.search.index import Index
from regiontalk.search.store import Entry, IndexedModel, PhotoFile, Store, Stored


@dataclass(frozen=True)
class Looking:
    """The work of a worker; with the address of a database, results are stored there."""

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
    from regiontalk.search.postgres.store import PostgresStore

    return PostgresStore(address, model)


def see_on_cluster(
    load: Callable[[], Model], workers: int, address: str | None, store: str | None
) -> SeeAll:
    """`address`: of the cluster. `store`: of the database that holds the index; None for one in a
    folder."""

    def see_all(see: See, jobs: Sequence[Job]) -> Iterator[tuple[str, Seen]]:
        for chunk in run(load, Looking(see, store), in_chunks(jobs, workers), workers, address):
            yield from chunk

    return see_all


@dataclass(frozen=True)
class Adding:
    """The work of a worker on photos in tar files and object stores; returns how many were added,
    and the errors."""

    store: str
    options: str
    """The options that the photos' addresses share."""

    def __call__(self, model: Model, paths: Sequence[str]) -> tuple[int, list[str]]:
        model = as_files(model)
        added = 0
        skipped = list[str]()
        for name, source in sources.open_all(paths, self.options, model.limits):
            try:
                entry = _look_into(model, name, sources.readable(source))
            except (InputError, UsageError) as error:
                skipped.append(sources.why_skipped(name, source, error))
                continue
            _opened(self.store, identify(model)).put([entry])
            added += 1
        return added, skipped


def _look_into(model: Model, name: str, source: str | bytes) -> Entry:
    assert isinstance(source, bytes)  # only photos in folders are paths
    file = PhotoFile(name if SIGN in name else name.lstrip("/"), len(source), time.time_ns())
    return to_entry(model, model.look(source), file, hashlib.blake2b(source).digest()[:16])


def add_sources(
    index: Index,
    place: str,
    load: Callable[[], Model],
    workers: int,
    address: str | None,
    rebuild: bool,
    watch: Watch,
) -> Update:
    """Adds the photos of a tar file, or below an address, that the index does not have."""
    assert index.address is not None
    with index.writing(rebuild) as store:
        known = {name if SIGN in name else f"/{name}" for name in store.files()}
        paths = sources.find([place]).paths
        left = not_done(paths, known)
        done = Update(unchanged=len(paths) - len(left))
        total = len(left)
        watch(Progress(0, total, 0, None))
        work = Adding(index.address, sources.options_of([place]))
        for added, skipped in run(load, work, make_chunks(left, workers), workers, address):
            done.added += added
            done.skipped += skipped
            watch(Progress(done.added + len(done.skipped), total, len(done.skipped), None))
        store.compact()
    return done
