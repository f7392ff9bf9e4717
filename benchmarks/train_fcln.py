"""Training speed of a recipe's network on made-up photos; the peer is the bare backbone, forward
and backward.

python benchmarks/train_fcln.py recipes/compact.toml --batch 32 --json
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from regiontalk.lab.nets.fcln import FCLN
from regiontalk.lab.training.detector.batches import Batch
from regiontalk.lab.training.detector.targets import Truths
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.processes import pick_device
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.language.vocabulary import Vocabulary
from report import options_of, report

WORDS = 2900
TRUTHS = 12
WARM_UPS = 10


class Silent:
    def step(self, *_: object) -> None: ...
    def say(self, text: str) -> None: ...


class MadeUp(FCLNTask):
    """The FCLN without any data."""

    def steps_per_epoch(self) -> float:
        return 0.0


def made_up_batch(count: int, width: int, height: int, tokens: int) -> Batch:
    torch.manual_seed(0)
    low = torch.rand(count, TRUTHS, 2) * torch.tensor([width, height]) * 0.6
    side = torch.rand(count, TRUTHS, 2) * torch.tensor([width, height]) * 0.35 + 20
    words = torch.randint(2, tokens, (count, TRUTHS, 6))
    words[..., 4:] = 0
    truths = Truths(
        torch.cat([low, low + side], dim=2),
        torch.ones(count, TRUTHS, dtype=torch.bool),
        words,
        torch.full((count, TRUTHS), tokens),
        torch.ones(count, TRUTHS),
    )
    images = torch.randint(0, 255, (count, 3, height, width), dtype=torch.uint8)
    sizes = torch.tensor([[width, height]] * count, dtype=torch.float32)
    return Batch(
        images,
        sizes,
        truths,
        tuple(range(count)),
        names=tuple(f"made-up-{n}" for n in range(count)),
    )


def seconds_per_call(function: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Mean over `repeats` calls after some to warm up: a GPU that was idle takes a while to its
    full clock."""
    for _ in range(WARM_UPS):
        function()
    _wait_for(device)
    began = time.perf_counter()
    for _ in range(repeats):
        function()
    _wait_for(device)
    return (time.perf_counter() - began) / repeats


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(recipe: FCLNRecipe, device: torch.device, repeats: int) -> dict[str, float]:
    words = Vocabulary(tuple(f"w{n}" for n in range(WORDS)))
    net = FCLN(recipe.net, len(words), 1)
    engine = Engine(MadeUp(recipe, words, net, []), Path("unused"), device, Silent())
    side, pad = recipe.net.input_size, net.pad_to
    height = side * 3 // 4 // pad * pad
    count = recipe.run.batch
    batch = made_up_batch(count, side, height, len(words)).to(device)
    whole = seconds_per_call(lambda: engine.train_step([batch]), device, repeats)
    with FlopCounterMode(display=False) as counter:
        engine.train_step([batch])

    def backbone_alone() -> None:
        with torch.autocast(
            device.type, torch.bfloat16, enabled=recipe.run.precision == "bfloat16"
        ):
            features = net.backbone(batch.images.float(), batch.sizes)[0]
        features.float().mean().backward()

    backbone = seconds_per_call(backbone_alone, device, repeats)
    return {
        "photos_per_second": count / whole,
        "ms_per_photo": 1e3 * whole / count,
        "backbone_ms_per_photo": 1e3 * backbone / count,
        "time_over_bare_backbone": whole / backbone,
        "tflop_per_photo": counter.get_total_flops() / count / 1e12,
        "tflops": counter.get_total_flops() / whole / 1e12,
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    device = pick_device(options.device)
    recipe = load_recipe(options.recipe)
    recipe = replace(
        recipe,
        run=replace(
            recipe.run,
            batch=options.batch or recipe.run.batch,
            precision="bfloat16" if device.type == "cuda" else "float32",
        ),
    )
    result = measure(recipe, device, options.repeats)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    result_with_place = {
        "recipe": str(options.recipe),
        "device": name,
        "batch": recipe.run.batch,
        **result,
    }
    report(result_with_place, options.json)


if __name__ == "__main__":
    main()
