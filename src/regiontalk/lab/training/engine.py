"""The training loop: steps, checkpoints, exact resume, several processes, logs, dev evaluation.

Nothing in a step depends on anything but its number: the batch, the dropout and the sampling are
all seeded from it, so a run that was killed and resumed is, on the CPU, bit for bit the run that
never stopped.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regiontalk.errors import DataError, RegionTalkError, UsageError
from regiontalk.lab.training import checkpoints
from regiontalk.lab.training.loader import Parts, StepBatch, load_batches
from regiontalk.lab.training.optimizers import EMA, rate_factor
from regiontalk.lab.training.processes import Processes, noted_interrupts
from regiontalk.lab.training.recipe import flatten, from_stored, to_dict
from regiontalk.lab.training.recipe.shared import Recipe
from regiontalk.lab.training.runlog import RunLog
from regiontalk.lab.training.task import Task

# Keys of [run] that may change when a run is resumed.
FREE_KEYS = (
    *("accumulate", "workers", "log_every", "checkpoint_every", "keep", "keep_best"),
    *("evaluate_every", "evaluate_photos", "pictures"),
)


class Watcher(Protocol):
    """Is told how a run goes, such as a progress bar."""

    def step(
        self, done: int, total: int, losses: Mapping[str, float] | None, photos_per_second: float
    ) -> None: ...
    def say(self, text: str) -> None: ...


class TrainingDiverged(RegionTalkError):
    """A loss is no longer a finite number."""

    exit_code = 1


@dataclass
class Engine:
    """One training run in one folder."""

    task: Task
    folder: Path
    device: torch.device
    watcher: Watcher
    processes: Processes = field(default_factory=Processes)
    strict: bool = False
    """A photo that cannot be read ends the run; else it is named, and another one takes its
    place."""

    def __post_init__(self) -> None:
        recipe: Recipe = self.task.recipe
        parts = self.processes.count * recipe.run.accumulate
        if recipe.run.batch % parts:
            raise UsageError(
                f"run.batch {recipe.run.batch} cannot be shared by {self.processes.count} processes"
                f" in {recipe.run.accumulate} parts each"
            )
        self.recipe = recipe
        self.net: nn.Module = self.task.net.to(self.device)
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            self.net.to(memory_format=torch.channels_last)
        self.optimizers = self.task.optimizers()
        self.rates = {name: _full_rates(o) for name, o in self.optimizers.items()}
        self.ema = EMA(self.net, recipe.schedule.ema) if recipe.schedule.ema else None
        self.step = 0
        self.best: list[dict[str, Any]] = []
        """Steps and values of the `keep_best` best evaluations, best first."""
        self.skipped: set[str] = set()
        """What was wrong with photos that cannot be read, a line for each."""

    # -- the loop
    # ------------------------------------------------------------------------------------

    def train(self, seconds: float | None = None) -> None:
        """Trains to the recipe's last step, until `seconds` have gone by, or until Ctrl-C; ends
        with a checkpoint."""
        run = self.recipe.run
        batches = Parts([self.task.batches(*share) for share in self._shares()])
        log = RunLog(self.folder, self.step) if self.processes.is_first else None
        began = time.monotonic()
        try:
            with noted_interrupts() as interrupts:
                for parts in load_batches(batches, self.step, run.workers):
                    for message in chain.from_iterable(part.skipped for part in parts):
                        self.skip(message)
                    losses = self.train_step(parts)
                    self.step += 1
                    self._report(losses, log)
                    time_is_up = seconds is not None and time.monotonic() - began > seconds
                    stops = self.processes.any_of(time_is_up or bool(interrupts), self.device)
                    finished = stops or self.step == run.steps
                    self._after_step(log, finished)
                    if finished:
                        break
            if interrupts:
                raise KeyboardInterrupt
        finally:
            if log is not None:
                log.close()

    def _shares(self) -> list[tuple[int, int]]:
        """This process's parts of a batch, each as its number and the number of all parts."""
        parts = self.recipe.run.accumulate
        return [
            (self.processes.rank * parts + part, self.processes.count * parts)
            for part in range(parts)
        ]

    def train_step(self, parts: Sequence[StepBatch]) -> dict[str, Tensor]:
        """One update of the weights by the parts of a batch; the mean of their losses, not
        weighted."""
        self._prepare_step()
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        losses_of_parts = [
            self._learn(part, number)
            for part, (number, _) in zip(parts, self._shares(), strict=True)
        ]
        self.processes.average_gradients(self.net)
        if self.recipe.schedule.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.recipe.schedule.clip_norm)
        if self.recipe.schedule.clip_value is not None:
            nn.utils.clip_grad_value_(self.net.parameters(), self.recipe.schedule.clip_value)
        for optimizer in self.optimizers.values():
            optimizer.step()
        if self.ema is not None:
            self.ema.update(self.net, self.step)
        return {name: _mean(name, losses_of_parts) for name in losses_of_parts[0]}

    def _learn(self, part: StepBatch, number: int) -> dict[str, Tensor]:
        """Adds the gradients of a part of a batch; its losses."""
        torch.manual_seed((self.recipe.run.seed * 1_000_003 + self.step) * 1009 + number)
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.recipe.run.precision == "bfloat16"
        ):
            losses = self.task.losses(part.to(self.device))
        total = torch.stack([self.task.weight(name) * loss for name, loss in losses.items()]).sum()
        if not torch.isfinite(total):
            values = ", ".join(f"{name} {loss.item():g}" for name, loss in losses.items())
            raise TrainingDiverged(
                f"step {self.step}: a loss is not finite ({values}); the batch: "
                f"{', '.join(part.names)}",
                hint="the last checkpoint is whole; lower the rate, or look at those photos",
            )
        (total / self.recipe.run.accumulate).backward()
        return {name: loss.detach() for name, loss in losses.items()}

    def _prepare_step(self) -> None:
        """Modes, frozen parts and rates of this step."""
        self.task.prepare_step(self.step)
        factor = rate_factor(self.step, self.recipe.run.steps, self.recipe.schedule)
        for name, optimizer in self.optimizers.items():
            for group, rate in zip(optimizer.param_groups, self.rates[name], strict=True):
                group["lr"] = rate * factor

    # -- reports and checkpoints
    # -----------------------------------------------------------------------

    def _report(self, losses: Mapping[str, Tensor], log: RunLog | None) -> None:
        if log is None:
            return
        values = None
        if self.step % self.recipe.run.log_every == 0 or self.step == 1:
            values = {name: loss.item() for name, loss in losses.items()}
        last = list(self.optimizers.values())[-1]
        speed = log.step(self.step, values, self.recipe.run.batch, last.param_groups[0]["lr"])
        self.watcher.step(self.step, self.recipe.run.steps, values, speed)

    def _after_step(self, log: RunLog | None, finished: bool) -> None:
        run = self.recipe.run
        evaluates = self.step % run.evaluate_every == 0 or self.step == run.steps
        if evaluates:
            self._evaluate(log)
        saves = evaluates or finished or self.step % run.checkpoint_every == 0
        if saves:
            self.save()
        if saves and log is not None:
            log.pause_over()

    def _evaluate(self, log: RunLog | None) -> None:
        if log is None:
            return
        picture = self.folder / "pictures" / f"{checkpoints.step_name(self.step)}.jpg"
        metrics = self.task.evaluate(self.averaged_net(), self.device, picture, self.skip)
        if not metrics:
            return
        log.metrics(self.step, metrics)
        self.watcher.say(
            f"step {self.step}: " + ", ".join(f"{k} {v:.4g}" for k, v in metrics.items())
        )
        self._remember(metrics[self.recipe.run.metric])

    def skip(self, message: str) -> None:
        """A `task.Skip` that names every photo once."""
        if self.strict:
            raise DataError(message, hint="without --strict, such photos are skipped")
        if message not in self.skipped:
            self.skipped.add(message)
            self.watcher.say(f"skipped {message}")

    def _remember(self, value: float) -> None:
        """Puts this step among the best ones, if it is one; of equal ones the earlier is better."""
        if math.isnan(value):
            return
        sign = 1 if self.recipe.run.metric in self.task.lower_is_better else -1
        best = [*self.best, {"step": self.step, "value": value}]
        self.best = sorted(best, key=lambda kept: (sign * kept["value"], kept["step"]))[
            : self.recipe.run.keep_best
        ]

    def averaged_net(self) -> nn.Module:
        """A copy of the net for inference, with the moving average of its weights where there is
        one."""
        net = copy.deepcopy(self.task.net)
        if self.ema is not None:
            net.load_state_dict(self.ema.values)
        return net.eval()

    def checkpoint_bytes(self) -> int:
        """How large a checkpoint gets, at most: the weights, two moments of each, and their moving
        average."""
        weights = sum(
            value.numel() * value.element_size() for value in self.net.state_dict().values()
        )
        return weights * (3 if self.ema is None else 4)

    @property
    def checkpoint_folder(self) -> Path:
        return self.folder / "checkpoints"

    def save(self) -> None:
        if not self.processes.is_first:
            return
        moments, numbers = checkpoints.optimizer_tensors(self.optimizers)
        tensors: dict[str, Mapping[str, Tensor]] = {
            "model": self.net.state_dict(),
            "optimizer": moments,
        }
        if self.ema is not None:
            tensors["ema"] = self.ema.values
        state = {"best": self.best, "optimizer": numbers, **self.task.description()}
        checkpoints.save_checkpoint(self.checkpoint_folder, self.step, tensors, state)
        best = [self.checkpoint_folder / checkpoints.step_name(kept["step"]) for kept in self.best]
        checkpoints.drop_old(self.checkpoint_folder, self.recipe.run.keep, best)

    def resume(self) -> bool:
        """Resumes from the newest checkpoint of the folder; False when there is none."""
        checkpoint = checkpoints.latest_checkpoint(self.checkpoint_folder)
        if checkpoint is None:
            return False
        state = checkpoints.read_state(checkpoint)
        then = from_stored(type(self.recipe), state["recipe"], str(checkpoint))
        check_same_recipe(to_dict(then), to_dict(self.recipe), checkpoint)
        now = self.task.description()
        if state["vocabulary"] != now["vocabulary"]:
            raise UsageError(
                f"{checkpoint}: the words of the data sets have changed since the run started"
            )
        if state.get("detector") != now.get("detector"):
            raise UsageError(f"{checkpoint}: the run started with region codes of another detector")
        checkpoints.fill_net(self.net, checkpoints.read_tensors(checkpoint, "model"), checkpoint)
        moments = checkpoints.read_tensors(checkpoint, "optimizer")
        checkpoints.restore_optimizers(self.optimizers, moments, state["optimizer"])
        if self.ema is not None:
            for name, value in checkpoints.read_tensors(checkpoint, "ema").items():
                self.ema.values[name].copy_(value)
        self.step = int(state["step"])
        self.best = state["best"]
        return True


def _full_rates(optimizer: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


def _mean(name: str, losses_of_parts: Sequence[Mapping[str, Tensor]]) -> Tensor:
    return torch.stack([losses[name] for losses in losses_of_parts]).mean()


def check_same_recipe(then: Mapping[str, Any], now: Mapping[str, Any], place: Path) -> None:
    """A run resumes with the recipe it started with."""
    old = flatten(then)
    new = flatten(now)
    for key in sorted(set(old) | set(new)):
        if key.removeprefix("run.") not in FREE_KEYS and old.get(key) != new.get(key):
            raise UsageError(
                f"{place}: started with {key} = {old.get(key)!r}, now {new.get(key)!r}",
                hint="start another run with -o, or set it back",
            )
