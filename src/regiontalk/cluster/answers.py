"""Every photo asked the same question by the workers of a cluster, with the answers in shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from regiontalk.cluster import sources
from regiontalk.cluster.ray_engine import run
from regiontalk.cluster.shards import Shards
from regiontalk.errors import InputError, RegionTalkError, UsageError
from regiontalk.model import Model

SMALLEST, LARGEST = 8, 1000  # photos of a shard
TURNS = 20  # chunks for each worker, so that all have work until the end; where that leaves enough for a shard

Item = TypeVar("Item")
Ask = Callable[[Model, Any], Any]
"""A photo's path or bytes -> a result of `types`, with `to_dict`."""


class Answered(NamedTuple):
    """What became of a chunk."""

    photos: int
    skipped: dict[str, str]
    """Photo -> why."""


@dataclass(frozen=True)
class Answering:
    """The work of a worker: `ray_engine.run` takes it to where the model is."""

    ask: Ask
    shards: Shards

    def __call__(self, model: Model, paths: Sequence[str]) -> Answered:
        limits = replace(model.limits, megabytes=model.limits.file_bytes / 1e6)  # bytes are files here, not uploads
        model, results, skipped = replace(model, limits=limits), [], dict[str, str]()
        for name, source in sources.open_all(paths, limits):
            try:
                results.append(self._answer(model, name, source).to_dict())
            except (InputError, UsageError) as error:
                skipped[name] = error.message
        self.shards.write(paths, results, skipped)
        return Answered(len(results), skipped)

    def _answer(self, model: Model, name: str, source: str | bytes | InputError) -> Any:
        if isinstance(source, RegionTalkError):
            raise source
        if isinstance(source, str):
            return self.ask(model, source)
        try:
            return replace(self.ask(model, source), path=name)
        except (InputError, UsageError) as error:
            raise InputError(f"{name}: {error.message}", hint=error.hint) from error


def answer_all(
    load: Callable[[], Model],
    ask: Ask,
    photos: Sequence[str],
    asked: Mapping[str, Any],
    shards: Shards,
    workers: int,
    address: str | None,
) -> Iterator[Answered]:
    """Chunks as they are done; first what earlier runs of the same command have finished. `asked` is what makes two
    runs the same."""
    done = shards.begin(asked)
    archives = {path[: end + 4] for path in done if (end := path.lower().find(".tar/")) >= 0}
    yield Answered(len(done), {})
    left = [path for path in photos if path not in done and path not in archives]
    yield from run(load, Answering(ask, shards), make_chunks(left, workers), workers, address)


def make_chunks(paths: Sequence[str], workers: int) -> list[list[str]]:
    """A tar file is a chunk of its own."""
    single = [path for path in paths if not path.lower().endswith(sources.ARCHIVE)]
    return in_chunks(single, workers) + [[path] for path in paths if path.lower().endswith(sources.ARCHIVE)]


def in_chunks(items: Sequence[Item], workers: int) -> list[list[Item]]:
    size = min(max(len(items) // (workers * TURNS), SMALLEST), LARGEST)
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def full_address(place: object) -> str:
    """A folder's full path; an address, which a Path has written with one slash, as it was given."""
    scheme, colon, rest = str(place).partition(":/")
    is_address = colon and scheme.isalnum() and len(scheme) > 1
    return f"{scheme}://{rest.lstrip('/')}" if is_address else os.path.abspath(str(place))  # noqa: PTH100
