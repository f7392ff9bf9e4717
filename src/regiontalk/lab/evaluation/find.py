"""`find` on phrases that people wrote for boxes: how often the best region is theirs, and how often
a phrase of another photo is reported as absent.

A phrase is absent if none of its content words occurs in what people wrote about the photo.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.inference import find as finder
from regiontalk.inference.calibration import Scores, Verdicts
from regiontalk.inference.find import PhraseEvidence
from regiontalk.inference.phrases import read_phrases
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.grounding import RIGHT_IOU
from regiontalk.lab.evaluation.intervals import bootstrap_shares
from regiontalk.lab.evaluation.reliability import Judged, summary
from regiontalk.language.vocabulary import FUNCTION_WORDS, clean_karpathy
from regiontalk.model import Model
from regiontalk.models.settings import FindConfig
from regiontalk.results import BoxXYXY, Region
from regiontalk.search.find import gather_stored


class Sought(NamedTuple):
    """A phrase that was looked for in a photo."""

    image: str
    here: bool
    types: tuple[str, ...]
    right: Verdicts
    """(R,) which regions have an IoU of at least 0.5 with a true box; none if it is not there."""
    evidence: PhraseEvidence | None
    """What was computed for the phrase; None where the model knows none of its words."""

    def probabilities(self, config: FindConfig) -> Scores:
        """(R,)"""
        return (
            np.zeros(len(self.right))
            if self.evidence is None
            else self.evidence.probabilities(config)
        )


def content_words(text: str) -> frozenset[str]:
    return frozenset(clean_karpathy(text)) - FUNCTION_WORDS


def written_words(record: Record, regions: Sequence[TrueRegion] | None = None) -> frozenset[str]:
    """All content words that people wrote about a photo, in sentences and about `regions` (default:
    all)."""
    phrases = [region.phrase for region in (record.regions if regions is None else regions)]
    return content_words(" ".join([*record.sentences, *phrases]))


def phrases_of_others(records: Sequence[Record]) -> Mapping[str, list[str]]:
    """Phrases that are not in a photo, from the photos after it: for each photo as many as it
    has."""
    drawn = {}
    for place, record in enumerate(records):
        written = written_words(record)
        wanted = len(record.regions)
        every_region = chain.from_iterable(after.regions for after in _after(records, place))
        others = (region.phrase for region in every_region if region.phrase)
        absent = (
            phrase for phrase in others if (words := content_words(phrase)) and not words & written
        )
        drawn[record.image] = [phrase for _, phrase in zip(range(wanted), absent, strict=False)]
    return drawn


def _after(records: Sequence[Record], place: int) -> Iterator[Record]:
    return (records[(place + step) % len(records)] for step in range(1, len(records)))


class Asked(NamedTuple):
    """A phrase to look for in a photo."""

    phrase: str
    boxes_xyxy: Sequence[BoxXYXY]
    """The true boxes, in the record's pixels; none if it is not there."""
    types: tuple[str, ...] = ()


def phrases_to_ask(record: Record, absent: Sequence[str]) -> list[Asked]:
    """The phrases of a photo's regions, and absent ones."""
    asked = []
    for region in record.regions:
        if region.phrase.strip():
            types = tuple((region.type or "other").split("/"))
            asked.append(Asked(region.phrase, [region.xyxy], types))
    return [*asked, *(Asked(phrase, []) for phrase in absent)]


def seek(
    model: Model,
    image: str,
    asked: Sequence[Asked],
    regions: RegionTable,
    stored: Sequence[Region] | None = None,
) -> list[Sought]:
    """Looks for phrases among regions in the record's pixels, exactly as `Model.find` does; or,
    with the same regions as an index has them `stored`, as `Index.find` does."""
    read = read_phrases(model.runtime, [one.phrase for one in asked])
    readable = [phrase for phrase in read if phrase.read.says_something]
    if stored is None:
        gathered = iter(finder.gather(model.runtime, readable, regions))
    else:
        gathered = iter(gather_stored(model.runtime, readable, regions, stored))
    sought = []
    for one, phrase in zip(asked, read, strict=True):
        is_near = geometry.iou(regions.boxes_xyxy, one.boxes_xyxy) >= RIGHT_IOU
        right: Verdicts = np.logical_or.reduce(is_near, axis=1)
        evidence = next(gathered) if phrase.read.says_something else None
        sought.append(Sought(image, bool(one.boxes_xyxy), one.types, right, evidence))
    return sought


def evaluate_find(sought: Iterable[Sought], config: FindConfig) -> dict[str, Any]:
    """`accuracy`: the share of phrases whose best region is right; `found`: that are reported as
    present; `not_there`: the share of other photos' phrases that are not;
    `expected_calibration_error` of the best score; `intervals` of 95 %, over photos."""
    right: list[bool] = []
    every: list[float] = []
    scores: dict[bool, list[float]] = {True: [], False: []}
    photos: dict[bool, list[str]] = {True: [], False: []}
    right_here: list[bool] = []
    types: dict[str, list[bool]] = defaultdict(list)
    for result in sought:
        likely = result.probabilities(config)
        right.append(result.evidence is not None and bool(result.right[likely.argmax()]))
        every.append(float(likely.max()))
        scores[result.here].append(every[-1])
        photos[result.here].append(result.image)
        right_here += [right[-1]] * result.here
        for name in result.types:
            types[name].append(right[-1])
    if not scores[True]:
        raise DataError("no phrase to look for", hint="records of Flickr30k Entities have them")
    here = np.array(scores[True])
    absent = np.array(scores[False])
    reported = (here >= config.likely).tolist()
    rejected = (absent < config.likely).tolist()
    best = Judged(np.array(every), np.array(right), 1)
    intervals = bootstrap_shares(photos[True], {"accuracy": right_here, "found": reported})
    if rejected:
        intervals |= bootstrap_shares(photos[False], {"not_there": rejected})
    return {
        "accuracy": float(np.mean(right_here)),
        "found": float(np.mean(reported)),
        "not_there": float(np.mean(rejected)) if rejected else None,
        "expected_calibration_error": summary(best, best.scores)["expected_calibration_error"],
        "phrases": len(here),
        "phrases_not_there": len(absent),
        "types": {
            name: {"accuracy": float(np.mean(verdicts)), "phrases": len(verdicts)}
            for name, verdicts in sorted(types.items())
        },
        "intervals": intervals,
    }
