"""Batches from worker processes, in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from PIL import AvifImagePlugin
from torch.utils.data import DataLoader

from regiontalk.errors import RegionTalkError

Loaded = TypeVar("Loaded")


def load_batches(batches: Any, first_step: int, workers: int) -> Iterator[Any]:
    """The batches (`engine.Batches`) from `first_step` on, by at most as many workers as there are cores."""
    workers = min(workers, cores_of_process())
    return checked(
        DataLoader(
            batches,
            batch_size=None,
            sampler=range(first_step, len(batches)),
            num_workers=workers,
            prefetch_factor=4 if workers else None,
            pin_memory=torch.cuda.is_available(),
            worker_init_fn=_start_worker,
        )
    )


def cores_of_process() -> int:
    """This process's share of the machine's cores; `torchrun` starts several processes on a machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _start_worker(_worker: int) -> None:
    """Ctrl-C and a cluster's SIGTERM reach all processes of a group; the workers end when their parent lets them.

    Each worker is one of many, so it decodes its photos with one thread.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def checked(items: Iterable[Loaded | RegionTalkError]) -> Iterator[Loaded]:
    """Raises the errors that worker processes return as values: torch would bury them in a traceback."""
    for item in items:
        if isinstance(item, RegionTalkError):
            raise item
        yield item
