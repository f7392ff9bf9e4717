"""Counters in Prometheus's text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from regiontalk.serve.calls import Server

Labels = tuple[str, int]


class Metrics:
    """Requests by call and status. Other requests, such as for files of the page, count as
    `other`."""

    def __init__(self) -> None:
        self._requests: Counter[Labels] = Counter()
        self._seconds: Counter[Labels] = Counter()

    def add(self, call: str, status: int, seconds: float) -> None:
        self._requests[call, status] += 1
        self._seconds[call, status] += seconds  # type: ignore[assignment]

    def text(self, server: Server) -> str:
        workers = server.workers
        indexing = server.indexing
        single = {
            "tasks_total": workers.tasks,
            "tasks_refused_total": workers.refused,
            "workers_lost_total": workers.lost,
            "tasks_waiting": workers.waiting,
            "uploads": server.uploads,
            "photos": indexing.photos,
            "photos_to_index": indexing.progress["total"] - indexing.progress["done"]
            if indexing.progress
            else 0,
        }
        lines = [
            *_labelled("requests_total", self._requests),
            *_labelled("request_seconds_total", self._seconds),
        ]
        for name, value in single.items():
            lines += [_type(name), f"regiontalk_{name} {value}"]
        return "\n".join(lines) + "\n"


def _labelled(name: str, counter: Counter[Labels]) -> Iterable[str]:
    yield _type(name)
    for (call, status), value in sorted(counter.items()):
        yield f'regiontalk_{name}{{call="{call}",status="{status}"}} {value:g}'


def _type(name: str) -> str:
    return f"# TYPE regiontalk_{name} {'counter' if name.endswith('_total') else 'gauge'}"
