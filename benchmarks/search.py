"""How search scales, on made-up photos with vectors as the package's model makes them, and how fast
photos are indexed.

For each of --counts: a query, against the bare product of the same vectors (numpy's float32 product
of all vectors, which lie in memory, with the words of the query, and the largest number of each
photo), in turns; the share of the ten best photos of exact products that are found, and of photos
as good as the tenth (`TIE`: an index keeps 12 bits of a number); the kilobytes of a photo; and how
long `regiontalk search` takes from its start. From the points a line is drawn to a million.

A second run of `index` over --unchanged photos of which none is new.

With --photos FOLDER also: photos indexed a second, in turns with captions of the same photos alone;
and `index` killed (kill -9) at --kills random moments and finished, against an index that was made
in one go, photo by photo.

python benchmarks/search.py --json
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import regiontalk
from regiontalk.images.paths import attempts, find_photos
from regiontalk.inference import maxsim
from regiontalk.results import Region
from regiontalk.search.build import identify
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Floats, IndexedModel, PhotoFile, Where
from report import options_of, report
from turns import take_turns

TOGETHER = 500  # photos in a transaction: nobody looks at them
BEST, CANDIDATES = 10, 100
TIE = 0.002  # of the standard deviation of scores: what is closer counts as equal
FAR = 1_000_000  # photos that a line is drawn to
CHUNK = 8  # photos that are captioned, then indexed


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument(
        "--counts", type=int, nargs="*", default=[10_000, 30_000, 100_000], help="made-up photos"
    )
    parser.add_argument("--words", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument(
        "--unchanged", type=int, default=10_000, help="photos of the second run; 0: none"
    )
    parser.add_argument("--photos", type=Path, help="a folder with photos, to be indexed elsewhere")
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    model, out = regiontalk.load(), dict[str, Any]()
    points = [measure_queries(identify(model), count, arguments) for count in arguments.counts]
    out["points"] = {point["photos"]: point for point in points}
    if len(points) > 1:
        out[f"at_{FAR}"] = extrapolate(points)
    if arguments.unchanged:
        out |= measure_unchanged(model, arguments.unchanged)
    if arguments.photos is not None:
        out |= measure_indexing(model, arguments.photos) | measure_kills(
            arguments.photos, arguments.kills
        )
    report(out, arguments.json)


def measure_queries(
    indexed: IndexedModel, count: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    rng, shape = np.random.default_rng(1), (count, indexed.regions, indexed.size)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        fill(
            folder,
            indexed,
            (PhotoFile(f"holiday/{number:07d}.jpg", number, number) for number in range(count)),
        )
        size = sum(path.stat().st_size for path in folder.iterdir())
        start = time_command(folder)
        store = SqliteStore(folder)
        vectors = np.empty(shape, np.float32)  # 4 GB of 100,000 photos: not twice
        for first in range(0, count, TOGETHER):
            vectors[first : first + TOGETHER] = made_up(first, shape)
        words = rng.standard_normal((arguments.words, indexed.size)).astype(np.float32)

        def product() -> Floats:
            products = vectors.reshape(-1, indexed.size) @ words.T
            largest: Floats = products.reshape(count, indexed.regions, -1).max(axis=1)
            return largest

        times = take_turns(
            {"query": lambda: store.word_scores(words, Where()), "product": product},
            arguments.repeats,
        )
        found, good = [], []
        for _ in range(20):
            words = rng.standard_normal((arguments.words, indexed.size)).astype(np.float32)
            exact, ours = product().mean(axis=1), np.array(best(store, words)) - 1
            order = np.argsort(-exact)[:BEST]
            found.append(np.isin(order, ours).mean())
            good.append((exact[ours] >= exact[order[-1]] - TIE * exact.std()).mean())
        store.close()
    return {
        "photos": count,
        "query_ms": round(times["query"], 1),
        "product_ms": round(times["product"], 1),
        "query_over_product": round(times["query"] / times["product"], 3),
        "search_command_s": round(start, 2),
        "recall_at_10": round(float(np.mean(found)), 4),
        "recall_at_10_with_ties": round(float(np.mean(good)), 4),
        "kilobytes_a_photo": round(size / count / 1000, 2),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000),
    }


def best(store: SqliteStore, words: Floats) -> list[int]:
    """As `search` finds them: the best in 8 bits, ranked by exact vectors."""
    scored = store.word_scores(words, Where())
    ids = scored.ids[np.argsort(-scored.scores.mean(axis=1))[:CANDIDATES]]
    exact = [maxsim.word_scores(own[None], words).mean() for own in store.vectors(ids.tolist())]
    return [int(one) for one in ids[np.argsort(-np.array(exact))[:BEST]]]


def time_command(folder: Path) -> float:
    """Seconds from the start of a process to its answer; what the disk's cache holds of the index
    is dropped before."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    command = [
        sys.executable,
        "-m",
        "regiontalk",
        "search",
        "a dog on a beach",
        "--index",
        str(folder),
        "-q",
    ]
    began = time.perf_counter()
    subprocess.run([*command, "--threshold", "0"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def extrapolate(points: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What a line through the points says of `FAR` photos."""
    counts = [point["photos"] for point in points]
    lines = {
        name: np.polyfit(counts, [point[name] for point in points], 1)
        for name in ("query_ms", "search_command_s")
    }
    found = {name: round(float(np.polyval(line, FAR)), 1) for name, line in lines.items()}
    return found | {"gigabytes": round(points[-1]["kilobytes_a_photo"] * FAR / 1e6, 1)}


def made_up(first: int, shape: tuple[int, int, int]) -> Floats:
    """(`TOGETHER`, R, h), of length 1."""
    count = min(TOGETHER, shape[0] - first)
    vectors = np.random.default_rng(first).standard_normal((count, *shape[1:]), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def fill(folder: Path, indexed: IndexedModel, files: Iterator[PhotoFile]) -> None:
    """An index of photos that nobody has looked at."""
    store, kept = SqliteStore(folder, indexed), list(files)
    regions = tuple(
        Region((10.5, 20.25, 300.5, 400.75), 0.5, f"a thing of kind {row}")
        for row in range(indexed.regions)
    )
    captions, state = (
        tuple(region.caption for region in regions),
        np.ones(indexed.state, np.float32),
    )
    photo = (
        "2021-05-30T18:05:12",
        (640, 480),
        regions,
        tuple(region.score for region in regions),
        captions,
    )
    for first in range(0, len(kept), TOGETHER):
        vectors = made_up(first, (len(kept), indexed.regions, indexed.size))
        here = zip(kept[first : first + TOGETHER], vectors, strict=True)
        store.put([Entry(file, os.fsencode(file.path), *photo, own, state) for file, own in here])
    store.close()


def measure_unchanged(model: regiontalk.Model, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        photos = Path(place) / "photos"
        photos.mkdir()
        for number in range(count):
            (photos / f"{number}.jpg").touch()
        files = ((path.name, path.stat()) for path in photos.iterdir())
        known = (PhotoFile(name, status.st_size, status.st_mtime_ns) for name, status in files)
        fill(Path(place) / "index", identify(model), known)
        began = time.perf_counter()
        done = regiontalk.Index.open(photos, place=Path(place) / "index", model=model).update()
        assert done.unchanged == count
        return {"unchanged": count, "second_run_s": round(time.perf_counter() - began, 2)}


def measure_indexing(model: regiontalk.Model, photos: Path) -> dict[str, Any]:
    """In turns, a few photos at a time."""
    paths, captioning, indexing = find_photos([str(photos)]).paths, 0.0, 0.0
    with tempfile.TemporaryDirectory() as place:
        for first in range(0, len(paths), CHUNK):
            folder = Path(place) / f"photos-{first}"
            folder.mkdir()
            for number, path in enumerate(paths[first : first + CHUNK]):
                shutil.copy(path, folder / f"{number}{Path(path).suffix}")
            began = time.perf_counter()
            for _ in attempts(model, find_photos([str(folder)]).paths, 1):
                pass
            between = time.perf_counter()
            regiontalk.Index.open(
                folder, place=Path(place) / f"index-{first}", model=model
            ).update()
            if first:  # the first ones open the graphs
                captioning, indexing = (
                    captioning + between - began,
                    indexing + time.perf_counter() - between,
                )
    counted = max(len(paths) - CHUNK, 0)
    return {
        "indexed_photos": counted,
        "photos_a_second": round(counted / indexing, 2),
        "rate_over_caption": round(captioning / indexing, 3),
    }


def measure_kills(photos: Path, kills: int) -> dict[str, Any]:
    """How often `index` was killed before it had finished, and whether what came of it is as it
    should be."""
    with tempfile.TemporaryDirectory() as place:
        clean, killed = Path(place) / "clean", Path(place) / "killed"
        command = [sys.executable, "-m", "regiontalk", "index", str(photos), "-q", "--index"]
        began = time.perf_counter()
        subprocess.run([*command, str(clean)], check=True)
        seconds, rng, before_the_end = time.perf_counter() - began, random.Random(1), 0
        for _ in range(kills):
            with subprocess.Popen([*command, str(killed)]) as process:
                try:
                    process.wait(rng.uniform(0, seconds / kills * 2))
                except subprocess.TimeoutExpired:
                    process.kill()
                    before_the_end += 1
        subprocess.run([*command, str(killed)], check=True)
        return {"killed": before_the_end, "equal_after_kills": contents(clean) == contents(killed)}


def contents(folder: Path) -> dict[str, Any]:
    """All that an index says of each photo, by path."""
    store = SqliteStore(folder)
    with store.reading():
        ids = store.newest(Where(), 0, store.count()).tolist()
        numbers = zip(store.read(ids), store.vectors(ids), store.states(ids).tolist(), strict=True)
        found = {photo.path: (photo[3:], own.tolist(), state) for photo, own, state in numbers}
    store.close()
    return found


if __name__ == "__main__":
    main()
