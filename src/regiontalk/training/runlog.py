"""A run's log: JSON lines for programs, TensorBoard for people."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

SMOOTHING = 0.9


class RunLog:
    """Writes `log.jsonl` and `tensorboard/`; what a resumed run will write again is cut off first."""

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self._cut(step)
        self.file = self.path.open("a", encoding="utf-8")
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        self.began = self.before = time.monotonic()
        self.speed = 0.0

    def step(self, step: int, losses: Mapping[str, float] | None, photos: int, rate: float) -> float:
        """Notes a step (losses only every so often); returns the smoothed photos per second."""
        now = time.monotonic()
        speed = photos / max(now - self.before, 1e-9)
        self.before = now
        self.speed = SMOOTHING * self.speed + (1 - SMOOTHING) * speed if self.speed else speed
        if losses is not None:
            self._write({"step": step, "rate": rate, "photos_per_second": round(self.speed, 1), **losses})
            for name, value in losses.items():
                self.board.add_scalar(f"loss/{name}", value, step)
            self.board.add_scalar("rate", rate, step)
        return self.speed

    def metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write({"step": step, "dev": dict(metrics)})
        for name, value in metrics.items():
            self.board.add_scalar(f"dev/{name}", value, step)
        self.before = time.monotonic()  # evaluating is not training speed

    def close(self) -> None:
        self.file.close()
        self.board.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        self.file.write(json.dumps({"seconds": round(time.monotonic() - self.began, 1), **entry}) + "\n")
        self.file.flush()

    def _cut(self, step: int) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _step_of(line) <= step]
        self.path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _step_of(line: str) -> float:
    """The step of a log line; a line cut short by a crash counts as the future."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
