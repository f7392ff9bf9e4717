"""Statistics of a data set: numbers of images, regions and sentences, their lengths, and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from typing import Any

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, stream_records
from regiontalk.lab.data.writing import Counts
from regiontalk.language.vocabulary import SMALLEST_COUNT, clean_densecap, clean_karpathy

MOST_FREQUENT = 20


def count_dataset(
    folder: Path,
    split: str | None = None,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> dict[str, Any]:
    """Counts of a data set or one of its splits. Words are counted after K&FF's cleaning; `words`:
    distinct ones.

    `vocabulary`: the size of the papers' vocabularies for the training texts.
    """
    counts = Counts()
    regions_per_image = Counter[int]()
    phrase_lengths = Counter[int]()
    sentence_lengths = Counter[int]()
    words = Counter[str]()
    types = Counter[str]()
    karpathy = Counter[str]()
    densecap = Counter[str]()
    for record in track(stream_records(folder)):
        if split is not None and record.split != split:
            continue
        counts.add(record)
        regions_per_image[len(record.regions)] += 1
        sentences = [clean_karpathy(sentence) for sentence in record.sentences]
        phrases = [clean_karpathy(region.phrase) for region in record.regions]
        sentence_lengths.update(map(len, sentences))
        phrase_lengths.update(map(len, phrases))
        words.update(chain.from_iterable(sentences + phrases))
        types.update(region.type or "none" for region in record.regions)
        if record.split == "train":
            karpathy.update(chain.from_iterable(sentences))
            densecap.update(
                chain.from_iterable(
                    clean_densecap(region.phrase) or () for region in record.regions
                )
            )
    if not counts["images"]:
        raise DataError(
            f"{folder}: " + ("an empty data set" if split is None else f"no image in split {split}")
        )
    totals = counts.to_dict()
    return {
        **{name: totals[name] for name in ("images", "regions", "sentences")},
        "words": len(words),
        "word_occurrences": words.total(),
        "splits": totals["splits"],
        "regions_per_image": summary(regions_per_image),
        "words_per_phrase": summary(phrase_lengths),
        "words_per_sentence": summary(sentence_lengths),
        "types": dict(_ranked(types)),
        "frequent_words": dict(_ranked(words)[:MOST_FREQUENT]),
        "vocabulary": {
            "karpathy": frequent(karpathy, SMALLEST_COUNT["karpathy"]),
            "densecap": frequent(densecap, SMALLEST_COUNT["densecap"]),
        },
    }


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """Most frequent first, equal ones in alphabetical order."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def frequent(words: Counter[str], smallest_count: int) -> int:
    """How many words occur often enough, the END token counted with them; 0 where there is no
    text."""
    return sum(count >= smallest_count for count in words.values()) + 1 if words else 0


def summary(histogram: Counter[int]) -> dict[str, float] | None:
    """Smallest, median, mean and largest of the counted numbers; None if there are none."""
    if not histogram:
        return None
    numbers = sorted(histogram.elements())
    mean = round(fmean(numbers), 2)
    return {"min": numbers[0], "median": median(numbers), "mean": mean, "max": numbers[-1]}
