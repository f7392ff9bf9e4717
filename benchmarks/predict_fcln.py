"""Speed of a recipe's network at inference, from a photo in memory to captions, by the path of
`regiontalk caption`.

The peer is its bare backbone on the same device. Weights are at random; medians after one turn that
does not count.

python benchmarks/predict_fcln.py recipes/fcln-paper.toml --size 720 600 --json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from caption import Timed
from regiontalk.lab.nets.fcln import FCLN
from regiontalk.lab.training.processes import pick_device
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.model import Model
from regiontalk.models.torch_runtime import TorchRuntime, model_info
from report import options_of, report
from train_fcln import WORDS


def milliseconds(work: Callable[[], object], device: torch.device) -> float:
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began)


def measure(
    model: Model, net: FCLN, size: tuple[int, int], device: torch.device, repeats: int
) -> dict[str, float]:
    width, height = size
    photo = np.random.default_rng(0).integers(0, 255, (height, width, 3)).astype(np.uint8)
    image = torch.from_numpy(photo.transpose(2, 0, 1).copy())[None].float().to(device)
    turns: list[dict[str, float]] = []
    for _ in range(repeats + 1):
        timed = Timed(model.runtime)
        asked = replace(model, runtime=timed)  # type: ignore[arg-type]
        turn = {"photo": milliseconds(lambda asked=asked: asked(photo), device)}  # type: ignore[misc]
        turn |= {name: 1e3 * seconds for name, seconds in timed.seconds.items()}
        with torch.inference_mode():
            turn["bare_backbone"] = milliseconds(lambda: net.backbone(image), device)
        turns.append(turn)
    medians = {
        f"ms_{name}": statistics.median(turn[name] for turn in turns[1:]) for name in turns[0]
    }
    return medians | {"time_over_bare_backbone": medians["ms_photo"] / medians["ms_bare_backbone"]}


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument(
        "--size", type=int, nargs=2, default=(720, 600), metavar=("WIDTH", "HEIGHT")
    )
    parser.add_argument("--proposals", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    device, recipe = pick_device(options.device), load_recipe(options.recipe)
    settings = recipe.prediction
    settings = replace(settings, proposals=options.proposals or settings.proposals)
    torch.manual_seed(0)
    words = Vocabulary(tuple(f"w{number}" for number in range(WORDS)))
    net = FCLN(recipe.net, len(words), len(words.styles)).to(device).eval()
    model = Model(TorchRuntime(net, words, model_info(net, settings, "made-up", "float32", {})))
    result: dict[str, object] = {
        "recipe": options.recipe.name,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "size": list(options.size),
        "proposals": settings.proposals,
        **measure(model, net, tuple(options.size), device, options.repeats),
    }
    report(result, options.json)


if __name__ == "__main__":
    main()
