"""Captions by Ray with some workers, against the plain command with as many threads: the same
photos, in turns.

Photos are copies of the repository's. Both commands run from start to end, as users call them. Ray
takes seconds to start; `rate_over_plain` counts them, `rate_over_plain_once_started` leaves out
what a run over one photo takes.

python benchmarks/cluster.py --json
python benchmarks/cluster.py --photos 2000 --json
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import options_of, report

PHOTOS = sorted((Path(__file__).parents[1] / "docs" / "gallery" / "photos").glob("*.jpg"))


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {
        name: [] for name in ("plain", "ray", "plain start", "ray start")
    }
    with tempfile.TemporaryDirectory() as name:
        desk = Path(name)
        copy_photos(desk / "one", 1)
        copy_photos(desk / "many", arguments.photos)
        for turn in range(arguments.turns):
            for kind, folder in (("", "many"), (" start", "one")):
                plain, ray = desk / f"{folder}{turn}.jsonl", desk / f"{folder}{turn}"
                times[f"plain{kind}"].append(caption(desk / folder, plain, arguments.workers))
                times[f"ray{kind}"].append(
                    caption(desk / folder, ray, arguments.workers, "--engine", "ray")
                )
                same = lines(plain.parent, plain.name) == lines(ray, "part-*.jsonl")
                assert same, "not the same results"
    load = os.getloadavg()[0]
    plain, plain_start, ray, ray_start = (
        statistics.median(times[name]) for name in ("plain", "plain start", "ray", "ray start")
    )
    out = {
        "photos": arguments.photos,
        "workers": arguments.workers,
        "cores": os.cpu_count(),
        "load_average": round(load, 1),
        "plain_s": round(plain, 1),
        "ray_s": round(ray, 1),
        "plain_start_s": round(plain_start, 1),
        "ray_start_s": round(ray_start, 1),
        "rate_over_plain": round(plain / ray, 3),
        "rate_over_plain_once_started": round((plain - plain_start) / (ray - ray_start), 3),
        "same_results": True,
    }
    report(out, arguments.json)


def copy_photos(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        shutil.copy(PHOTOS[number % len(PHOTOS)], folder / f"{number:05d}.jpg")


def caption(photos: Path, output: Path, workers: int, *options: str) -> float:
    command = [
        sys.executable,
        "-m",
        "regiontalk",
        "caption",
        str(photos),
        "-o",
        str(output),
        "-j",
        str(workers),
    ]
    began = time.perf_counter()
    subprocess.run([*command, *options, "-q"], check=True)
    return time.perf_counter() - began


def lines(folder: Path, pattern: str) -> list[bytes]:
    return sorted(line for path in folder.glob(pattern) for line in path.read_bytes().splitlines())


if __name__ == "__main__":
    main()
