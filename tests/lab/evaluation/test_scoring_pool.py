from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

import pytest

from regiontalk.errors import MissingExtra
from regiontalk.lab.evaluation import scoring_pool
from regiontalk.lab.evaluation.language import Pair
from regiontalk.lab.evaluation.scoring_pool import MeteorWorkers

PAIRS: list[Pair] = [("a dog runs" + " far" * n, ["the dogs run", "a cat"]) for n in range(50)]


@pytest.fixture
def workers() -> MeteorWorkers:
    try:
        return MeteorWorkers(2)
    except MissingExtra as error:
        pytest.skip(f"METEOR's tables are not installed: {error}")


def test_processes_give_the_same_scores(
    workers: MeteorWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = workers.scores(PAIRS)
    monkeypatch.setattr(scoring_pool, "MAX_PAIRS_IN_ONE_PROCESS", 10)
    with closing(workers):
        assert workers.scores(iter(PAIRS)) == alone
        assert workers.scores(PAIRS[:3]) == alone[:3]
    assert len(set(alone)) > 1
    assert workers.metric == "meteor"


def test_little_work_starts_no_process(
    workers: MeteorWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(ProcessPoolExecutor, "__init__", refuse)
    with closing(workers):
        assert len(workers.scores(PAIRS)) == 50
        assert 0 < workers.corpus_score(PAIRS) < 1
