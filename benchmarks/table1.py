"""The runtimes of DenseCap's table 1: proposals, CNN + recognition, RNN and all of it, at 300 and
at 100 proposals.

The systems are those of recipes/table1-*.toml, with the same backbone, on one photo and one device,
in turns; medians. Region RNN's crops go through the CNN one by one, as in the paper, and in batches
as well. Weights are at random unless --runs names the folder of trained runs; captions are then as
long as they may be. Without OpenCV boxes are made up, and EdgeBoxes' time is not counted.

python benchmarks/table1.py --size 720 600 --json
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from caption import Timed
from regiontalk.errors import MissingExtra
from regiontalk.lab.data.region_files import ScoredBoxes
from regiontalk.lab.nets import fcln
from regiontalk.lab.training.processes import pick_device
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.model import Model
from regiontalk.models.torch_loading import open_torch_runtime
from regiontalk.models.torch_runtime import TorchRuntime, model_info
from report import options_of
from train_fcln import WORDS
from turns import PHOTO

RECIPES = Path(__file__).parents[1] / "recipes"
SYSTEMS = {"full-image": 1, "region-rnn": 1, "region-rnn-batched": 100, "edgeboxes": 1, "fcln": 1}
"""System -> crops that go through the CNN at a time."""
PARTS = ("proposals", "cnn_recognition", "rnn")
# IoU of an NMS that leaves the given boxes alone, so that as many are recognised as are asked for
ALL_SURVIVE = 0.99


@dataclass
class System:
    """A network whose parts are timed."""

    model: Model
    net: fcln.FCLN
    crops_at_once: int
    backbone_seconds: float = 0.0

    def __post_init__(self) -> None:
        began = [0.0]
        self.net.backbone.register_forward_pre_hook(lambda *_: began.__setitem__(0, self._now()))
        self.net.backbone.register_forward_hook(lambda *_: self._add(began[0]))

    def _now(self) -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    def _add(self, began: float) -> None:
        self.backbone_seconds += self._now() - began

    def run(
        self, photo: Image.Image, find: Callable[[int], ScoredBoxes], count: int
    ) -> dict[str, float]:
        """Milliseconds of each part for one photo."""
        fcln.CROPS_AT_ONCE, self.backbone_seconds = self.crops_at_once, 0.0
        timed = Timed(self.model.runtime)
        model = replace(self.model, runtime=timed)  # type: ignore[arg-type]
        began = self._now()
        candidates = None if self.net.config.localize else tuple(find(count))
        look = model.look(photo, candidates=candidates, proposals=count)  # type: ignore[arg-type]
        looked = self._now()
        assert len(look.recognized) == count
        model.regions(look)
        rnn = self._now() - looked
        # the backbone is a part of `recognize` where it sees crops, else of `propose`
        cnn = timed.seconds["recognize"] + (0.0 if self.net.config.crops else self.backbone_seconds)
        parts = dict(zip(PARTS, (looked - began - cnn, cnn, rnn), strict=True))
        return {f"{name}_ms": 1e3 * seconds for name, seconds in parts.items()} | {
            "total_ms": 1e3 * sum(parts.values())
        }


def load(
    name: str, crops_at_once: int, runs: Path | None, device: torch.device, long_side: int
) -> System:
    changes = (f"net.input_size={long_side}",)
    recipe = load_recipe(RECIPES / f"table1-{name.removesuffix('-batched')}.toml", changes)
    settings = recipe.prediction
    if not recipe.net.localize:
        settings = replace(settings, proposal_nms=ALL_SURVIVE)
    if runs is None:
        words = Vocabulary(tuple(f"w{number}" for number in range(WORDS)))
        net = fcln.FCLN(recipe.net, len(words), len(words.styles)).to(device).eval()
        runtime = TorchRuntime(net, words, model_info(net, settings, name, "float32", {}))
    else:
        runtime = open_torch_runtime(runs / f"table1-{name.removesuffix('-batched')}", device)
        runtime.info = replace(runtime.info, prediction=settings, input_size=long_side)
        net = runtime._stages["propose"].net  # type: ignore[assignment]
    return System(Model(runtime), net, crops_at_once)


def boxes_of(photo: Image.Image) -> tuple[str, Callable[[int], ScoredBoxes]]:
    """EdgeBoxes of the photo, or made-up ones."""
    with suppress(ImportError, MissingExtra):
        from regiontalk.lab.data.edge_boxes import EdgeBoxes

        return EdgeBoxes().name, lambda count: ScoredBoxes(
            *(part[:count] for part in EdgeBoxes(count).find(photo))
        )
    random = np.random.default_rng(0)
    corners = np.sort(random.uniform(0, 1, (300, 2, 2)), axis=1) * photo.size + [[0, 0], [1, 1]]
    made_up = ScoredBoxes(
        corners.reshape(-1, 4).clip(0, [*photo.size] * 2), random.uniform(0, 1, 300)
    )
    return "made-up boxes, whose time is not counted", lambda count: ScoredBoxes(
        *(part[:count] for part in made_up)
    )


def measure(
    systems: dict[str, System], photo: Image.Image, counts: tuple[int, ...], repeats: int
) -> dict[str, Any]:
    _, find = boxes_of(photo)
    turns: dict[str, list[dict[str, float]]] = {}
    for turn in range(repeats + 1):
        for count in counts:
            for name, system in systems.items():
                found = system.run(photo, find, count)
                if turn:
                    turns.setdefault(f"{name}-{count}", []).append(found)
    rows: dict[str, Any] = {}
    for name, found in turns.items():
        rows[name] = {part: statistics.median(one[part] for one in found) for part in found[0]}
    for name, row in rows.items():
        row["times_fcln"] = row["total_ms"] / rows[f"fcln-{name.rpartition('-')[2]}"]["total_ms"]
    return rows


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=Path, help="a folder with trained runs table1-…")
    parser.add_argument("--proposals", type=int, nargs="+", default=[300, 100])
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=SYSTEMS,
        default=list(SYSTEMS),
        help="fcln must be among them",
    )
    parser.add_argument(
        "--size", type=int, nargs=2, default=(448, 298), metavar=("WIDTH", "HEIGHT")
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    device = pick_device(options.device)
    torch.manual_seed(0)
    with Image.open(PHOTO) as opened:
        photo = opened.convert("RGB").resize(options.size)
    chosen = {name: crops for name, crops in SYSTEMS.items() if name in options.systems}
    with torch.inference_mode():
        systems = {
            name: load(name, crops, options.runs, device, max(options.size))
            for name, crops in chosen.items()
        }
        rows = measure(systems, photo, tuple(options.proposals), options.repeats)
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else None,
        "boxes": boxes_of(photo)[0],
        "size": list(photo.size),
        "rows": rows,
    }
    slow = rows.get(f"region-rnn-{options.proposals[0]}")
    if slow is not None:
        result["fcln_speedup_over_region_rnn"] = slow["times_fcln"]
    if not options.json:
        for name, row in rows.items():
            print(f"{name:24}", *(f"{part} {value:9.1f}" for part, value in row.items()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
