"""The process that trains: its device, the other processes of `torchrun`, and how it is told to
stop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import distributed as dist
from torch import nn

from regiontalk.errors import UsageError


@dataclass(frozen=True)
class Processes:
    """This process among those of `torchrun`."""

    rank: int = 0
    count: int = 1

    @classmethod
    @contextlib.contextmanager
    def join(cls, device: torch.device) -> Iterator[Processes]:
        """Joins the process group of `torchrun`, if there is one."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            yield cls()
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield cls(dist.get_rank(), dist.get_world_size())
            # none leaves while another still talks to it: the first one writes a checkpoint last
            dist.barrier()
        finally:
            dist.destroy_process_group()

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def any_of(self, here: bool, device: torch.device) -> bool:
        """Whether any process says yes: all of them must stop after the same step."""
        if self.count == 1:
            return here
        vote = torch.tensor(float(here), device=device)
        dist.all_reduce(vote, dist.ReduceOp.MAX)
        return bool(vote)

    def average_gradients(self, net: nn.Module) -> None:
        """Every photo counts the same: ranks hold equal shares of a batch, so gradients are
        averaged.

        Not by DistributedDataParallel: it fixes at its start which weights learn, and here the
        backbone joins in on the way (`schedule.backbone_from_epoch`); and losses come from the
        net's parts, not from one `forward`, which it would have to be called by. One message a
        step, after all parts of a batch, is as quick (`benchmarks/train_processes.py`).
        """
        if self.count == 1:
            return
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        parts = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(
            gradients,
            [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)],
        )


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Notes Ctrl-C and SIGTERM (which clusters send) instead of stopping at once, so that no
    checkpoint holds half a step. The second signal stops at once."""
    noted: list[int] = []

    def note(number: int, _frame: types.FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    if (
        threading.current_thread() is not threading.main_thread()
    ):  # signals reach the main thread alone
        yield noted
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def pick_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "no CUDA device here", hint="--device cpu, or install a CUDA build of torch"
        )
    return (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if name == "cuda"
        else torch.device("cpu")
    )
