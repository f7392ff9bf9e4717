"""A step of training by several processes: gradients averaged in one message, against
DistributedDataParallel.

The same net and data, in turns, on the CPU with gloo; times are the first process's. `alone_ms` is
a process with the whole batch.

torchrun --nproc-per-node 2 benchmarks/train_processes.py --recipe recipes/tiny.toml --json
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.loader import StepBatch
from regiontalk.lab.training.processes import Processes
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.lab.training.run import TASKS
from report import options_of
from turns import take_turns

CPU = torch.device("cpu")


class Silent:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


class Loss(nn.Module):
    """The sum of a task's losses as one `forward`, which DistributedDataParallel needs."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.net, self.task = engine.net, engine.task

    def forward(self, batch: Any) -> Tensor:
        losses = self.task.losses(batch)
        return torch.stack([self.task.weight(name) * loss for name, loss in losses.items()]).sum()


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[])
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe, tuple(arguments.changes))
    with Processes.join(CPU) as processes, tempfile.TemporaryDirectory() as folder:
        engines = {
            "own": Engine(TASKS[recipe.kind].begin(recipe), Path(folder), CPU, Silent(), processes),
            "ddp": Engine(TASKS[recipe.kind].begin(recipe), Path(folder), CPU, Silent(), processes),
            "alone": Engine(TASKS[recipe.kind].begin(recipe), Path(folder), CPU, Silent()),
        }
        share = engines["own"].task.batches(processes.rank, processes.count)[0]
        whole = engines["own"].task.batches(0, 1)[0]
        ddp = engines["ddp"]
        ddp.task.prepare_step(recipe.run.steps - 1)  # all that ever learns
        wrapped = nn.parallel.DistributedDataParallel(Loss(ddp), find_unused_parameters=True)
        ddp.processes = replace(processes, count=1)  # nothing left to average

        def learn(part: StepBatch, _: int) -> dict[str, Tensor]:
            total = wrapped(part)
            total.backward()
            return {"total": total.detach()}

        ddp._learn = learn  # type: ignore[method-assign]

        def step(name: str, parts: Sequence[StepBatch]) -> None:
            engines[name].step = recipe.run.steps - 1
            engines[name].train_step(parts)
            dist.barrier()

        works = {
            name: (lambda name=name: step(name, [whole if name == "alone" else share]))
            for name in engines
        }
        times = take_turns(works, arguments.repeats)  # type: ignore[arg-type]
        if processes.is_first:
            out = {
                "processes": processes.count,
                "batch": recipe.run.batch,
                "load_average": round(os.getloadavg()[0], 1),
                **{f"{name}_ms": round(value, 1) for name, value in times.items()},
                "own_over_ddp": round(times["own"] / times["ddp"], 3),
            }
            print(json.dumps(out) if arguments.json else out)


if __name__ == "__main__":
    main()
