"""A run's log: JSON lines for programs, TensorBoard for people."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from regiontalk.io.files import replacing

SPEED_STEPS = 50  # steps over which speed is measured: batches arrive in bursts


class RunLog:
    """Writes `log.jsonl` and `tensorboard/`; what a resumed run will write again is cut off
    first."""

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self._cut(step)
        self.file = self.path.open("a", encoding="utf-8")
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        self.began = time.monotonic()
        self.recent = deque([self.began], maxlen=SPEED_STEPS + 1)

    def step(
        self, step: int, losses: Mapping[str, float] | None, photos: int, rate: float
    ) -> float:
        """Notes a step (losses only every so often); returns the photos per second of the last
        steps."""
        self.recent.append(time.monotonic())
        speed = photos * (len(self.recent) - 1) / max(self.recent[-1] - self.recent[0], 1e-9)
        if losses is not None:
            self._write(
                {"step": step, "rate": rate, "photos_per_second": round(speed, 1), **losses}
            )
            for name, value in losses.items():
                self.board.add_scalar(f"loss/{name}", value, step)
            self.board.add_scalar("rate", rate, step)
        return speed

    def metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write({"step": step, "dev": dict(metrics)})
        for name, value in metrics.items():
            self.board.add_scalar(f"dev/{name}", value, step)

    def pause_over(self) -> None:
        """Evaluating and saving are not training speed."""
        self.recent.clear()
        self.recent.append(time.monotonic())

    def close(self) -> None:
        self.file.close()
        self.board.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        self.file.write(
            json.dumps({"seconds": round(time.monotonic() - self.began, 1), **entry}) + "\n"
        )
        self.file.flush()

    def _cut(self, step: int) -> None:
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _step_of(line) <= step]
        with replacing(self.path) as shorter:
            shorter.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _step_of(line: str) -> float:
    """The step of a log line; a line cut short by a crash counts as the future."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
