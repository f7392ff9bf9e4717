"""Runs the same call on all photos by the workers of a cluster, with the results in shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from regiontalk.errors import InputError, UsageError
from regiontalk.lab.cluster import sources
from regiontalk.lab.cluster.ray_engine import run
from regiontalk.lab.cluster.shards import Shards
from regiontalk.model import Model

SMALLEST, LARGEST = 8, 1000  # photos of a shard
# chunks for each worker, so that all have work until the end; where that leaves enough for a shard
PARTS_PER_WORKER = 20

Item = TypeVar("Item")
Ask = Callable[[Model, Any], Any]
"""A photo's path or bytes -> a result of `results`, with `to_dict`."""


class Answered(NamedTuple):
    """The result of a chunk."""

    photos: int
    skipped: dict[str, str]
    """Photo -> reason."""


@dataclass(frozen=True)
class Answering:
    """The work of a worker; `ray_engine.run` sends it to the processes with the model."""

    ask: Ask
    shards: Shards
    options: str
    """The options that the photos' addresses share."""

    def __call__(self, model: Model, paths: Sequence[str]) -> Answered:
        model = as_files(model)
        results = []
        skipped = dict[str, str]()
        for name, source in sources.open_all(paths, self.options, model.limits):
            try:
                results.append(
                    replace(self.ask(model, sources.readable(source)), path=name).to_dict()
                )
            except (InputError, UsageError) as error:
                skipped[name] = sources.why_skipped(name, source, error)
        self.shards.write(paths, results, skipped)
        return Answered(len(results), skipped)


def answer_all(
    load: Callable[[], Model],
    answering: Answering,
    photos: Sequence[str],
    values: Mapping[str, Any],
    workers: int,
    address: str | None,
) -> Iterator[Answered]:
    """Chunks as they are done, those of earlier runs of the same command first. Runs with equal
    `values` are the same command."""
    done = answering.shards.begin(values)
    yield Answered(len(done), {})
    chunks = make_chunks(not_done(photos, done), workers)
    yield from run(load, answering, chunks, workers, address)


def as_files(model: Model) -> Model:
    """The model with the limits of files for bytes, not those of uploads."""
    return replace(model, limits=replace(model.limits, megabytes=model.limits.file_bytes / 1e6))


def not_done(paths: Sequence[str], done: Set[str]) -> list[str]:
    """The photos that are left; a tar file is done if a photo in it is."""
    end = len(sources.ARCHIVE)
    archives = {
        path[: at + end] for path in done if (at := path.lower().find(f"{sources.ARCHIVE}/")) >= 0
    }
    return [path for path in paths if path not in done and path not in archives]


def make_chunks(paths: Sequence[str], workers: int) -> list[list[str]]:
    """Each tar file is a separate chunk."""
    single = [path for path in paths if not path.lower().endswith(sources.ARCHIVE)]
    return in_chunks(single, workers) + [
        [path] for path in paths if path.lower().endswith(sources.ARCHIVE)
    ]


def in_chunks(items: Sequence[Item], workers: int) -> list[list[Item]]:
    size = min(max(len(items) // (workers * PARTS_PER_WORKER), SMALLEST), LARGEST)
    return [list(items[start : start + size]) for start in range(0, len(items), size)]
