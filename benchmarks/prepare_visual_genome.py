"""Visual Genome's true size (108,077 images, 5.4 million regions), prepared by streaming.

The peer is the plain way: `json.load` of the same file, then every region written out as records.
Both run in a process of their own, one after the other; peak memory is that process's. The 20-50
rule is off here, so that both write all regions. The CPU ratio is the one to look at on a busy
machine.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import options_of

IMAGES = 108_077
FEWEST, MOST = 30, 70  # regions of an image: 50 on average
WORDS = [
    "a",
    "the",
    "man",
    "woman",
    "red",
    "blue",
    "standing",
    "wearing",
    "sign",
    "street",
    "on",
    "with",
]


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--images", type=int, default=IMAGES, help="how many images to generate")
    parser.add_argument("--run", choices=["regiontalk", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Path(folder), options.images)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:>24}  {value}")


def compare(folder: Path, images: int) -> dict[str, float]:
    regions = generate(folder, images)
    plain, ours = (run_apart(name, folder) for name in ("plain", "regiontalk"))
    return {
        "images": images,
        "regions": regions,
        "source_mb": round((folder / "region_descriptions.json").stat().st_size / 1e6),
        "prepare_s": ours["seconds"],
        "prepare_peak_mb": ours["peak_mb"],
        "plain_s": plain["seconds"],
        "plain_load_s": plain["load_seconds"],
        "plain_peak_mb": plain["peak_mb"],
        "ratio_to_plain": round(ours["seconds"] / plain["seconds"], 3),
        "cpu_ratio_to_plain": round(ours["cpu_seconds"] / plain["cpu_seconds"], 3),
    }


def generate(folder: Path, images: int) -> int:
    """The two files of Visual Genome 1.2, with phrases and boxes drawn by a fixed seed."""
    choice = random.Random(1)
    written = 0
    with (
        (folder / "image_data.json").open("w", encoding="utf-8") as data,
        (folder / "region_descriptions.json").open("w", encoding="utf-8") as descriptions,
    ):
        for number in range(1, images + 1):
            separator = "[" if number == 1 else ", "
            url = f"https://cs.stanford.edu/people/rak248/VG_100K_2/{number}.jpg"
            size = {
                "width": 800,
                "url": url,
                "height": 600,
                "image_id": number,
                "coco_id": None,
                "flickr_id": None,
            }
            regions = [
                region(choice, number, written + n) for n in range(choice.randint(FEWEST, MOST))
            ]
            data.write(separator + json.dumps(size))
            descriptions.write(separator + json.dumps({"regions": regions, "id": number}))
            written += len(regions)
        data.write("]")
        descriptions.write("]")
    return written


def region(choice: random.Random, image: int, number: int) -> dict[str, object]:
    x, y = choice.randrange(700), choice.randrange(500)
    return {
        "region_id": number,
        "width": choice.randint(10, 150),
        "height": choice.randint(10, 150),
        "image_id": image,
        "phrase": " ".join(choice.choices(WORDS, k=choice.randint(3, 8))),
        "y": y,
        "x": x,
    }


def run_apart(name: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--run", name, "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def run(name: str, folder: Path) -> dict[str, float]:
    started = time.perf_counter()
    loaded = started
    if name == "plain":
        loaded = plain(folder)
    else:
        prepare(folder)
    done = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": round(done - started, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "load_seconds": round(loaded - started, 2),
        "peak_mb": round(used.ru_maxrss / 1024),  # Linux counts in KiB
    }


def plain(folder: Path) -> float:
    """What a short script would do; returns the time at which everything was loaded."""
    with (folder / "image_data.json").open(encoding="utf-8") as file:
        sizes = {image["image_id"]: image for image in json.load(file)}
    with (folder / "region_descriptions.json").open(encoding="utf-8") as file:
        entries = json.load(file)
    loaded = time.perf_counter()
    with (folder / "plain.jsonl").open("w", encoding="utf-8") as out:
        for entry in entries:
            image = sizes[entry["id"]]
            regions = [
                {
                    "xyxy": [
                        r["x"],
                        r["y"],
                        min(r["x"] + r["width"], 800),
                        min(r["y"] + r["height"], 600),
                    ],
                    "phrase": r["phrase"],
                }
                for r in entry["regions"]
            ]
            record = {
                "image": image["url"],
                "width": image["width"],
                "height": image["height"],
                "regions": regions,
            }
            out.write(json.dumps(record) + "\n")
    return loaded


def prepare(folder: Path) -> None:
    from regiontalk.lab.data.prepare import Settings, prepare

    prepare("visual-genome", folder, folder / "out", Settings(min_regions=0, max_regions=1000))


if __name__ == "__main__":
    main()
