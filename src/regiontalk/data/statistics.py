"""Statistics of a data set: numbers of images, regions and sentences, their lengths, and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from regiontalk.data.records import Record, stream_records
from regiontalk.data.writing import Counts
from regiontalk.errors import DataError
from regiontalk.vocabulary import SMALLEST_COUNT, clean_densecap, clean_karpathy

MOST_FREQUENT = 20


@dataclass
class Statistics:
    """The counts so far. Words are counted after K&FF's cleaning."""

    counts: Counts = field(default_factory=Counts)
    regions_per_image: Counter[int] = field(default_factory=Counter)
    phrase_words: Counter[int] = field(default_factory=Counter)
    sentence_words: Counter[int] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    training_sentences: Counter[str] = field(default_factory=Counter)
    training_phrases: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        self.counts.add(record)
        self.regions_per_image[len(record.regions)] += 1
        for sentence in record.sentences:
            self._add_text(sentence, self.sentence_words)
        for region in record.regions:
            self._add_text(region.phrase, self.phrase_words)
            self.types[region.type or "none"] += 1
        if record.split == "train":
            self._add_training_words(record)

    def _add_text(self, text: str, lengths: Counter[int]) -> None:
        words = clean_karpathy(text)
        self.words.update(words)
        lengths[len(words)] += 1

    def _add_training_words(self, record: Record) -> None:
        for sentence in record.sentences:
            self.training_sentences.update(clean_karpathy(sentence))
        for region in record.regions:
            self.training_phrases.update(clean_densecap(region.phrase) or ())

    def to_dict(self) -> dict[str, Any]:
        """`words`: distinct words. `vocabulary`: the size of the papers' vocabularies for the training texts."""
        counts = self.counts.to_dict()
        ranked = sorted(self.words.items(), key=lambda item: (-item[1], item[0]))
        types = sorted(self.types.items(), key=lambda item: (-item[1], item[0]))
        return {
            **{name: counts[name] for name in ("images", "regions", "sentences")},
            "words": len(self.words),
            "word_occurrences": self.words.total(),
            "splits": counts["splits"],
            "regions_per_image": summary(self.regions_per_image),
            "words_per_phrase": summary(self.phrase_words),
            "words_per_sentence": summary(self.sentence_words),
            "types": dict(types),
            "frequent_words": dict(ranked[:MOST_FREQUENT]),
            "vocabulary": {
                "karpathy": frequent(self.training_sentences, SMALLEST_COUNT["karpathy"]),
                "densecap": frequent(self.training_phrases, SMALLEST_COUNT["densecap"]),
            },
        }


def count_dataset(
    folder: Path,
    split: str | None = None,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> Statistics:
    statistics = Statistics()
    for record in track(stream_records(folder)):
        if split is None or record.split == split:
            statistics.add(record)
    if not statistics.counts["images"]:
        raise DataError(f"{folder}: " + ("an empty data set" if split is None else f"no image in split {split}"))
    return statistics


def frequent(words: Counter[str], smallest_count: int) -> int:
    """How many words occur often enough, the END token counted with them; 0 where there is no text."""
    return sum(count >= smallest_count for count in words.values()) + 1 if words else 0


def summary(histogram: Counter[int]) -> dict[str, float] | None:
    """Smallest, median, mean and largest of the counted numbers; None if there are none."""
    if not histogram:
        return None
    numbers = sorted(histogram.elements())
    return {
        "min": numbers[0],
        "median": median(numbers),
        "mean": round(fmean(numbers), 2),
        "max": numbers[-1],
    }
