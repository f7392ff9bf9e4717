"""The process that trains, alone; `tests/end_to_end/test_training.py` has several."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from torch import nn

from regiontalk.errors import UsageError
from regiontalk.lab.training.processes import Processes, noted_interrupts, pick_device

CPU = torch.device("cpu")


def test_alone_nothing_is_shared(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with Processes.join(CPU) as processes:
        assert processes == Processes(0, 1)
        assert processes.is_first
        assert processes.any_of(True, CPU)
        assert not processes.any_of(False, CPU)
        processes.average_gradients(nn.Linear(2, 2))


def test_told_twice_it_breaks_off():
    with noted_interrupts() as noted:
        os.kill(os.getpid(), signal.SIGINT)
        assert noted == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_devices():
    assert pick_device("cpu") == CPU
    if not torch.cuda.is_available():
        assert pick_device("auto") == CPU
        with pytest.raises(UsageError, match="no CUDA device"):
            pick_device("cuda")
