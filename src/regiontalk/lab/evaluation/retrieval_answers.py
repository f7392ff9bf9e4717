"""A model's answers to queries of several captions (DenseCap section 4.2).

How well a photo fits a caption, by one of three measures; a query's score is the mean over its
captions:

    likelihood   the caption's log-probability in the region where it is the highest (the paper's)
    alignment    how well the caption's words fit their best regions, on average (K&FF eq. 8)
    both         log q(caption | photo) + λ log p(caption | region)

    log q(caption | photo) = τ F(caption, photo) − log Σₛ exp(τ F(s, photo))

p is the likelihood, in the region where `regiontalk find` finds the caption. F is the fit of
`alignment`. q compares the caption with what the model says of all photos that are searched: the
captions s of the whole photos and of their `CAPTIONED_REGIONS` best regions, each once. Otherwise
photos that fit every caption well come first too often (this is the inverted softmax of Smith et
al. 2017, or the querybank normalisation of Bogolin et al. 2022). So a photo's score depends on the
photos beside it.

The first and the last are costly. Photos are found by a quicker measure (a guess of the likelihood,
`inference.likelihood.best_regions`; q alone), and the best `MAX_RERANKED` of each query are
measured exactly. A guess of the likelihood is never too high: a photo that is first among those is
first of all, unless its guess was not among the best.

Where a caption is in the source photo: the region where it is likeliest; where its words fit best
(the region's score included, as in `regiontalk align`); where `find` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference import find as finder
from regiontalk.inference import likelihood
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.inference.captions import decode_captions
from regiontalk.inference.phrases import Phrase, to_phrase
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.evaluation.retrieval import Answer, Query, QuerySet
from regiontalk.model import Model
from regiontalk.models.settings import FindConfig

MAX_RERANKED = 100  # photos of each query
# Chosen on 1,200 queries of dev photos (docs/model-log.md); values near them are as good.
CAPTIONED_REGIONS = 20  # of 10, 20 and 30
FIT_SHARPNESS = 10.0  # τ, of 7, 10 and 14
LIKELIHOOD_WEIGHT = 0.5  # λ, of .3 to .7
UNSCORED_PENALTY = 1e6  # taken from the scores of the others, so that they come after those

Scores = NDArray[np.float64]


class Measured(NamedTuple):
    """How well a photo fits captions, and where."""

    scores: Scores
    """(P,)"""
    rows: NDArray[np.intp]
    """(P,)"""


def answer_queries(
    model: Model,
    query_set: QuerySet,
    photos: Mapping[str, RegionTable],
    by: str = "likelihood",
    grounded: bool = True,
) -> dict[str, Answer]:
    """Name of a query -> its answer. `photos` are the candidate regions of all images, in the
    pixels of the captions' boxes; not `grounded`: whole photos have no place for a caption."""
    every_caption = chain.from_iterable(query.captions for query in query_set.queries)
    texts = list(dict.fromkeys(caption.phrase for caption in every_caption))
    phrases = {text: to_phrase(model.runtime, text) for text in texts}
    first = {
        name: _measure(model, list(phrases.values()), seen, by, exact=False)
        for name, seen in photos.items()
    }
    columns = np.stack([first[image].scores for image in query_set.images])  # (images, P)
    usual = np.zeros(len(query_set.images))
    if by == "both":
        usual = _usual_fits(model, [photos[image] for image in query_set.images])
    places = {text: index for index, text in enumerate(texts)}
    scored = {}
    for query in query_set.queries:
        wanted = [places[caption.phrase] for caption in query.captions]
        scored[query.query] = columns[:, wanted].mean(axis=1) - usual
    if by != "alignment":
        scored = _rerank(model, query_set, photos, phrases, scored, usual, by)
    answers = {}
    for query in query_set.queries:
        scores = dict(zip(query_set.images, scored[query.query].tolist(), strict=True))
        answers[query.query] = Answer(
            scores, _ground(model, query, photos, phrases, by) if grounded else ()
        )
    return answers


def _rerank(
    model: Model,
    query_set: QuerySet,
    photos: Mapping[str, RegionTable],
    phrases: Mapping[str, Phrase],
    scored: Mapping[str, Scores],
    usual: Scores,
    by: str,
) -> dict[str, Scores]:
    """Scores (images,) of each query, the best `MAX_RERANKED` photos measured exactly. A photo is
    measured once, for all queries that want it: their captions share beginnings."""
    best = {
        name: np.argsort(-scores, kind="stable")[:MAX_RERANKED] for name, scores in scored.items()
    }
    again = {name: scores - UNSCORED_PENALTY for name, scores in scored.items()}
    for row, image in enumerate(query_set.images):
        wanted = [query for query in query_set.queries if row in best[query.query]]
        every_caption = chain.from_iterable(query.captions for query in wanted)
        texts = list(dict.fromkeys(caption.phrase for caption in every_caption))
        if texts:
            measured = _measure(model, [phrases[text] for text in texts], photos[image], by)
            score = dict(zip(texts, measured.scores.tolist(), strict=True))
            for query in wanted:
                fit = np.mean([score[caption.phrase] for caption in query.captions])
                again[query.query][row] = fit - usual[row]
    return again


def _usual_fits(model: Model, photos: Sequence[RegionTable]) -> Scores:
    """(images,) log Σₛ exp(τ F(s, photo)): how well each photo fits what the model says of all of
    them."""
    captions = chain.from_iterable(
        decode_captions(model.runtime, seen.first(1 + CAPTIONED_REGIONS).state) for seen in photos
    )
    texts = {model.runtime.words.decode(caption.tokens) for caption in captions}
    phrases = [to_phrase(model.runtime, text) for text in sorted(texts)]
    rows = []
    for regions in photos:
        rows.append([finder.fits(phrase, regions)[0] for phrase in phrases])
    usual: Scores = np.logaddexp.reduce(FIT_SHARPNESS * np.array(rows), axis=1)
    return usual


def _ground(
    model: Model,
    query: Query,
    photos: Mapping[str, RegionTable],
    phrases: Mapping[str, Phrase],
    by: str,
) -> tuple[tuple[float, float, float, float], ...]:
    """The box of each caption in the query's own photo."""
    seen = photos[query.image]
    rows = _measure(model, [phrases[caption.phrase] for caption in query.captions], seen, by).rows
    return tuple((x0, y0, x1, y1) for x0, y0, x1, y1 in seen.boxes_xyxy[rows].tolist())


def _measure(
    model: Model, phrases: Sequence[Phrase], seen: RegionTable, by: str, exact: bool = True
) -> Measured:
    """How well captions fit photos; not `exact`: by the quicker measure. For `both`, the term that
    is the same for all captions is left out."""
    if by == "likelihood":
        tokens = [phrase.tokens for phrase in phrases]
        return Measured(*likelihood.best_regions(model.runtime, seen.state, tokens, exact))
    if by == "alignment":
        prior = AlignmentHead(model.runtime).place_prior(seen.scores)
        fits = [finder.fits(phrase, seen) for phrase in phrases]
        return Measured(
            np.array([photo for photo, _ in fits]),
            np.array([(fit + prior).argmax() for _, fit in fits]),
        )
    config = model.runtime.info.prediction.find or FindConfig()
    evidence = finder.gather(model.runtime, phrases, seen, by_likelihood=exact)
    rows = np.array([photo_evidence.choices(config).argmax() for photo_evidence in evidence])
    photo_fits = np.array([photo_evidence.photo_fit for photo_evidence in evidence])
    per_word = np.array(
        [
            photo_evidence.likelihoods[row]
            for photo_evidence, row in zip(evidence, rows, strict=True)
        ]
    )
    words = np.array([len(phrase.tokens) + 1 for phrase in phrases])  # END included
    return Measured(FIT_SHARPNESS * photo_fits + LIKELIHOOD_WEIGHT * words * per_word, rows)
