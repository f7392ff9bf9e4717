"""Finding a photo from captions of its regions, and the regions from the captions (DenseCap section
4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk import boxes
from regiontalk.errors import DataError
from regiontalk.io.files import read_json
from regiontalk.io.typed import WithMore, to_dataclass
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.files import LARGEST_PIXEL, Names, Problems, read_objects
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.lab.evaluation.ranking import recalls
from regiontalk.results import BoxXYXY

IOU_THRESHOLDS = (0.1, 0.3, 0.5)


@dataclass(frozen=True)
class Caption:
    phrase: str
    xyxy: BoxXYXY


@dataclass(frozen=True)
class Query:
    """Captions of one image and the boxes they were written for; `query` is its name."""

    query: str
    image: str
    captions: tuple[Caption, ...]


@dataclass(frozen=True)
class QuerySet:
    """The images to search and the queries. `dataclasses.asdict` of it is the file."""

    images: tuple[str, ...]
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Answer:
    """A model's score of every image for a query, and where in the source image it sees each
    caption."""

    scores: Mapping[str, float]
    groundings: tuple[BoxXYXY | None, ...] = ()


def sample_queries(
    records: Sequence[Record],
    images: int = 1000,
    queries: int = 100,
    captions: int = 4,
    seed: int = 0,
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
                str(number),
                record.image,
                tuple(Caption(caption.phrase, caption.xyxy) for caption in chosen),
            )
        )
    return QuerySet(tuple(record.image for record in picked), tuple(made))


def evaluate_retrieval(query_set: QuerySet, answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Figures over the queries that have an answer: recall and `iou@…` in percent, median rank and
    IoU; `intervals`: 95 % intervals of recall and median rank, over queries.

    A model that looks at whole images alone has no figures of IoU.
    """
    answered = [
        (query, answers[query.query]) for query in query_set.queries if query.query in answers
    ]
    if not answered:
        raise DataError("no query has an answer")
    ranks = np.array([_rank(*answer_pair, len(query_set.images)) for answer_pair in answered])
    figures: dict[str, Any] = recalls(ranks)
    intervals = bootstrap(len(ranks), lambda sample: recalls(ranks[sample]))
    overlaps = np.array(
        list(chain.from_iterable(_overlaps(*answer_pair) for answer_pair in answered))
    )
    if len(overlaps):
        figures |= {f"iou@{cut}": 100 * float((overlaps > cut).mean()) for cut in IOU_THRESHOLDS}
        figures |= {"median_iou": float(np.median(overlaps)), "captions": len(overlaps)}
    counts = {"queries": len(answered), "images": len(query_set.images)}
    return figures | counts | {"intervals": intervals}


def _rank(query: Query, answer: Answer, images: int) -> int:
    """Rank of the source image; a tie counts against it, and one without a score is last."""
    if query.image not in answer.scores:
        return images
    right_score = answer.scores[query.image]
    return sum(score >= right_score for score in answer.scores.values())


def _overlaps(query: Query, answer: Answer) -> list[float]:
    """IoU of each caption's grounding with its true box; 0 where a caption was not grounded."""
    pairs = zip(query.captions, answer.groundings, strict=True) if answer.groundings else ()
    return [
        0.0 if predicted is None else float(boxes.iou(true.xyxy, predicted)[0, 0])
        for true, predicted in pairs
    ]


def read_queries(path: Path) -> QuerySet:
    try:
        return to_dataclass(QuerySet, read_json(path), str(path))
    except DataError as error:
        raise DataError(
            error.message, hint="regiontalk evaluate queries makes a set of queries"
        ) from error


@dataclass(frozen=True)
class _Line(WithMore):
    query: Any
    """Text or a number."""
    scores: dict[str, float] | None = None
    ranking: tuple[str, ...] | None = None
    groundings: tuple[BoxXYXY | None, ...] | None = None


def read_answers(path: Path, query_set: QuerySet, problems: Problems) -> dict[str, Answer]:
    """Answers (`query`, `scores` or `ranking`, `groundings`), one a line."""
    queries = {query.query: query for query in query_set.queries}
    names = Names(dict.fromkeys(query_set.images))
    answers: dict[str, Answer] = {}
    for place, data in read_objects(path, problems):
        try:
            line = to_dataclass(_Line, data, place)
            name = str(line.query)
            if name not in queries or name in answers:
                raise DataError(
                    f"{place}: query {name!r} is {'repeated' if name in answers else 'unknown'}"
                )
            groundings = line.groundings or ()
            if groundings and len(groundings) != len(queries[name].captions):
                raise DataError(
                    f"{place}: {len(groundings)} groundings for {len(queries[name].captions)} "
                    "captions"
                )
            if any(max(map(abs, box)) > LARGEST_PIXEL for box in groundings if box):
                raise DataError(f"{place}: a grounding lies outside of any photo")
            given = _given_scores(line, place)
        except DataError as error:
            problems.skip(error)
            continue
        known = ((names.find(image, place), score) for image, score in given.items())
        scores = {image: score for image, score in known if image is not None}
        if len(scores) < len(query_set.images):
            problems.add(
                place,
                f"only {len(scores)} of {len(query_set.images)} images are scored; the others come "
                "last",
            )
        answers[name] = Answer(scores, groundings)
    missing = [name for name in queries if name not in answers]
    if missing:
        problems.add(
            str(path), f"{len(missing)} queries have no answer (first: {missing[0]!r}); left out"
        )
    return answers


def _given_scores(line: _Line, place: str) -> dict[str, float]:
    if line.scores is not None:
        return line.scores
    if line.ranking is None:
        raise DataError(
            f"{place}: neither 'scores' (image: score) nor 'ranking' (images, best first)"
        )
    return {image: -float(rank) for rank, image in enumerate(line.ranking)}
