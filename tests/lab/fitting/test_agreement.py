"""How likely captions and names are right, fitted on regions whose names are known."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.agreement import MIN_GAIN, probabilities
from regiontalk.inference.calibration import sigmoid
from regiontalk.lab.fitting.agreement import JudgedRegions, fit, fit_and_check, report
from regiontalk.models.settings import AGREEMENT_FEATURES


def photo(seed: int, name_bias: float = 0.0, regions: int = 6) -> JudgedRegions:
    """Regions whose captions are right as often as the caption's confidence says, and whose names,
    where they disagree, as often as σ(the name's logit + `name_bias`)."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(regions, len(AGREEMENT_FEATURES)))
    values[:, 3] = 1
    values[:, 4] = random.random(regions) < 0.4
    caption_right = random.random(regions) < sigmoid(values[:, 0])
    name_right = random.random(regions) < sigmoid(values[:, 1] + name_bias)
    return JudgedRegions(values, caption_right, name_right, 1.0)


def test_a_fit_finds_what_verdicts_were_drawn_from() -> None:
    fitted = fit([photo(seed) for seed in range(1500)])
    fresh = photo(5000, regions=50)
    by_caption, by_name = probabilities(fresh.features, fitted)
    np.testing.assert_allclose(by_caption, sigmoid(fresh.features[:, 0]), atol=0.08)
    disagree = fresh.features[:, 4] == 0
    np.testing.assert_allclose(by_name[disagree], sigmoid(fresh.features[disagree, 1]), atol=0.08)


def test_a_name_is_said_where_it_disagrees_and_is_clearly_likelier() -> None:
    fitted = fit([photo(seed) for seed in range(500)])
    made = photo(7, regions=200)
    confidences, right = made.said(fitted)
    by_caption, by_name = probabilities(made.features, fitted)
    disagree = made.features[:, 4] == 0
    names_said = disagree & (by_name > by_caption + MIN_GAIN)
    assert 10 < names_said.sum() < disagree.sum()
    np.testing.assert_array_equal(confidences, np.where(names_said, by_name, by_caption))
    np.testing.assert_array_equal(right[names_said], made.name_right[names_said])
    assert right.mean() > made.caption_right.mean()


def test_data_sets_count_the_same_however_large() -> None:
    """A small data set on which names are always better moves the numbers as much as a large
    one on which they are worse."""
    large = [photo(seed, name_bias=-2) for seed in range(900)]
    small = [photo(seed, name_bias=2) for seed in range(2000, 2100)]
    fitted, parts = fit_and_check([large, small])
    assert [len(part) for part in parts] == [900, 100]
    assert abs(fitted.name_bias + fitted.name[3]) < 0.4  # the fourth feature is always 1
    unweighted = fit([*large, *small])
    assert unweighted.name_bias + unweighted.name[3] < -1


def test_the_line_leaves_three_of_four_right_on_every_data_set() -> None:
    datasets = [[photo(seed) for seed in range(300)], [photo(seed) for seed in range(300, 600)]]
    fitted, parts = fit_and_check(datasets)
    for part in parts:
        assert report(part, fitted)["right"] >= 0.75
    assert report(parts[0], fitted)["expected_calibration_error"] < 0.06


def test_too_few_disagreements_are_an_error() -> None:
    with pytest.raises(DataError, match="too few to fit"):
        fit([photo(1)])
