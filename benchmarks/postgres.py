"""Queries over a large index in PostgreSQL: by pgvector's index, against an exact scan of the same
database.

Photos are made up from real ones: each region's vector is a mixture of those of two regions, with
some noise, and captions come from the first. The real photos are those of the repository, or with
--index those of any index. Queries are their captions. Recall: the share of the ten best photos of
the exact scan that the search by the index has among its ten best. Both search as `regiontalk
search --threshold 0` does, in turns.

python benchmarks/postgres.py --json
python benchmarks/postgres.py --photos 50000 --index FOLDER --json   # 1 million vectors
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import regiontalk
from regiontalk.inference.phrases import read_aligned
from regiontalk.results import Hits
from regiontalk.search.build import identify
from regiontalk.search.postgres import store as postgres_store
from regiontalk.search.postgres.store import PostgresStore
from regiontalk.search.query import Searcher
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Floats, PhotoFile, StoredPhoto, Where
from report import options_of, report

ROOT = Path(__file__).parents[1]
BEST = 10
TIMED, TOGETHER = 500, 500  # photos that are stored one by one, which is timed; and together
NOISE = 0.3  # of a vector's length


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--photos", type=int, default=5000, help="made-up photos")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--index", type=Path, help="the folder of an index with real photos")
    parser.add_argument(
        "--store", help="the address of a database; default: pgserver's, thrown away"
    )
    arguments = parser.parse_args()
    model = regiontalk.load()
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.index
        if place is None:
            place = Path(folder) / "index"
            photos = regiontalk.Index.open(
                ROOT / "docs" / "gallery" / "photos", model=model, place=place
            )
            photos.update()
        address = arguments.store or start_server(Path(folder) / "postgres")
        out = measure(model, place, address, arguments)
    report(out, arguments.json)


def start_server(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgserver

        return str(pgserver.get_server(folder).get_uri())


def measure(
    model: regiontalk.Model, place: Path, address: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    base = SqliteStore(place)
    ids = base.newest(Where(), 0, base.count()).tolist()
    real, vectors, states = base.read(ids), base.vectors(ids), base.states(ids)
    base.close()
    queries = choose_queries(model, real, arguments.queries)
    store = PostgresStore(address, identify(model), rebuild=True)
    entries = made_up(real, vectors, states, arguments.photos)
    began = time.perf_counter()
    store.put(list(itertools.islice(entries, TIMED)))
    seconds = time.perf_counter() - began
    while many := list(itertools.islice(entries, TOGETHER)):
        with store._writing():  # nobody looks on: one transaction
            for entry in many:
                store._put_one(entry)
    stored = time.perf_counter()
    store._connection.execute("SET maintenance_work_mem = '4GB'")
    postgres_store.MAX_EXACT = 0  # however few they are
    store.compact()
    indexed = time.perf_counter()
    store._connection.execute("ANALYZE")
    searcher = Searcher(store, model.runtime)
    times, recalls = {"near": list[float](), "exact": list[float]()}, []
    for number, query in enumerate([*queries[:1], *queries]):  # the first one does not count
        (exact, slow), (near, fast) = (
            ask(searcher, query, exact=True),
            ask(searcher, query, exact=False),
        )
        if number:
            times["exact"].append(slow)
            times["near"].append(fast)
            recalls.append(len({hit.path for hit in exact} & {hit.path for hit in near}) / BEST)
    rows = store._connection.execute(
        "SELECT count(*), pg_total_relation_size('photos') + pg_total_relation_size('regions'),"
        " pg_relation_size('regions_near'), current_setting('server_version'),"
        " (SELECT extversion FROM pg_extension WHERE extname = 'vector') FROM regions"
    ).fetchone()
    assert rows is not None
    store.close()
    near, exact = (1000 * statistics.median(times[name]) for name in ("near", "exact"))
    return {
        "photos": arguments.photos,
        "vectors": rows[0],
        "real_photos": len(real),
        "queries": len(queries),
        "query_ms": round(near, 1),
        "exact_ms": round(exact, 1),
        "query_over_exact": round(near / exact, 4),
        "recall_at_10": round(float(np.mean(recalls)), 4),
        "photos_stored_a_second": round(TIMED / seconds, 1),
        "index_s": round(indexed - stored, 1),
        "kilobytes_a_photo": round(rows[1] / arguments.photos / 1000, 1),
        "of_which_index": round(rows[2] / arguments.photos / 1000, 1),
        "postgresql": rows[3],
        "pgvector": rows[4],
        "load_average": round(os.getloadavg()[0], 1),
    }


def choose_queries(model: regiontalk.Model, real: list[StoredPhoto], count: int) -> list[str]:
    """Captions of which the model knows a word."""

    def is_known(caption: str) -> bool:
        return read_aligned(model.runtime, [caption])[0].read.says_something

    captions = sorted(
        {region.caption for photo in real for region in photo.regions if region.caption}
    )
    return list(
        itertools.islice(
            filter(is_known, np.random.default_rng(1).permutation(captions).tolist()), count
        )
    )


def ask(searcher: Searcher, query: str, exact: bool) -> tuple[Hits, float]:
    postgres_store.MAX_EXACT = 1 << 62 if exact else 0
    began = time.perf_counter()
    found = searcher.search(query, BEST, 0.0, Where())
    return found, time.perf_counter() - began


def made_up(
    real: list[StoredPhoto], vectors: list[Floats], states: Floats, count: int
) -> Iterator[Entry]:
    rng = np.random.default_rng(0)
    for number in range(count):
        one, other = rng.integers(len(real), size=2)
        own, rows = vectors[one], rng.integers(len(vectors[other]), size=len(vectors[one]))
        share = rng.uniform(0.5, 1, size=(len(own), 1))
        noise = rng.standard_normal(own.shape) * NOISE / np.sqrt(own.shape[1])
        mixed = share * own + (1 - share) * vectors[other][rows] + noise
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        said = tuple(
            region.caption for region in real[one].regions if region.caption and rng.random() < 0.7
        )
        file, digest = (
            PhotoFile(f"photos/{number:08d}.jpg", number, number),
            number.to_bytes(16, "big"),
        )
        about = (real[one].taken, real[one].size, real[one].regions, real[one].raw_scores, said)
        yield Entry(file, digest, *about, mixed.astype(np.float32), states[one])


if __name__ == "__main__":
    main()
