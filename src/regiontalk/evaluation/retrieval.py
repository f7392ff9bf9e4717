"""Finding a photo from captions of its regions, and the regions from the captions (DenseCap section 4.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk import boxes
from regiontalk.data.records import Record
from regiontalk.errors import DataError
from regiontalk.evaluation.files import (
    BadLine,
    Problems,
    box_of,
    number_of,
    parse_object,
    read_lines,
)
from regiontalk.evaluation.ranking import Direction
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


def read_queries(path: Path) -> QuerySet:
    """The file that `sample_queries(...).to_dict()` makes."""
    try:
        data = json.loads(path.read_bytes())
        return QuerySet(
            images=tuple(str(image) for image in data["images"]),
            queries=tuple(_query(query) for query in data["queries"]),
        )
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, BadLine) as error:
        raise DataError(
            f"{path}: not a set of queries: {error!r}", hint="regiontalk evaluate queries makes one"
        ) from error


def _query(data: Mapping[str, Any]) -> Query:
    return Query(
        name=str(data["query"]),
        image=str(data["image"]),
        captions=tuple(str(caption["phrase"]) for caption in data["captions"]),
        boxes_xyxy=tuple(box_of(caption["xyxy"]) for caption in data["captions"]),
    )


def read_answers(path: Path, asked: QuerySet, problems: Problems) -> dict[str, Answer]:
    """Answers (`query`, `scores` or `ranking`, `groundings`), one a line."""
    queries = {query.name: query for query in asked.queries}
    found: dict[str, Answer] = {}
    for place, line in read_lines(path, problems):
        try:
            data = parse_object(line)
            name = str(data.get("query"))
            if name not in queries or name in found:
                raise BadLine(f"query {name!r} is {'repeated' if name in found else 'unknown'}")
            found[name] = _answer(data, queries[name], asked, place, problems)
        except BadLine as error:
            problems.add(place, f"{error}; skipped")
    missing = [name for name in queries if name not in found]
    if missing:
        problems.add(str(path), f"{len(missing)} queries have no answer (first: {missing[0]!r}); left out")
    return found


def _answer(data: Mapping[str, Any], query: Query, asked: QuerySet, place: str, problems: Problems) -> Answer:
    known = set(asked.images)
    scores = {image: score for image, score in _scores(data).items() if image in known}
    if len(scores) < len(known):
        problems.add(place, f"only {len(scores)} of {len(known)} images are scored; the others come last")
    groundings = data.get("groundings") or []
    if groundings and len(groundings) != len(query.captions):
        raise BadLine(f"{len(groundings)} groundings for {len(query.captions)} captions")
    return Answer(scores, tuple(None if box is None else box_of(box) for box in groundings))


def _scores(data: Mapping[str, Any]) -> dict[str, float]:
    """`scores` by image, or those that a `ranking` (best first) amounts to."""
    if isinstance(data.get("scores"), dict):
        return {image: number_of(score, f"the score of {image}") for image, score in data["scores"].items()}
    if isinstance(data.get("ranking"), list):
        return {str(image): -float(place) for place, image in enumerate(data["ranking"])}
    raise BadLine("neither 'scores' (image: score) nor 'ranking' (images, best first)")
