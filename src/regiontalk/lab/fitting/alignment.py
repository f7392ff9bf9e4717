"""The weights of `align` fitted on photos with phrases on boxes (K&FF eqs. 10–12).

One after another, each the best of a few: first those for vectors alone, by which search chooses
regions, then the language model's. A weight of evidence is the one that grounds most phrases whose
words choose together; a β, the one that grounds most phrases in the chain, which is not told what
the phrases are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.lab.evaluation.alignment import AlignedSentence
from regiontalk.lab.evaluation.grounding import choose_region, is_right, most_chosen
from regiontalk.lab.fitting.cross_validation import cross_validated
from regiontalk.lab.fitting.regression import rounded
from regiontalk.models.settings import AlignmentPredictionConfig


class Weight(NamedTuple):
    name: str
    tried: tuple[float, ...]
    """The values to try, in stds of the fits."""
    is_beta: bool


WEIGHTS = (
    Weight("place_weight", (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0), False),
    Weight("likelihood_weight", (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0), False),
    Weight("phrase_beta", (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0), True),
)


def fit(
    photos: Sequence[Sequence[AlignedSentence]], settings: AlignmentPredictionConfig
) -> dict[str, Any]:
    """What fits photos best, each with its sentences (`fitted`: weights by name); and figures,
    cross-validated."""
    sentences = list(chain.from_iterable(photos))
    phrases = sum(len(sentence.truths) for sentence in sentences)
    if not phrases:
        raise DataError(
            "alignment cannot be fitted: no phrases in the records",
            hint="phrases of entity_sentences",
        )
    fits = [sentence.evidence.fits for sentence in sentences]
    std = np.concatenate(
        [(matrix - matrix.mean(axis=1, keepdims=True)).ravel() for matrix in fits]
    ).std()  # within a photo

    @cache
    def right(settings: AlignmentPredictionConfig, by_chain: bool) -> NDArray[np.intp]:
        """(photos,) how many phrases of each are right."""
        return np.array(
            [sum(_right(sentence, settings, by_chain) for sentence in photo) for photo in photos]
        )

    def best(numbers: Sequence[int]) -> AlignmentPredictionConfig:
        """The best settings for some of the photos; of equal weights the smallest."""
        unweighted = dict.fromkeys((weight.name for weight in WEIGHTS), 0.0)
        chosen = replace(settings, **unweighted)  # type: ignore[arg-type]
        for weight in WEIGHTS:
            values = rounded(np.array(weight.tried) * std)
            tried = [
                replace(chosen, **{weight.name: value})  # type: ignore[arg-type]
                for value in values
            ]
            chosen = max(
                tried,
                key=lambda candidate: int(right(candidate, weight.is_beta)[list(numbers)].sum()),
            )
        return chosen

    every = range(len(photos))
    best_settings = best(every)
    others = cross_validated(every, best)
    shares = {
        name: {
            figure: sum(right(used, by_chain)[photo] for photo, used in enumerate(of_photos))
            / phrases
            for figure, by_chain in (("accuracy", False), ("chain", True))
        }
        for name, of_photos in {"before": [settings] * len(photos), "after": others}.items()
    }
    fitted = {weight.name: getattr(best_settings, weight.name) for weight in WEIGHTS}
    return {"photos": len(photos), "phrases": phrases, "fitted": fitted} | shares


def _right(sentence: AlignedSentence, settings: AlignmentPredictionConfig, by_chain: bool) -> int:
    """How many of its phrases."""
    words = list(sentence.places)
    evidence = sentence.evidence
    if by_chain:
        chain = evidence.align(settings)[words]
        regions = [most_chosen(chain, truth.words) for truth in sentence.truths]
    else:
        unary = evidence.unary(settings)[words]
        regions = [choose_region(unary, truth.words, None) for truth in sentence.truths]
    pairs = zip(sentence.boxes_xyxy[regions], sentence.truths, strict=True)
    return sum(bool(is_right(box[None], truth.xyxy)[0]) for box, truth in pairs)
