"""METEOR, if need be by several processes: a test set's captions against all references of their
images."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, closing
from itertools import chain
from multiprocessing import get_context

from regiontalk.lab.evaluation.language import CorpusScorer, Pair
from regiontalk.lab.evaluation.meteor import Meteor

MAX_PAIRS_IN_ONE_PROCESS = (
    100_000  # comparisons of two sentences that are not worth starting processes for
)
PARTS_PER_WORKER = 4  # parts a worker gets of one call, so that none waits long for another

_of_this_worker: list[Meteor] = []  # one, once a worker process has started


def open_meteor(
    workers: int = 1, notify: Callable[[str], None] | None = None
) -> AbstractContextManager[CorpusScorer]:
    """METEOR 1.5, by several processes for much work. `notify` is called with a message if the
    first use takes long."""
    return closing(MeteorWorkers(workers, notify))


class MeteorWorkers:
    """The interface of `Meteor`. The processes start with the first large call; `close` ends
    them."""

    metric = "meteor"

    def __init__(self, workers: int, notify: Callable[[str], None] | None = None) -> None:
        self.workers = workers
        self.own = Meteor.load(notify)
        self._pool: ProcessPoolExecutor | None = None

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        pair_list = list(pairs)
        if (
            self.workers < 2
            or sum(len(references) for _, references in pair_list) < MAX_PAIRS_IN_ONE_PROCESS
        ):
            return self.own.scores(pair_list)
        if self._pool is None:
            # Not forked: the progress bar has a thread, and a fork would copy its locks as they
            # are.
            self._pool = ProcessPoolExecutor(
                self.workers, get_context("spawn"), initializer=_start_worker
            )
        size = -(-len(pair_list) // (self.workers * PARTS_PER_WORKER))
        parts = [pair_list[start : start + size] for start in range(0, len(pair_list), size)]
        return list(chain.from_iterable(self._pool.map(_score, parts)))

    def corpus_score(self, pairs: Iterable[Pair]) -> float:
        return self.own.corpus_score(pairs)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    _of_this_worker.append(Meteor.load())


def _score(pairs: list[Pair]) -> list[float]:
    return _of_this_worker[0].scores(pairs)
