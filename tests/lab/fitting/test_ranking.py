"""A ranking learns what regions are worth: planted rules are found, targets are the evaluator's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.decoding import Caption
from regiontalk.inference.rank import ranking_features, ranking_scores
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.language import UnigramF1
from regiontalk.lab.fitting import ranking
from regiontalk.lab.fitting.cross_validation import cross_validated
from regiontalk.lab.fitting.ranking import RankedPhoto, fit, fit_photos, judge, targets
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import RANKING_FEATURES, PredictionConfig

WORDS = Vocabulary(("dog", "cat", "tree"), "karpathy")
RULES_ALONE = PredictionConfig(score="product")
Box = tuple[float, float, float, float]


def seen(
    truths: Sequence[tuple[Box, str]],
    found: Sequence[tuple[Box, str, float]],
    name: str = "a.jpg",
) -> RankedPhoto:
    record = Record(
        name, 100, 100, regions=tuple(TrueRegion(box, phrase) for box, phrase in truths)
    )
    sure = np.array([score for _, _, score in found])
    captions = [Caption(tuple(WORDS.encode(said.split())), (-1.0,)) for _, said, _ in found]
    regions = RegionTable(
        Frame((100, 100), (100, 100), (1.0, 1.0)),
        boxes_xyxy=np.array([box for box, _, _ in found], dtype=np.float64).reshape(-1, 4),
        scores=sure,
        logits=np.log(sure / (1 - sure)),
        votes=np.ones(len(found), dtype=np.intp),
        captions=tuple(captions),
    )
    return RankedPhoto(record, regions, tuple(said for _, said, _ in found))


def planted(count: int, seed: int = 0) -> list[RankedPhoto]:
    """Photos with a large thing, a wrong region inside it, and a right one of that size elsewhere
    that scores less."""
    generator = np.random.default_rng(seed)
    photos = []
    for number in range(count):
        x, y, side = (float(value) for value in generator.integers([0, 0, 12], [8, 40, 22]))
        large, within = (x, y, x + 45, y + 50), (x + 5, y + 5, x + 5 + side, y + 5 + side)
        alone = (70 - x, y, 70 - x + side, y + side)
        jitter = generator.uniform(-0.05, 0.05, 3)
        found = [
            (large, "dog", 0.9 + jitter[0]),
            (within, "cat", 0.7 + jitter[1]),
            (alone, "tree", 0.5 + jitter[2]),
        ]
        photos.append(seen([(large, "dog"), (alone, "tree")], found, f"{number:03}.jpg"))
    return photos


def test_a_region_is_worth_the_thresholds_it_passes() -> None:
    truth = [((0.0, 0.0, 50.0, 50.0), "dog"), ((60.0, 60.0, 90.0, 90.0), "cat")]
    found = [((0.0, 0.0, 50.0, 50.0), "dog", 0.5), ((60.0, 60.0, 90.0, 90.0), "tree", 0.5)]
    half = ((0.0, 0.0, 50.0, 26.0), "dog", 0.5)  # an IoU of 0.53 with the last pixel counted in
    (exact,), (wide,) = (
        targets([seen(truth, found)], UnigramF1()),
        targets([seen(truth, [half])], UnigramF1()),
    )
    assert exact.tolist() == [1.0, 0.0]
    assert wide.tolist() == pytest.approx([3 / 5])


def test_of_regions_that_want_one_truth_the_best_is_worth_something() -> None:
    truth = [((0.0, 0.0, 50.0, 50.0), "dog")]
    near, nearer, off = (0.0, 0.0, 50.0, 40.0), (0.0, 0.0, 50.0, 45.0), (80.0, 80.0, 90.0, 90.0)
    photo = seen(
        truth, [(near, "dog", 0.9), (nearer, "dog", 0.5), (nearer, "cat", 0.8), (off, "dog", 0.7)]
    )
    assert [value > 0 for value in targets([photo], UnigramF1())[0]] == [False, True, False, False]


def test_photos_without_regions_or_truths_are_worth_nothing() -> None:
    nothing, untrue = (
        seen([((0.0, 0.0, 5.0, 5.0), "dog")], []),
        seen([], [((0.0, 0.0, 5.0, 5.0), "dog", 0.5)]),
    )
    assert [values.tolist() for values in targets([nothing, untrue], UnigramF1())] == [[], [0.0]]


def test_a_planted_rule_is_found_and_beats_the_scores_on_other_photos() -> None:
    photos = planted(60)
    wanted = targets(photos, UnigramF1())
    rankings = cross_validated(list(zip(photos, wanted, strict=True)), fit_photos)
    none = [None] * len(photos)
    before = judge(photos, none, RULES_ALONE, WORDS, UnigramF1()).map
    after = judge(photos, rankings, RULES_ALONE, WORDS, UnigramF1()).map
    assert before < 0.85
    assert after > 0.99
    fresh = planted(10, seed=1)
    by = fit_photos(list(zip(photos, wanted, strict=True)))
    for photo in fresh:
        large, within, alone = ranking_scores(ranking_features(photo.regions), by)
        assert within < min(large, alone)


def test_gradients_are_those_of_the_loss() -> None:
    generator = np.random.default_rng(2)
    inputs, wanted = generator.normal(size=(9, 4)), generator.random(9)
    layers = [generator.normal(size=shape) for shape in ((4, 5), (5,), (5,), ())]

    def loss(layers: list[np.ndarray]) -> float:
        weights, biases, outputs, bias = layers
        logits = np.maximum(inputs @ weights + biases, 0) @ outputs + bias
        entropy = np.logaddexp(0, logits) - wanted * logits
        return float(
            entropy.mean() + ranking.WEIGHT_DECAY / 2 * ((weights**2).sum() + (outputs**2).sum())
        )

    for place, gradient in enumerate(ranking._gradients(layers, inputs, wanted)):
        for index in np.ndindex(layers[place].shape):
            change = np.zeros_like(layers[place])
            change[index] = 1e-6
            up, down = (
                [*layers[:place], layers[place] + way * change, *layers[place + 1 :]]
                for way in (1, -1)
            )
            assert np.asarray(gradient)[index] == pytest.approx(
                (loss(up) - loss(down)) / 2e-6, abs=1e-7
            )


def test_a_fit_is_the_same_every_time_and_does_not_mind_a_feature_that_never_changes() -> None:
    generator = np.random.default_rng(3)
    values = generator.normal(size=(200, len(RANKING_FEATURES))) * 100
    values[:, 4] = 7.0
    wanted = (values[:, 0] > 0).astype(np.float64)
    by = fit(values, wanted)
    assert by == fit(values.copy(), wanted.copy())
    assert ((ranking_scores(values, by) > 0.5) == (wanted > 0)).mean() > 0.95


def test_where_there_is_nothing_to_learn_it_is_said() -> None:
    nothing = seen([], [((0.0, 0.0, 5.0, 5.0), "dog", 0.5)])
    with pytest.raises(DataError, match="of 1 regions none is right"):
        fit_photos([(nothing, *targets([nothing], UnigramF1()))])
