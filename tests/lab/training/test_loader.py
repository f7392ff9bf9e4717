"""Batches from worker processes: in order from any step, no more processes than cores, errors
named."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.training import loader
from regiontalk.lab.training.loader import Parts, cores_of_process, load_batches


@dataclass
class Steps:
    """Step -> itself; an error at step 7, if that is asked for."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, step: int) -> int | DataError:
        return DataError("7.png: broken") if step == 7 else step


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_come_in_order_from_any_step(workers: int) -> None:
    assert list(load_batches(Steps(7), 3, workers)) == [3, 4, 5, 6]
    with pytest.raises(DataError) as caught:
        list(load_batches(Steps(9), 6, workers))
    assert caught.value.message == "7.png: broken"


def test_no_more_workers_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        loader, "DataLoader", lambda *_, num_workers, **__: asked.append(num_workers) or ()
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4), raising=False)
    for workers, processes in ((14, "1"), (3, "1"), (0, "1"), (14, "2"), (14, "8")):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        list(load_batches(Steps(1), 0, workers))
    assert asked == [4, 3, 0, 2, 1]
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert cores_of_process() == 6


def test_workers_leave_ctrl_c_to_their_parent() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        loader._start_worker(0)
        assert all(signal.getsignal(number) == signal.SIG_IGN for number in before)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_parts_of_a_batch_come_together_and_an_error_alone() -> None:
    assert list(load_batches(Parts([Steps(3), Steps(3)]), 1, 0)) == [[1, 1], [2, 2]]
    with pytest.raises(DataError):
        list(load_batches(Parts([Steps(9), Steps(9)]), 6, 0))
