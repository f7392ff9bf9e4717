"""A model's answers to queries of several captions (DenseCap section 4.2).

How well a photo fits a caption, by one of three measures; a query's score is the mean over its captions:

    likelihood   the log-probability of the caption in the region where it is the highest (the paper's)
    alignment    how well the caption's words fit their best regions, on average (K&FF eq. 8, MaxSim)
    both         that fit, plus how likely the caption is, per word, in the region where `regiontalk find` finds it

The first and the last are costly. Photos are found by a quicker measure (a guess of the likelihood,
`likelihood.best_regions`; MaxSim), and the best `RERANKED` of each query are measured exactly. A guess is never too
high: a photo that is first among those is first of all, unless its guess was not among the best.

Where a caption is in the source photo: the region where it is likeliest; where its words fit best (the region's score
included, as in `regiontalk align`); where `find` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import finder, likelihood
from regiontalk.aligner import AlignmentHead
from regiontalk.evaluation.retrieval import Answer, Query, QuerySet
from regiontalk.finder import Phrase
from regiontalk.model import Model
from regiontalk.model_settings import FindConfig
from regiontalk.regions import Candidates

RERANKED = 100  # photos of each query
LIKELIHOOD = 0.4  # its weight beside the fit; of .05 to .8, .3 and .4 were best on 100 queries of dev photos
LATER = 1e6  # taken from the scores of the others, so that they come after those

Scores = NDArray[np.float64]


class Measured(NamedTuple):
    """How well a photo fits captions, and where."""

    scores: Scores
    """(P,)"""
    rows: NDArray[np.intp]
    """(P,)"""


def answer_queries(
    model: Model, asked: QuerySet, photos: Mapping[str, Candidates], by: str = "likelihood", grounded: bool = True
) -> dict[str, Answer]:
    """Name of a query -> its answer. `photos` are the candidate regions of all images, in the pixels of the captions'
    boxes; not `grounded`: whole photos have no place for a caption."""
    texts = list(dict.fromkeys(caption.phrase for query in asked.queries for caption in query.captions))
    phrases = {text: finder.to_phrase(model.runtime, text) for text in texts}
    quick = "alignment" if by == "both" else by
    first = {name: _measure(model, list(phrases.values()), seen, quick, exact=False) for name, seen in photos.items()}
    columns = np.stack([first[image].scores for image in asked.images])  # (images, P)
    places = {text: place for place, text in enumerate(texts)}
    found = {
        query.query: columns[:, [places[caption.phrase] for caption in query.captions]].mean(axis=1)
        for query in asked.queries
    }
    if by != "alignment":
        found = _rerank(model, asked, photos, phrases, found, by)
    answers = {}
    for query in asked.queries:
        scores = dict(zip(asked.images, found[query.query].tolist(), strict=True))
        answers[query.query] = Answer(scores, _ground(model, query, photos, phrases, by) if grounded else ())
    return answers


def _rerank(
    model: Model,
    asked: QuerySet,
    photos: Mapping[str, Candidates],
    phrases: Mapping[str, Phrase],
    found: Mapping[str, Scores],
    by: str,
) -> dict[str, Scores]:
    """Scores (images,) of each query, the best `RERANKED` photos measured exactly. A photo is measured once, for all
    queries that want it: their captions share beginnings."""
    best = {name: np.argsort(-scores, kind="stable")[:RERANKED] for name, scores in found.items()}
    again = {name: scores - LATER for name, scores in found.items()}
    for row, image in enumerate(asked.images):
        wanted = [query for query in asked.queries if row in best[query.query]]
        texts = list(dict.fromkeys(caption.phrase for query in wanted for caption in query.captions))
        if texts:
            measured = _measure(model, [phrases[text] for text in texts], photos[image], by)
            score = dict(zip(texts, measured.scores.tolist(), strict=True))
            for query in wanted:
                again[query.query][row] = np.mean([score[caption.phrase] for caption in query.captions])
    return again


def _ground(
    model: Model, query: Query, photos: Mapping[str, Candidates], phrases: Mapping[str, Phrase], by: str
) -> tuple[tuple[float, float, float, float], ...]:
    """The box of each caption in the query's own photo."""
    seen = photos[query.image]
    rows = _measure(model, [phrases[caption.phrase] for caption in query.captions], seen, by).rows
    return tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in seen.boxes_xyxy[rows].tolist())


def _measure(model: Model, phrases: Sequence[Phrase], seen: Candidates, by: str, exact: bool = True) -> Measured:
    if by == "likelihood":
        tokens = [phrase.tokens for phrase in phrases]
        return Measured(*likelihood.best_regions(model.runtime, seen.state, tokens, exact))
    if by == "alignment":
        prior = AlignmentHead(model.runtime).place_prior(seen.scores)
        fits = [finder.fits(phrase, seen) for phrase in phrases]
        return Measured(np.array([photo for photo, _ in fits]), np.array([(own + prior).argmax() for _, own in fits]))
    config = model.runtime.info.prediction.find or FindConfig()
    evidence = finder.gather(model.runtime, phrases, seen)
    rows = np.array([one.choices(config).argmax() for one in evidence])
    scores = [one.photo_fit + LIKELIHOOD * one.likelihoods[row] for one, row in zip(evidence, rows, strict=True)]
    return Measured(np.array(scores), rows)
