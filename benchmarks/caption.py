"""A photo captioned by a model folder: time, memory, cold start.

Two peers run in turns with it, in the same process and on as many cores: the paper's configuration
of DenseCap (VGG-16, 720 pixels, 300 proposals; weights at random, its captions as long as this
model's may be) in float32 through the same runtime, and this model itself in eager torch. Medians
of the turns. Needs `regiontalk[train]`.

python benchmarks/caption.py --model my-model --json
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regiontalk.lab.export.detector import trace
from regiontalk.lab.nets.fcln import FCLN
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.model import Model
from regiontalk.models import packaged
from regiontalk.models.folder import read_model_folder, write_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime, head_graphs
from regiontalk.models.torch_loading import open_torch_runtime
from regiontalk.models.torch_runtime import model_info
from report import options_of, report
from turns import photo_bytes

ROOT = Path(__file__).parents[1]
PAPER_WORDS = 10_497  # DenseCap section 4
STAGES = ("propose", "recognize", "step")

RUN_MANY = "import sys, regiontalk\nmodel = regiontalk.load(sys.argv[1])\nfor _ in range(10): model(sys.argv[2])"


class Timed:
    """A runtime whose stages note the seconds they take."""

    def __init__(self, runtime: Any) -> None:
        self._runtime, self.seconds = runtime, dict.fromkeys(STAGES, 0.0)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._runtime, name)
        if name not in STAGES:
            return value

        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return value(*arguments)
            finally:
                self.seconds[name] += time.perf_counter() - began

        return timed


def paper_model(folder: Path, longest: int) -> Path:
    """The paper's network with weights at random, exported in float32."""
    recipe = load_recipe(ROOT / "recipes" / "fcln-paper.toml")
    recipe = replace(recipe, prediction=replace(recipe.prediction, longest=longest))
    words = Vocabulary(tuple(f"w{number}" for number in range(PAPER_WORDS)))
    torch.manual_seed(0)
    net = FCLN(recipe.net, len(words), len(words.styles)).eval()
    info = model_info(net, recipe.prediction, "paper", "float32", {})
    write_model_folder(
        folder, info, words, {name: graph.SerializeToString() for name, graph in trace(net).items()}
    )
    return folder


def take_turns(models: dict[str, Model], photo: bytes, repeats: int) -> dict[str, dict[str, float]]:
    """Medians over the turns: milliseconds of a photo, and of each stage in it.

    Every turn has a photo before the timed one: what is measured is a photo after another photo,
    not after another network, which has filled the processor's caches.
    """
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    for turn in range(repeats + 1):
        for name, model in models.items():
            model(photo)
            timed = Timed(model.runtime)
            began = time.perf_counter()
            found = replace(model, runtime=timed)(photo)  # type: ignore[arg-type]
            whole = time.perf_counter() - began
            seconds = {"photo": whole, **timed.seconds}
            figures = {key: 1e3 * value for key, value in seconds.items()} | {
                "regions": len(found.regions)
            }
            if turn:  # the first one warms up
                turns[name].append(figures)
    return {
        name: {key: statistics.median(one[key] for one in found) for key in found[0]}
        for name, found in turns.items()
    }


def child(*command: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak megabytes of another process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def processes(model: Path, photo: Path, repeats: int) -> dict[str, float]:
    """What only a process of its own shows: cold start, the memory it needs, and what `--help`
    costs."""
    start = [sys.executable, "-c", "from regiontalk.cli.main import main; main()"]
    caption = [*start, "caption", str(photo), "--model", str(model), "--json"]
    cold = [child(*caption) for _ in range(repeats)]
    help_cpu = [child(*start, "--help")[1] for _ in range(repeats)]
    memory = child(sys.executable, "-c", RUN_MANY, str(model), str(photo))[2]
    return {
        "cold_process_seconds": statistics.median(wall for wall, _, _ in cold),
        "cold_process_cpu_seconds": statistics.median(cpu for _, cpu, _ in cold),
        "help_cpu_seconds": statistics.median(help_cpu),
        "memory_mb": memory,
    }


def measure(model: Path, repeats: int, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    os.environ["REGIONTALK_THREADS"] = str(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photo = folder / "photo.jpg"
        photo.write_bytes(photo_bytes())
        figures: dict[str, Any] = processes(model, photo, min(repeats, 5))
        ours = OnnxRuntime(model, threads)
        models = {
            "ours": Model(ours),
            "torch": Model(open_torch_runtime(model)),
            "paper": Model(
                OnnxRuntime(paper_model(folder / "paper", ours.info.prediction.longest), threads)
            ),
        }
        stages = take_turns(models, photo.read_bytes(), repeats)
    warm, stored = stages["ours"]["photo"], read_model_folder(model)
    wordless = stages["paper"]["propose"] + stages["paper"]["recognize"]
    return {
        "model": ours.info.name,
        "precision": ours.info.precision,
        "threads": threads,
        "speedup_over_paper": stages["paper"]["photo"] / warm,
        "speedup_over_paper_without_its_words": wordless / warm,
        "speedup_over_torch": stages["torch"]["photo"] / warm,
        "model_mb": sum(map(len, [*stored.graphs.values(), *head_graphs(stored).values()])) / 1e6,
        "milliseconds": stages,
        **figures,
        "cold_allowed_seconds": 2 * warm / 1e3 + 1,
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument(
        "--model",
        type=packaged.place_of,
        default="embedded",
        help="a model folder; embedded, fast: the package's",
    )
    parser.add_argument("--repeats", type=int, default=9, help="timed turns")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    result = measure(options.model, options.repeats, options.threads)
    report(result, options.json)


if __name__ == "__main__":
    main()
