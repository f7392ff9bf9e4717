"""A query over made-up photos, against the bare product of the same vectors.

Peer: numpy's float32 product of all vectors, which lie in memory, with the query's words, and the largest number of
each photo. In turns with the store's `word_scores`, which reads 16-bit vectors from a mapped file. Both on as many
cores. Recall: the share of the ten best photos of exact products that the store has among its ten best.

With --photos FOLDER also: how many photos a second are indexed, against captions of the same photos alone, and how long
a second run takes that finds nothing new.

python benchmarks/search.py --json
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import regiontalk
from regiontalk.photos import attempts, find_photos
from regiontalk.search.sqlite_store import SqliteStore
from regiontalk.search.store import Entry, Floats, IndexedModel, PhotoFile, Where
from regiontalk.types import Region
from turns import take_turns

TOGETHER = 500  # photos in a transaction: nobody looks at them
BEST = 10
STATE = 6656  # numbers of a photo's state, as in the package's model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="made-up photos")
    parser.add_argument("--regions", type=int, default=20)
    parser.add_argument("--size", type=int, default=512, help="numbers in a vector")
    parser.add_argument("--words", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--photos", type=Path, help="a folder with photos, to be indexed elsewhere")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = measure_queries(arguments, Path(folder))
    if arguments.photos is not None:
        with tempfile.TemporaryDirectory() as folder:
            out |= measure_indexing(arguments.photos, Path(folder))
    print(json.dumps(out) if arguments.json else "\n".join(f"{name}: {value}" for name, value in out.items()))


def measure_queries(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    shape = (arguments.count, arguments.regions, arguments.size)
    fill(folder, shape)
    began = time.perf_counter()
    store = SqliteStore(folder)
    rng = np.random.default_rng(1)
    words = rng.standard_normal((arguments.words, arguments.size)).astype(np.float32)
    store.word_scores(words, Where())
    cold, memory = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    vectors = np.concatenate([made_up(start, shape) for start in range(0, arguments.count, TOGETHER)])

    def product() -> Floats:
        products = vectors.reshape(-1, arguments.size) @ words.T
        largest: Floats = products.reshape(*shape[:2], -1).max(axis=1)
        return largest

    times = take_turns({"query": lambda: store.word_scores(words, Where()), "product": product}, arguments.repeats)
    recalls = []
    for _ in range(20):
        words = rng.standard_normal((arguments.words, arguments.size)).astype(np.float32)
        exact, found = product().mean(axis=1), store.word_scores(words, Where()).scores.mean(axis=1)
        recalls.append(len(set(np.argsort(-exact)[:BEST]) & set(np.argsort(-found)[:BEST])) / BEST)
    store.close()
    size = sum(path.stat().st_size for path in folder.iterdir())
    return {
        "photos": arguments.count,
        "query_ms": round(times["query"], 1),
        "product_ms": round(times["product"], 1),
        "query_over_product": round(times["query"] / times["product"], 3),
        "first_query_ms": round(1000 * cold, 1),
        "recall_at_10": round(float(np.mean(recalls)), 4),
        "kilobytes_a_photo": round(size / arguments.count / 1000, 2),
        "memory_after_first_query_mb": round(memory / 1000),
    }


def made_up(start: int, shape: tuple[int, int, int]) -> Floats:
    """(`TOGETHER`, R, h), of length 1."""
    count = min(TOGETHER, shape[0] - start)
    vectors = np.random.default_rng(start).standard_normal((count, *shape[1:]), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def fill(folder: Path, shape: tuple[int, int, int]) -> None:
    store = SqliteStore(folder, IndexedModel("made-up", "made-up", *shape[1:], STATE))
    regions = tuple(Region((10.5, 20.25, 300.5, 400.75), 0.5, f"a thing of kind {row}") for row in range(shape[1]))
    captions, state = tuple(region.caption for region in regions), np.ones(STATE, np.float32)
    for start in range(0, shape[0], TOGETHER):
        entries = []
        for number, vectors in enumerate(made_up(start, shape), start=start):
            file = PhotoFile(f"holiday/{number:07d}.jpg", number, number)
            digest = number.to_bytes(16, "big")
            entries.append(Entry(file, digest, "2021-05-30T18:05:12", (640, 480), regions, captions, vectors, state))
        store.put(entries)
    store.close()


def measure_indexing(photos: Path, folder: Path) -> dict[str, Any]:
    model = regiontalk.load()
    paths = find_photos([str(photos)]).paths
    for _ in attempts(model, paths[:5], 1):
        pass
    began = time.perf_counter()
    for _ in attempts(model, paths, 1):
        pass
    captioned = time.perf_counter()
    index = regiontalk.Index.open(photos, place=folder / "index", model=model)
    index.update()
    indexed = time.perf_counter()
    index.update()
    again = time.perf_counter()
    return {
        "indexed_photos": len(paths),
        "photos_a_second": round(len(paths) / (indexed - captioned), 2),
        "rate_over_caption": round((captioned - began) / (indexed - captioned), 3),
        "second_run_s": round(again - indexed, 2),
    }


if __name__ == "__main__":
    main()
