"""The weights of `align`: those that ground the phrases of made-up photos."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.alignment import SentenceEvidence
from regiontalk.lab.evaluation.alignment import AlignedSentence
from regiontalk.lab.evaluation.grounding import TrueMention
from regiontalk.lab.fitting.alignment import fit
from regiontalk.models.settings import AlignmentPredictionConfig

UNFITTED = AlignmentPredictionConfig(0.05, 24, "cosine")
REGIONS = 6
BOXES = np.array([(10.0 * number, 0.0, 10.0 * number + 8, 8.0) for number in range(REGIONS)])


def made_up(likelihood: float, place: float, photos: int = 40) -> list[list[AlignedSentence]]:
    """Two phrases of "a", an adjective and a noun, each on a region that the evidence speaks for so
    much, in stds; fits are noise."""
    chance, made = np.random.default_rng(3), []
    for _ in range(photos):
        fits, likelihoods = chance.normal(size=(2, 6, REGIONS))
        places = chance.normal(size=REGIONS)
        regions = chance.permutation(REGIONS)[:2]
        places[regions] += place
        for first, region in zip((0, 3), regions, strict=True):
            likelihoods[first : first + 3, region] += likelihood
        function = np.array([True, False, False] * 2)
        evidence = SentenceEvidence(fits, likelihoods, places, np.ones(6, dtype=bool), function)
        x0, y0, x1, y1 = BOXES[regions].T.tolist()
        truths = [
            TrueMention("", "", (3 * n, 3 * n + 3), (x0[n], y0[n], x1[n], y1[n]), ("other",))
            for n in (0, 1)
        ]
        made.append([AlignedSentence(evidence, tuple(range(6)), BOXES, tuple(truths))])
    return made


def test_what_knows_the_regions_gets_a_weight() -> None:
    found = fit(made_up(likelihood=3.0, place=1.0), UNFITTED)
    assert all(weight > 0 for weight in found["fitted"].values())
    assert set(found["fitted"]) == {"place_weight", "likelihood_weight", "phrase_beta"}
    assert (found["photos"], found["phrases"]) == (40, 80)
    for figure in ("accuracy", "chain"):
        assert found["before"][figure] < 0.4
        assert found["after"][figure] > 0.85, "on photos that it was not fitted on"


def test_weights_grow_with_the_fits() -> None:
    """An inner product may be any number; the same choices are made."""
    photos = made_up(likelihood=3.0, place=1.0)
    larger = [
        [one._replace(evidence=one.evidence._replace(fits=50 * one.evidence.fits)) for one in photo]
        for photo in photos
    ]
    found, scaled = fit(photos, UNFITTED), fit(larger, UNFITTED)
    assert scaled["after"] == found["after"]
    assert scaled["fitted"] == {
        name: pytest.approx(50 * weight) for name, weight in found["fitted"].items()
    }


def test_what_knows_nothing_gets_none() -> None:
    photos = made_up(likelihood=0.0, place=0.0)
    for photo in photos:
        for one in photo:
            one.evidence.likelihoods[:] = one.evidence.places[:] = 0
            for truth in one.truths:
                region = int(truth.xyxy[0] // 10)
                one.evidence.fits[truth.words[0] : truth.words[1], region] += 9
    assert set(fit(photos, UNFITTED)["fitted"].values()) == {0.0}


def test_records_without_phrases_are_refused() -> None:
    with pytest.raises(DataError, match="alignment cannot be fitted"):
        fit([[], []], UNFITTED)
