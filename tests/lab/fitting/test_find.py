"""What is fitted to phrases that were looked for: known weights come back, and most that is not
there is not found."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.find import PhraseEvidence
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.find import Sought, evaluate_find
from regiontalk.lab.fitting.find import conditional_logit, fit, to_ask

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
    features = np.stack([np.stack(evidence[1:4], axis=1) for evidence, _ in chosen])
    right = np.stack([right for _, right in chosen])
    assert conditional_logit(features, np.ones_like(right), right) == pytest.approx(TRUE, abs=0.3)


def test_the_fit_finds_regions_and_says_what_is_not_there() -> None:
    sought = made_up(1000)
    config = fit([sought])
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


def named(sought: list[Sought]) -> list[Sought]:
    """The same phrases, half of them with names, which say what is there better than words do."""
    chance, changed = np.random.default_rng(2), []
    for number, one in enumerate(sought):
        assert one.evidence is not None
        shown = np.where(one.right, 0.9, chance.uniform(0.0, 0.1, len(one.right)))
        evidence = one.evidence._replace(shown=shown if number // 2 % 2 else None)
        changed.append(one._replace(evidence=evidence))
    return changed


def test_names_are_used_where_there_are_some() -> None:
    before = made_up(1000)
    sought = named(before)
    config = fit([sought])
    assert config.name > 0
    assert config.photo_name > 0
    figures, without = evaluate_find(sought, config), evaluate_find(before, fit([before]))
    assert figures["accuracy"] > without["accuracy"] + 0.1
    assert figures["found"] > without["found"]
    every = [one for one in sought if one.evidence and one.evidence.shown is not None]
    assert evaluate_find(every, fit([every]))["found"] > 0.95
    unnamed = fit([before])
    assert (unnamed.name, unnamed.photo_name, unnamed.name_bias) == (0.0, 0.0, 0.0)


def test_every_data_set_counts_the_same_and_has_its_absent_phrases_rejected() -> None:
    first, second = made_up(1000), named(made_up(200))
    config = fit([first, second])
    for own in (first, second):
        assert evaluate_find(own, config)["not_there"] >= 0.79
    assert fit([first, second]) == fit([second, first])
    assert config != fit([[*first, *second]]), "the larger one does not count more"


def test_photos_with_objects_are_asked_for_classes_and_others_for_phrases() -> None:
    def record(image: str, kind: str, *phrases: str) -> Record:
        box = (0.0, 0.0, 5.0, 5.0)
        regions = tuple(TrueRegion(box, phrase, kind) for phrase in phrases)
        return Record(image=image, width=10, height=10, split="dev", regions=regions)

    asked = to_ask(
        [
            record("a", "object", "dog", "dog", "cat"),
            record("b", "object", "bus", "car", "kite"),
            record("c", "people", "a small woman"),
            record("d", "other", "a red ball"),
        ]
    )
    assert [(one.phrase, len(one.boxes_xyxy)) for one in asked["a"][:2]] == [("dog", 2), ("cat", 1)]
    absent = asked["a"][2:]
    assert len(absent) == 2
    assert {one.phrase for one in absent} <= {"bus", "car", "kite"}
    assert not any(one.boxes_xyxy for one in absent)
    assert [one.phrase for one in asked["c"]] == ["a small woman", "a red ball"]


def test_too_few_phrases_are_refused() -> None:
    with pytest.raises(DataError, match="find cannot be fitted"):
        fit([[one for one in made_up(10) if one.here]])
