"""What taught words cost: captions with many of them against captions without, in turns; teaching
ten photos; and a search for a taught word in an index of made-up photos, which opens no photo.

The word book has --words made-up words with --examples region codes each: those of the example
photos, shaken. The photos of the lesson are the example photos, several times.

python benchmarks/teach.py --json
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import regiontalk
from regiontalk.inference.taught import SURE
from regiontalk.model import Model
from regiontalk.models.loading import with_book
from regiontalk.models.word_book import Example
from regiontalk.search.build import identify
from regiontalk.search.store import PhotoFile
from report import options_of, report
from search import fill
from turns import photo_bytes, take_turns

PHOTOS = sorted((Path(__file__).parents[1] / "examples" / "photos").glob("*.jpg"))
LESSON = 10  # photos


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--examples", type=int, default=10, help="of each word")
    parser.add_argument("--indexed", type=int, default=10_000, help="made-up photos")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    plain = regiontalk.load(words_book=False)
    with tempfile.TemporaryDirectory() as place:
        taught = with_book(plain, Path(place) / "many.npz")
        teach_many(taught, arguments.words, arguments.examples)
        out: dict[str, Any] = measure_captions(plain, taught, arguments.repeats)
        out["examples"] = arguments.words * arguments.examples
        out["lesson_seconds"] = measure_lesson(with_book(plain, Path(place) / "lesson.npz"))
        folder = Path(place) / "photos"
        out["search_seconds"] = measure_search(taught, folder, arguments.indexed)
        out["indexed"] = arguments.indexed
    report(out, arguments.json)


def teach_many(model: Model, words: int, examples: int) -> None:
    random = np.random.default_rng(0)
    seen = np.concatenate([model.codes(model.look(str(photo))).codes for photo in PHOTOS])
    rows = random.integers(len(seen), size=words).repeat(examples)
    shaken = seen[rows] + 0.3 * seen.std(axis=0) * random.normal(size=(len(rows), seen.shape[1]))
    made_up = [
        Example(f"word {number // examples}", f"{number}.jpg", (0.0, 0.0, 1.0, 1.0))
        for number in range(len(rows))
    ]
    codes = shaken.astype(np.float32)
    model.taught_to.file.change(lambda book: book.with_examples(made_up, codes))


def measure_captions(plain: Model, taught: Model, repeats: int) -> dict[str, float]:
    photo = photo_bytes()
    works = {"plain": lambda: plain(photo), "taught": lambda: taught(photo)}
    times = take_turns(works, repeats)
    return {
        "caption_ms": times["plain"],
        "caption_with_taught_words_ms": times["taught"],
        "ratio": times["taught"] / times["plain"],
    }


def measure_lesson(model: Model) -> float:
    photos = [str(PHOTOS[number % len(PHOTOS)]) for number in range(LESSON)]
    began = time.perf_counter()
    model.teach("word", photos)
    return time.perf_counter() - began


def measure_search(model: Model, folder: Path, count: int) -> float:
    """The median of five searches in an index that is open; the first one, which maps it, is not
    counted."""
    index = regiontalk.Index.open(folder, model=model)
    files = [PhotoFile(f"holiday/{number:07d}.jpg", number, number) for number in range(count)]
    fill(index.place, identify(replace(model, taught=None)), iter(files))
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        hits = index.search("word 1", threshold=SURE)
        seconds.append(time.perf_counter() - began)
    index.close()
    assert hits.searched == count
    return float(np.median(seconds[1:]))


if __name__ == "__main__":
    main()
