"""What is fitted to phrases that were looked for: known weights come back, and most that is not
there is not found."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.find import PhraseEvidence
from regiontalk.lab.evaluation.find import Sought, evaluate_find
from regiontalk.lab.fitting.find import conditional_logit, fit

TRUE = np.array([1.0, 3.0, 2.0])


def made_up(count: int, regions: int = 12) -> list[Sought]:
    """Phrases whose right region is drawn with the true weights; every other one is not there and
    fits less well."""
    chance, sought = np.random.default_rng(1), []
    for number in range(count):
        features, here = chance.normal(size=(regions, 3)), number % 2 == 0
        shares = np.exp(features @ TRUE)
        right = np.arange(regions) == chance.choice(regions, p=shares / shares.sum())
        photo_fit = float(chance.normal(1.0 if here else 0.0, 0.3))
        evidence = PhraseEvidence(photo_fit, *features.T)
        sought.append(Sought("", here, ("other",) if here else (), right & here, evidence))
    return sought


def test_the_weights_that_made_the_choices_come_back() -> None:
    chosen = [
        (one.evidence, one.right) for one in made_up(4000) if one.here and one.evidence is not None
    ]
    features = np.stack([np.stack(evidence[1:], axis=1) for evidence, _ in chosen])
    right = np.stack([right for _, right in chosen])
    assert conditional_logit(features, np.ones_like(right), right) == pytest.approx(TRUE, abs=0.3)


def test_the_fit_finds_regions_and_says_what_is_not_there() -> None:
    sought = made_up(1000)
    config = fit(sought)
    figures = evaluate_find(sought, config)
    assert figures["not_there"] == pytest.approx(0.8, abs=0.01)
    assert figures["found"] > 0.85
    best = np.mean(
        [
            one.right[one.evidence.choices(config).argmax()]
            for one in sought
            if one.here and one.evidence
        ]
    )
    assert figures["accuracy"] == pytest.approx(best)
    assert figures["expected_calibration_error"] < 0.1


def test_too_few_phrases_are_refused() -> None:
    with pytest.raises(DataError, match="find cannot be fitted"):
        fit([one for one in made_up(10) if one.here])
