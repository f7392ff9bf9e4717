"""What a ranking looks at, in cases worked out by hand; the scores it gives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_detections import FRAME, SETTINGS, TWO_AND_A_RIVAL
from regiontalk.errors import UsageError
from regiontalk.inference.calibration import calibrated, sigmoid
from regiontalk.inference.decoding import Caption
from regiontalk.inference.rank import (
    rank,
    ranking_features,
    ranking_scores,
    score,
    votes,
    without_repeats,
)
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import RANKING_FEATURES, Ranking

WIDTH = len(RANKING_FEATURES)
DOG, CAT = (3, 4), (3, 5)


def captioned(
    boxes: list[list[float]],
    better: list[float],
    said: list[tuple[int, ...]],
    size: tuple[int, int] = (100, 50),
) -> RegionTable:
    """Regions with so many votes as their number says, counted from 1."""
    count = len(boxes)
    return RegionTable(
        Frame(size, size, (1.0, 1.0)),
        boxes_xyxy=np.array(boxes, dtype=np.float64).reshape(-1, 4),
        scores=np.array(better, dtype=np.float64),
        logits=np.linspace(2.0, -2.0, count, dtype=np.float32),
        votes=np.arange(1, count + 1),
        captions=tuple(Caption(tokens, (-0.5,) * (len(tokens) + 1)) for tokens in said),
    )


def column(found: np.ndarray, name: str) -> list[float]:
    values: list[float] = found[:, RANKING_FEATURES.index(name)].tolist()
    return values


def ranking_by(**weights: float) -> Ranking:
    """The score is σ(the weighted sum of features that are not negative)."""
    row = tuple(weights.get(name, 0.0) for name in RANKING_FEATURES)
    less = tuple(-value for value in row)
    return Ranking(RANKING_FEATURES, (row, less), (0.0, 0.0), (1.0, -1.0), 0.0)


# A large region, one in its corner that sticks out by half, one that holds both, and one alone.
ROOM = captioned(
    [[0, 0, 40, 40], [30, 30, 50, 40], [0, 0, 60, 50], [80, 0, 100, 10]],
    [0.9, 0.5, 0.3, 0.1],
    [DOG, CAT, DOG, ()],
)


def test_places_are_shares_of_the_photo() -> None:
    found = ranking_features(ROOM)
    assert found.shape == (4, WIDTH)
    np.testing.assert_allclose(found[1, 3:8], [0.3, 0.6, 0.5, 0.8, 0.04])


def test_words_votes_and_scores_stand_for_themselves() -> None:
    found = ranking_features(ROOM)
    assert column(found, "final_logit") == ROOM.logits.tolist()
    assert column(found, "mean_logprob") == [-0.5] * 4
    assert column(found, "words") == [2, 2, 2, 0]
    np.testing.assert_allclose(column(found, "votes"), np.log([1, 2, 3, 4]), rtol=1e-12)


def test_only_better_regions_are_rivals() -> None:
    found = ranking_features(ROOM)
    np.testing.assert_allclose(column(found, "inside_better"), [0, 0.5, 1600 / 3000, 0])
    np.testing.assert_allclose(column(found, "around_better"), [0, 100 / 1600, 1.0, 0])


def test_words_are_said_before_by_a_better_region_in_the_same_place_alone() -> None:
    np.testing.assert_allclose(column(ranking_features(ROOM), "said_before"), [0, 0, 1.0, 0])
    other = replace(ROOM, captions=(ROOM.captions[1], *ROOM.captions[1:]))
    np.testing.assert_allclose(column(ranking_features(other), "said_before"), [0, 0.5, 0, 0])


def test_equal_scores_are_not_better_than_each_other() -> None:
    twins = captioned([[0, 0, 10, 10]] * 2, [0.5, 0.5], [DOG, DOG])
    assert column(ranking_features(twins), "inside_better") == [0, 0]


boxes = st.tuples(*[st.integers(0, 40)] * 4).map(lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]])
regions = st.lists(st.tuples(boxes, st.integers(0, 3), st.sampled_from([DOG, CAT, ()])), max_size=8)


def drawn_regions(drawn: list[Any], scale: int = 1) -> RegionTable:
    return captioned(
        [[scale * value for value in box] for box, _, _ in drawn],
        [better / 4 for _, better, _ in drawn],
        [said for _, _, said in drawn],
        (80 * scale, 80 * scale),
    )


@given(regions, st.integers(2, 50))
def test_scale_does_not_matter(drawn: list[Any], scale: int) -> None:
    np.testing.assert_allclose(
        ranking_features(drawn_regions(drawn, scale)),
        ranking_features(drawn_regions(drawn)),
        atol=1e-12,
    )


@given(regions, st.randoms())
def test_order_does_not_matter(drawn: list[Any], random: Any) -> None:
    known, places = drawn_regions(drawn), list(range(len(drawn)))
    random.shuffle(places)
    shuffled = known.take(np.array(places, dtype=np.intp))
    by = ranking_by(said_before=1.0, inside_better=-2.0, final_logit=0.5)
    assert np.array_equal(ranking_features(shuffled), ranking_features(known)[places])
    assert np.array_equal(
        ranking_scores(ranking_features(shuffled), by),
        ranking_scores(ranking_features(known), by)[places],
    )


@given(regions)
def test_whatever_the_boxes_features_are_finite_and_scores_between_0_and_1(
    drawn: list[Any],
) -> None:
    found = ranking_features(drawn_regions(drawn))
    assert found.shape == (len(drawn), WIDTH)
    assert np.isfinite(found).all()
    given_scores = ranking_scores(found, ranking_by(**dict.fromkeys(RANKING_FEATURES, 1e300)))
    assert ((given_scores >= 0) & (given_scores <= 1)).all()


def test_votes_count_refined_proposals_in_the_same_place() -> None:
    refined = np.array(
        [[0, 0, 10, 10], [0, 0, 10, 9], [0, 0, 10, 7], [50, 50, 50, 60]], dtype=np.float32
    )
    recognized = RegionTable(FRAME, np.zeros((4, 4)), np.zeros(4), input_xyxy=refined)
    assert votes(recognized.take(np.array([0, 3])), recognized, SETTINGS).tolist() == [2, 1]
    few = replace(SETTINGS, proposals=1)
    assert votes(recognized.take(np.array([0, 3])), recognized, few).tolist() == [1, 1]
    assert votes(recognized.first(0), recognized, SETTINGS).tolist() == []


def test_the_score_is_that_of_the_net() -> None:
    values = np.arange(2.0 * WIDTH).reshape(2, WIDTH) / WIDTH
    generator = np.random.default_rng(1)
    weights, biases, outputs = (
        generator.normal(size=(3, WIDTH)),
        generator.normal(size=3),
        generator.normal(size=3),
    )
    net = Ranking(
        RANKING_FEATURES,
        tuple(map(tuple, weights.tolist())),
        tuple(biases.tolist()),
        tuple(outputs.tolist()),
        -0.5,
    )
    expected = 1 / (1 + np.exp(-(np.maximum(values @ weights.T + biases, 0) @ outputs - 0.5)))
    np.testing.assert_allclose(ranking_scores(values, net), expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features": RANKING_FEATURES[1:]}, "other features"),
        ({"biases": (), "weights": (), "outputs": ()}, "not of shapes"),
        ({"biases": (0.0,)}, "not of shapes"),
        ({"weights": ((0.0,) * WIDTH, (0.0,))}, "not of shapes"),
        ({"weights": (0.0, 0.0)}, "not of shapes"),
        ({"outputs": (0.0, math.nan)}, "not a finite number"),
        ({"outputs": (0.0, "1")}, "not a finite number"),
        ({"output_bias": math.inf}, "not a finite number"),
    ],
)
def test_weights_that_make_no_net_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Ranking(**(vars(ranking_by()) | change))


WORDS = Vocabulary(("a", "dog", "cat"), "karpathy")
BIGGEST_FIRST = ranking_by(area=1.0)


class TestScore:
    captions = (Caption((3,), (-1.0,)), Caption((3, 4), (-2.0, -4.0)))
    regions = replace(
        TWO_AND_A_RIVAL.take(np.array([1, 2])), captions=captions, votes=np.array([2, 1])
    )

    def test_unlikely_words_lower_it(self) -> None:
        expected = sigmoid(np.array([2.0, 0.0])) * np.exp([0.5 * -1 / 2, 0.5 * -6 / 3])
        found = score(self.regions, replace(SETTINGS, caption_weight=0.5))
        np.testing.assert_allclose(found, expected)

    def test_a_ranking_takes_the_place_of_the_rules(self) -> None:
        settings = replace(SETTINGS, caption_weight=0.5, ranking=BIGGEST_FIRST)
        areas = np.array([40 * 36, 80 * 60]) / (200 * 100)
        np.testing.assert_allclose(score(self.regions, settings), sigmoid(areas))
        kept, scores = rank(self.regions, settings, WORDS)
        assert kept.tolist() == [1, 0]
        assert scores.tolist() == pytest.approx(sorted(sigmoid(areas), reverse=True))

    def test_calibration_comes_last(self) -> None:
        numbers = (0.5, 2.0, -1.0)
        raw = score(self.regions, SETTINGS)
        found = score(self.regions, replace(SETTINGS, calibration=numbers))
        assert np.array_equal(found, calibrated(raw, numbers))


def test_the_same_words_in_the_same_place_are_said_once() -> None:
    near, same, far = (10.0, 10.0, 50.0, 50.0), (12.0, 10.0, 50.0, 50.0), (60.0, 10.0, 90.0, 50.0)
    found = {
        "a tie": near,
        "tie": same,  # an article makes no other words
        "the tie": far,
        "a": same,
        "": far,
        "a line": (5.0, 5.0, 5.0, 9.0),
    }
    assert without_repeats(np.array(list(found.values())), list(found)).tolist() == [0, 2, 3]
    assert without_repeats(np.zeros((0, 4)), []).tolist() == []
