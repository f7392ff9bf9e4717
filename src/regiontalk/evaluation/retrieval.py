"""Finding a photo from captions of its regions, and the regions from the captions (DenseCap section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk import boxes
from regiontalk.data.records import Record
from regiontalk.errors import DataError
from regiontalk.evaluation.files import Problems, read_objects
from regiontalk.evaluation.ranking import Direction
from regiontalk.files import REST, read_json, to_dataclass
from regiontalk.types import BoxXYXY

IOU_THRESHOLDS = (0.1, 0.3, 0.5)


@dataclass(frozen=True)
class Query:
    """Captions of one image and the boxes they were written for."""

    name: str
    image: str
    captions: tuple[str, ...]
    boxes_xyxy: tuple[BoxXYXY, ...]

    def to_dict(self) -> dict[str, Any]:
        captions = [
            {"phrase": phrase, "xyxy": list(box)} for phrase, box in zip(self.captions, self.boxes_xyxy, strict=True)
        ]
        return {"query": self.name, "image": self.image, "captions": captions}


@dataclass(frozen=True)
class QuerySet:
    """The images to search and the queries."""

    images: tuple[str, ...]
    queries: tuple[Query, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"images": list(self.images), "queries": [query.to_dict() for query in self.queries]}


@dataclass(frozen=True)
class Answer:
    """A model's score of every image for a query, and where in the source image it sees each caption."""

    scores: Mapping[str, float]
    groundings: tuple[BoxXYXY | None, ...] = ()


@dataclass(frozen=True)
class RetrievalResult:
    """Recall in percent; `grounding` is None for a model that looks at whole images alone."""

    ranking: Direction
    grounding: Grounding | None
    queries: int
    images: int

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = self.ranking.to_dict()
        out |= self.grounding.to_dict() if self.grounding else {}
        return out | {"queries": self.queries, "images": self.images}


@dataclass(frozen=True)
class Grounding:
    """Share of captions, in percent, whose box is found better than .1, .3, .5; and the median IoU."""

    recall: tuple[float, ...]
    median_iou: float
    captions: int

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {f"iou@{cut}": value for cut, value in zip(IOU_THRESHOLDS, self.recall, strict=True)}
        return out | {"median_iou": self.median_iou, "captions": self.captions}


def sample_queries(
    records: Sequence[Record], images: int = 1000, queries: int = 100, captions: int = 4, seed: int = 0
) -> QuerySet:
    """The paper's experiment: random images, and queries of random captions of one of them."""
    chance = np.random.default_rng(seed)
    picked = [records[n] for n in sorted(chance.permutation(len(records))[:images])]
    able = [record for record in picked if len(record.regions) >= captions]
    if not able:
        raise DataError(f"no image has {captions} regions to make a query from")
    made = []
    for number in range(queries):
        record = able[int(chance.integers(len(able)))]
        chosen = [record.regions[n] for n in chance.permutation(len(record.regions))[:captions]]
        made.append(
            Query(
                name=str(number),
                image=record.image,
                captions=tuple(region.phrase for region in chosen),
                boxes_xyxy=tuple(region.xyxy for region in chosen),
            )
        )
    return QuerySet(tuple(record.image for record in picked), tuple(made))


def evaluate_retrieval(asked: QuerySet, answers: Mapping[str, Answer]) -> RetrievalResult:
    """Figures over the queries that have an answer."""
    answered = [(query, answers[query.name]) for query in asked.queries if query.name in answers]
    if not answered:
        raise DataError("no query has an answer")
    ranks = np.array([_rank(query, answer, len(asked.images)) for query, answer in answered])
    overlaps = [iou for query, answer in answered for iou in _overlaps(query, answer)]
    return RetrievalResult(
        ranking=Direction.of_ranks(ranks),
        grounding=_grounding(overlaps) if overlaps else None,
        queries=len(answered),
        images=len(asked.images),
    )


def _rank(query: Query, answer: Answer, images: int) -> int:
    """Rank of the source image; a tie counts against it, and one without a score is last."""
    if query.image not in answer.scores:
        return images
    own = answer.scores[query.image]
    return sum(score >= own for score in answer.scores.values())


def _overlaps(query: Query, answer: Answer) -> list[float]:
    """IoU of each caption's grounding with its true box; 0 where a caption was not grounded."""
    if not answer.groundings:
        return []
    pairs = zip(query.boxes_xyxy, answer.groundings, strict=True)
    return [0.0 if found is None else float(boxes.iou(true, found)[0, 0]) for true, found in pairs]


def _grounding(overlaps: Sequence[float]) -> Grounding:
    values = np.array(overlaps)
    return Grounding(
        recall=tuple(100 * float((values > cut).mean()) for cut in IOU_THRESHOLDS),
        median_iou=float(np.median(values)),
        captions=len(values),
    )


@dataclass(frozen=True)
class _CaptionInFile:
    phrase: str
    xyxy: BoxXYXY


@dataclass(frozen=True)
class _QueryInFile:
    query: str
    image: str
    captions: tuple[_CaptionInFile, ...]


@dataclass(frozen=True)
class _QueriesInFile:
    images: tuple[str, ...]
    queries: tuple[_QueryInFile, ...]


@dataclass(frozen=True)
class _AnswerInFile:
    query: Any
    """Text or a number."""
    scores: dict[str, float] | None = None
    ranking: tuple[str, ...] | None = None
    groundings: tuple[BoxXYXY | None, ...] | None = None
    more: Mapping[str, Any] = field(default_factory=dict, metadata=REST)


def read_queries(path: Path) -> QuerySet:
    """The file that `sample_queries(...).to_dict()` makes."""
    try:
        stored = to_dataclass(_QueriesInFile, read_json(path), str(path))
    except DataError as error:
        raise DataError(error.message, hint="regiontalk evaluate queries makes a set of queries") from error
    return QuerySet(stored.images, tuple(_query(query) for query in stored.queries))


def _query(stored: _QueryInFile) -> Query:
    return Query(
        name=stored.query,
        image=stored.image,
        captions=tuple(caption.phrase for caption in stored.captions),
        boxes_xyxy=tuple(caption.xyxy for caption in stored.captions),
    )


def read_answers(path: Path, asked: QuerySet, problems: Problems) -> dict[str, Answer]:
    """Answers (`query`, `scores` or `ranking`, `groundings`), one a line."""
    queries = {query.name: query for query in asked.queries}
    found: dict[str, Answer] = {}
    for place, data in read_objects(path, problems):
        try:
            line = to_dataclass(_AnswerInFile, data, place)
            name = str(line.query)
            if name not in queries or name in found:
                raise DataError(f"{place}: query {name!r} is {'repeated' if name in found else 'unknown'}")
            found[name] = _answer(line, queries[name], asked, place, problems)
        except DataError as error:
            problems.skip(error)
    missing = [name for name in queries if name not in found]
    if missing:
        problems.add(str(path), f"{len(missing)} queries have no answer (first: {missing[0]!r}); left out")
    return found


def _answer(line: _AnswerInFile, query: Query, asked: QuerySet, place: str, problems: Problems) -> Answer:
    scores = line.scores
    if scores is None and line.ranking is not None:
        scores = {image: -float(rank) for rank, image in enumerate(line.ranking)}
    if scores is None:
        raise DataError(f"{place}: neither 'scores' (image: score) nor 'ranking' (images, best first)")
    known = set(asked.images)
    scores = {image: score for image, score in scores.items() if image in known}
    if len(scores) < len(known):
        problems.add(place, f"only {len(scores)} of {len(known)} images are scored; the others come last")
    groundings = line.groundings or ()
    if groundings and len(groundings) != len(query.captions):
        raise DataError(f"{place}: {len(groundings)} groundings for {len(query.captions)} captions")
    return Answer(scores, groundings)
