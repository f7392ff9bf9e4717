"""Time and memory of `regiontalk evaluate dense` on a generated test set of Visual Genome's size.

The peer is the way of the released evaluator: a loop over detections and truths, and METEOR asked
once per detection and reference set, the original jar where Java is there. It runs on a few of the
same images and is extrapolated in proportion.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jar import JarMeteor
from regiontalk.lab.evaluation.meteor import Meteor
from report import options_of

WIDTH, HEIGHT = 640, 480
WORDS = {
    "colour": "red blue green white black brown grey yellow small large old young wooden metal striped tall",
    "thing": "man woman boy girl dog cat horse cow car bus truck bike tree bush table chair lamp window door "
    "wall sign shirt jacket hat ball bat plate cup bottle fork street sidewalk grass sky cloud building roof "
    "light wheel shoe hand head leg arm face ear tail bench fence road water boat bird train track pole clock",
    "link": "on in near behind under with beside above against holding wearing",
}
SECOND_REFERENCE = 0.25  # share of the truths that two people described


def phrases(count: int, chance: np.random.Generator) -> list[str]:
    """Phrases of two to eight words, such as "a red shirt on the wall"."""
    colours, things, links = (WORDS[kind].split() for kind in ("colour", "thing", "link"))
    made = set()
    while len(made) < count:
        article = str(chance.choice(["a", "the", "a", "the", ""]))
        words = [article, str(chance.choice(colours)), str(chance.choice(things))]
        if chance.random() < 0.7:
            words += [
                str(chance.choice(links)),
                str(chance.choice(["a", "the"])),
                str(chance.choice(things)),
            ]
        made.add(" ".join(words).strip())
    return sorted(made)


def boxes(count: int, chance: np.random.Generator) -> np.ndarray:
    size = chance.uniform(0.05, 0.6, (count, 2)) * (WIDTH, HEIGHT)
    corner = chance.uniform(0, 1, (count, 2)) * ((WIDTH, HEIGHT) - size)
    return np.round(np.concatenate([corner, corner + size], axis=1), 2)


def images(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """A record and its predictions, image by image. Half of the predictions lie near a truth."""
    chance = np.random.default_rng(0)
    said = np.array(phrases(20_000, chance))
    frequent = said[:: len(said) // 2000]
    weights = 1 / np.arange(1, len(frequent) + 1)
    for number in range(options.images):
        true = boxes(options.truths, chance)
        people = 1 + (chance.random(options.truths) < SECOND_REFERENCE)
        regions = []
        for box, count in zip(true.tolist(), people, strict=True):
            texts = chance.choice(said, count).tolist()
            regions.append({"xyxy": box, "phrase": texts[0], "phrases": texts})
        found = boxes(options.predictions, chance)
        near = chance.random(options.predictions) < 0.5
        jitter = chance.normal(0, 8, (options.predictions, 4))
        found[near] = true[chance.integers(0, options.truths, near.sum())] + jitter[near]
        found = np.round(
            np.concatenate([np.minimum(found[:, :2], found[:, 2:]), found[:, 2:]], axis=1), 2
        )
        own = chance.choice(frequent, options.distinct, replace=False, p=weights / weights.sum())
        captions = chance.choice(own, options.predictions)
        scores = np.round(chance.random(options.predictions), 6)
        name = f"{number:06d}.jpg"
        size = {"width": WIDTH, "height": HEIGHT}
        rows = zip(found.tolist(), scores.tolist(), captions.tolist(), strict=True)
        predicted = [{"xyxy": box, "score": score, "caption": text} for box, score, text in rows]
        yield (
            {"image": name, **size, "regions": regions},
            {"path": name, **size, "regions": predicted},
        )


def write_files(options: argparse.Namespace, folder: Path) -> tuple[Path, Path]:
    truth, found = folder / "truth.jsonl", folder / "predictions.jsonl"
    with truth.open("w") as truth_file, found.open("w") as found_file:
        for record, predicted in images(options):
            truth_file.write(json.dumps(record) + "\n")
            found_file.write(json.dumps(predicted) + "\n")
    return truth, found


def measure_ours(truth: Path, found: Path) -> dict[str, float]:
    """The verb in a process of its own; memory is that of it and its workers together."""
    verb = [
        sys.executable,
        "-c",
        "from regiontalk.cli.main import main; main()",
        "evaluate",
        "dense",
    ]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*verb, "--truth", str(truth), "--predictions", str(found), "--json"],
        stdout=subprocess.PIPE,
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(resident_gib(pid) for pid in (process.pid, *children(process.pid))))
        time.sleep(0.2)
    seconds = time.perf_counter() - start
    assert process.stdout is not None
    result = json.loads(process.stdout.read())
    return {"seconds": seconds, "peak_gib": peak, "map": result["map"]}


def children(pid: int) -> list[int]:
    """Linux only; elsewhere the workers' memory is not counted."""
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def resident_gib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(
        (int(line.split()[1]) / (1 << 20) for line in lines if line.startswith("VmRSS")), 0.0
    )


def open_peer() -> JarMeteor | Meteor:
    return JarMeteor() if shutil.which("java") else Meteor.load()


def plain_iou(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0]) + 1
    height = min(a[3], b[3]) - max(a[1], b[1]) + 1
    if width <= 0 or height <= 0:
        return 0.0
    areas = sum((box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b))
    return width * height / (areas - width * height)


def measure_peer(truth: Path, found: Path, count: int) -> float:
    """Seconds per image, one detection after the other; the start of Java is not counted."""
    meteor = open_peer()
    with truth.open() as truths, found.open() as predictions:
        meteor.score("a dog", ["a dog"])
        start = time.perf_counter()
        for _, record, predicted in zip(range(count), truths, predictions, strict=False):
            regions = json.loads(record)["regions"]
            bag = [phrase for region in regions for phrase in region["phrases"]]
            for one in json.loads(predicted)["regions"]:
                overlaps = [plain_iou(one["xyxy"], region["xyxy"]) for region in regions]
                best = int(np.argmax(overlaps))
                meteor.score(one["caption"], regions[best]["phrases"])
                meteor.score(one["caption"], bag)
        return (time.perf_counter() - start) / count


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--predictions", type=int, default=300)
    parser.add_argument("--truths", type=int, default=40)
    parser.add_argument(
        "--distinct",
        type=int,
        default=60,
        help="captions said of one image; trained models repeat more",
    )
    parser.add_argument("--peer-images", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        truth, found = write_files(options, Path(folder))
        ours = measure_ours(truth, found)
        per_image = measure_peer(truth, found, min(options.peer_images, options.images))
    result = {
        "images": options.images,
        "predictions_per_image": options.predictions,
        "truths_per_image": options.truths,
        "distinct_captions_per_image": options.distinct,
        "seconds": round(ours["seconds"], 1),
        "peak_gib": round(ours["peak_gib"], 3),
        "map": ours["map"],
        "peer": "a loop per detection, METEOR "
        + ("by the jar" if shutil.which("java") else "by ours"),
        "peer_seconds_extrapolated": round(per_image * options.images, 1),
        "speedup_over_peer": round(per_image * options.images / ours["seconds"], 1),
        "cores": os.cpu_count(),
    }
    if not options.json:
        print(f"{result['seconds']} s and {result['peak_gib']} GiB; the peer would take", end=" ")
        print(
            f"{result['peer_seconds_extrapolated']} s ({result['speedup_over_peer']} times as long)"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
