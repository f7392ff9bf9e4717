"""Batches from worker processes, in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, Self

import torch
from PIL import AvifImagePlugin
from torch import Tensor
from torch.utils.data import DataLoader

from regiontalk.errors import RegionTalkError
from regiontalk.io.provenance import cpu_cores


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """What a step learns from; kinds of batches add tensors to it."""

    names: tuple[str, ...]
    """Names of the photos in it, for messages."""
    skipped: tuple[str, ...] = ()
    """What was wrong with photos in whose place others are in it, a line for each."""

    def to(self, device: torch.device) -> Self:
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Called by torch's loader, so that the way to the GPU is short."""
        return map_tensors(self, Tensor.pin_memory)


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """`value` with all tensors in it changed, in dataclasses and named tuples too."""
    if isinstance(value, Tensor):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            item.name: map_tensors(getattr(value, item.name), change) for item in fields(value)
        }
        return replace(value, **parts)
    if hasattr(value, "_fields"):
        return type(value)(*(map_tensors(part, change) for part in value))
    return value


class Batches(Protocol):
    """Step -> batch, or an error as a value, so that it leaves a worker process whole."""

    def __len__(self) -> int: ...
    def __getitem__(self, step: int) -> Any: ...


@dataclass(frozen=True)
class Parts:
    """Step -> a part of its batch from each of `shares`."""

    shares: Sequence[Batches]

    def __len__(self) -> int:
        return len(self.shares[0])

    def __getitem__(self, step: int) -> Any:
        parts = [share[step] for share in self.shares]
        return next((part for part in parts if isinstance(part, RegionTalkError)), parts)


def load_batches(batches: Batches, first_step: int, workers: int) -> Iterator[Any]:
    """The batches from `first_step` on, by at most as many workers as there are cores; errors are
    raised here: torch would bury them in a traceback."""
    workers = min(workers, cores_of_process())
    loader: DataLoader[Any] = DataLoader(
        batches,  # type: ignore[arg-type]
        batch_size=None,
        sampler=range(first_step, len(batches)),
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        pin_memory=torch.cuda.is_available(),
        worker_init_fn=_start_worker,
    )
    for batch in loader:
        if isinstance(batch, RegionTalkError):
            raise batch
        yield batch


def cores_of_process() -> int:
    """This process's share of the machine's cores; `torchrun` starts several processes on a
    machine."""
    return max(1, cpu_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _start_worker(_worker: int) -> None:
    """Ctrl-C and a cluster's SIGTERM reach all processes of a group; the workers end when their
    parent lets them.

    Each worker is one of many, so it decodes its photos with one thread.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
