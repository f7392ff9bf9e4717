"""A confidence learns which captions are right, on photos whose true regions are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.confidence import probabilities
from regiontalk.lab.evaluation.reliability import expected_error, reliability
from regiontalk.lab.fitting.confidence import (
    CUTS,
    LONGERS,
    MAX_TRIED_WORDS,
    RIGHT_SHARE,
    JudgedCaptions,
    fit,
    fit_and_check,
    report,
    what_is_said,
)
from regiontalk.models.settings import CONFIDENCE_FEATURES, MIN_LONGER_PROB

LEAST, MEAN, WORDS, AGREES = (
    CONFIDENCE_FEATURES.index(name) for name in ("least_logprob", "mean_logprob", "words", "agrees")
)


def photo(seed: int, lengths: bool = False, harm: float = 0.0) -> JudgedCaptions:
    """Six regions whose own captions of two words are right as often as σ(3 + the least likely
    word's log-probability); with `lengths`, also captions of six words, of a log-probability that
    is less by `harm`. These add a word, which is true if the mean of their log-probabilities is
    more than -0.7."""
    generator = np.random.default_rng(seed)
    count = 12 if lengths else 6
    own = np.arange(count) < 6
    values = generator.normal(size=(count, len(CONFIDENCE_FEATURES)))
    values[:, LEAST], values[:, MEAN] = (
        -generator.exponential(2, count),
        -generator.uniform(0, 1, count),
    )
    values[:, AGREES], values[:, WORDS] = 1, np.where(own, 2, MAX_TRIED_WORDS)
    values[6:, LEAST] = values[: count - 6, LEAST] - harm
    right = np.tile(generator.random(6), count // 6) < sigmoid(3 + values[:, LEAST])
    added = np.stack([~own, ~own & (values[:, MEAN] > -0.7)], axis=1).astype(np.intp)
    return JudgedCaptions(np.arange(count) % 6, own, values, right, added)


def test_a_fit_finds_what_verdicts_were_drawn_from() -> None:
    found = fit([photo(seed) for seed in range(1000)])
    fresh = photo(5000)
    np.testing.assert_allclose(
        probabilities(fresh.features, found), sigmoid(3 + fresh.features[:, LEAST]), atol=0.06
    )


def test_figures_are_those_of_other_photos() -> None:
    photos = [photo(seed) for seed in range(300)]
    found, [sure] = fit_and_check([photos])
    one, right = np.concatenate(sure), np.concatenate([photo.right for photo in photos])
    figures = report(photos, sure, found)
    assert figures["expected_calibration_error"] == pytest.approx(
        expected_error(reliability(one, right))
    )
    assert figures["expected_calibration_error"] < 0.05
    assert (figures["photos"], figures["captions"]) == (300, 1800)
    assert all(
        np.abs(ours - probabilities(photo.features, found)).max() > 0
        for photo, ours in zip(photos, sure, strict=True)
    )


def test_most_of_what_is_shown_is_right() -> None:
    photos = [photo(seed) for seed in range(300)]
    found, [sure] = fit_and_check([photos])
    figures = report(photos, sure, found)
    assert figures["right"] >= RIGHT_SHARE > figures["all_right"]
    lower = report(photos, sure, replace(found, likely=found.likely - 0.05))
    assert found.likely == pytest.approx(CUTS[0]) or lower["right"] < RIGHT_SHARE


def test_most_of_what_is_shown_is_right_on_every_data_set() -> None:
    """One whose captions are right less often than they seem is not made up for by an easy one."""
    easy = [photo(seed) for seed in range(600)]
    hard = [
        one._replace(right=one.right & (one.features[:, LEAST] > -2))
        for one in (photo(1000 + seed) for seed in range(200))
    ]
    found, sure = fit_and_check([easy, hard])
    alone, _ = fit_and_check([easy + hard])
    assert [len(own) for own in sure] == [len(easy), len(hard)]
    assert report(hard, sure[1], replace(found, likely=alone.likely))["right"] < RIGHT_SHARE
    assert report(hard, sure[1], found)["right"] >= RIGHT_SHARE
    assert found.likely > alone.likely


def test_longer_captions_must_be_likely_enough_for_half_of_their_words_to_be_true() -> None:
    found, _ = fit_and_check([[photo(seed, lengths=True) for seed in range(200)]])
    assert found.longer == pytest.approx(LONGERS[0])  # where more than half are true
    none_true = [
        one._replace(added=one.added * [1, 0])
        for one in (photo(seed, lengths=True) for seed in range(40))
    ]
    assert fit_and_check([none_true])[0].longer == MIN_LONGER_PROB, "nothing to learn from"


def test_what_is_said_is_as_often_right_as_its_confidence_tells() -> None:
    """Of a region's captions the surest is said: on average that is less often right than it
    seems."""

    def chosen_among(seed: int) -> JudgedCaptions:
        one = photo(seed, lengths=True)
        one.features[6:, LEAST] = -np.random.default_rng(seed + 10_000).exponential(
            2, 6
        )  # tells nothing
        one.features[6:, WORDS] = 1
        return one

    photos = [chosen_among(seed) for seed in range(500)]
    found, [sure] = fit_and_check([photos])
    said, right = what_is_said(photos, sure, found)
    assert said.mean() == pytest.approx(right.mean(), abs=0.01)


@pytest.mark.parametrize(("verdict", "said"), [(True, "all are"), (False, "none is")])
def test_verdicts_of_one_kind_are_refused(verdict: bool, said: str) -> None:
    one = photo(0)
    with pytest.raises(DataError, match=f"of 6 captions {said} right"):
        fit([one._replace(right=np.full(6, verdict))])
