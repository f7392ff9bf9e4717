"""What a ranking looks at, in cases worked out by hand; the scores it gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.decoding import Caption
from regiontalk.errors import UsageError
from regiontalk.ranking import FEATURES, Evidence, Ranking, features, scores, votes

WIDTH = len(FEATURES)
DOG, CAT = (3, 4), (3, 5)


def evidence(
    boxes: list[list[float]], better: list[float], said: list[tuple[int, ...]], size: tuple[int, int] = (100, 50)
) -> Evidence:
    """Regions with so many votes as their number says, counted from 1."""
    count = len(boxes)
    return Evidence(
        size=size,
        boxes_xyxy=np.array(boxes, dtype=np.float64).reshape(-1, 4),
        scores=np.array(better, dtype=np.float64),
        logits=np.linspace(2.0, -2.0, count),
        votes=np.arange(1, count + 1),
        captions=[Caption(tokens, (-0.5,) * (len(tokens) + 1)) for tokens in said],
    )


def column(found: np.ndarray, name: str) -> list[float]:
    values: list[float] = found[:, FEATURES.index(name)].tolist()
    return values


def ranking_by(**weights: float) -> Ranking:
    """The score is σ(the weighted sum of features that are not negative)."""
    row = tuple(weights.get(name, 0.0) for name in FEATURES)
    less = tuple(-value for value in row)
    return Ranking(FEATURES, (row, less), (0.0, 0.0), (1.0, -1.0), 0.0)


# A large region, one in its corner that sticks out by half, one that holds both, and one alone.
ROOM = evidence(
    [[0, 0, 40, 40], [30, 30, 50, 40], [0, 0, 60, 50], [80, 0, 100, 10]],
    [0.9, 0.5, 0.3, 0.1],
    [DOG, CAT, DOG, ()],
)


def test_places_are_shares_of_the_photo() -> None:
    found = features(ROOM)
    assert found.shape == (4, WIDTH)
    np.testing.assert_allclose(found[1, 3:8], [0.3, 0.6, 0.5, 0.8, 0.04])


def test_words_votes_and_scores_stand_for_themselves() -> None:
    found = features(ROOM)
    assert column(found, "final_logit") == ROOM.logits.tolist()
    assert column(found, "mean_logprob") == [-0.5] * 4
    assert column(found, "words") == [2, 2, 2, 0]
    assert column(found, "votes") == [0.0, math.log(2), math.log(3), math.log(4)]


def test_only_better_regions_are_rivals() -> None:
    found = features(ROOM)
    np.testing.assert_allclose(column(found, "inside_better"), [0, 0.5, 1600 / 3000, 0])
    np.testing.assert_allclose(column(found, "around_better"), [0, 100 / 1600, 1.0, 0])


def test_words_are_said_before_by_a_better_region_in_the_same_place_alone() -> None:
    np.testing.assert_allclose(column(features(ROOM), "said_before"), [0, 0, 1.0, 0])
    other = ROOM._replace(captions=[ROOM.captions[1], *ROOM.captions[1:]])
    np.testing.assert_allclose(column(features(other), "said_before"), [0, 0.5, 0, 0])


def test_equal_scores_are_not_better_than_each_other() -> None:
    twins = evidence([[0, 0, 10, 10]] * 2, [0.5, 0.5], [DOG, DOG])
    assert column(features(twins), "inside_better") == [0, 0]


boxes = st.tuples(*[st.integers(0, 40)] * 4).map(lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]])
regions = st.lists(st.tuples(boxes, st.integers(0, 3), st.sampled_from([DOG, CAT, ()])), max_size=8)


def evidence_of(drawn: list[Any], scale: int = 1) -> Evidence:
    return evidence(
        [[scale * value for value in box] for box, _, _ in drawn],
        [better / 4 for _, better, _ in drawn],
        [said for _, _, said in drawn],
        (80 * scale, 80 * scale),
    )


@given(regions, st.integers(2, 50))
def test_scale_does_not_matter(drawn: list[Any], scale: int) -> None:
    np.testing.assert_allclose(features(evidence_of(drawn, scale)), features(evidence_of(drawn)), atol=1e-12)


@given(regions, st.randoms())
def test_order_does_not_matter(drawn: list[Any], random: Any) -> None:
    known, places = evidence_of(drawn), list(range(len(drawn)))
    random.shuffle(places)
    arrays = (known.boxes_xyxy, known.scores, known.logits, known.votes)
    shuffled = Evidence(known.size, *(array[places] for array in arrays), [known.captions[place] for place in places])
    by = ranking_by(said_before=1.0, inside_better=-2.0, final_logit=0.5)
    assert np.array_equal(features(shuffled), features(known)[places])
    assert np.array_equal(scores(features(shuffled), by), scores(features(known), by)[places])


@given(regions)
def test_whatever_the_boxes_features_are_finite_and_scores_between_0_and_1(drawn: list[Any]) -> None:
    found = features(evidence_of(drawn))
    assert found.shape == (len(drawn), WIDTH)
    assert np.isfinite(found).all()
    given_scores = scores(found, ranking_by(**dict.fromkeys(FEATURES, 1e300)))
    assert ((given_scores >= 0) & (given_scores <= 1)).all()


def test_votes_count_refined_proposals_in_the_same_place() -> None:
    refined = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [0, 0, 10, 7], [50, 50, 50, 60]], dtype=np.float32)
    assert votes(refined[[0, 3]], refined).tolist() == [2, 1]
    assert votes(refined[:0], refined).tolist() == []


def test_the_score_is_that_of_the_net() -> None:
    values = np.arange(2.0 * WIDTH).reshape(2, WIDTH) / WIDTH
    generator = np.random.default_rng(1)
    weights, biases, outputs = generator.normal(size=(3, WIDTH)), generator.normal(size=3), generator.normal(size=3)
    net = Ranking(FEATURES, tuple(map(tuple, weights.tolist())), tuple(biases.tolist()), tuple(outputs.tolist()), -0.5)
    expected = 1 / (1 + np.exp(-(np.maximum(values @ weights.T + biases, 0) @ outputs - 0.5)))
    np.testing.assert_allclose(scores(values, net), expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features": FEATURES[1:]}, "other features"),
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
