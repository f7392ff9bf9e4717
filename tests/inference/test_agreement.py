"""Captions and names of the same regions: which of them is said, and how sure it is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from made_up_detections import TWO_AND_A_RIVAL
from regiontalk.inference.agreement import agree, agrees, drop_same, features, probabilities
from regiontalk.inference.captions import to_regions
from regiontalk.inference.decoding import Caption
from regiontalk.inference.rank import drop_repeats, texts
from regiontalk.inference.regions import RegionTable
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import AGREEMENT_FEATURES, Agreement, PredictionConfig
from regiontalk.results import Name

WORDS = Vocabulary(("a", "dog", "puppy", "tent", "ramp", "red", "umbrella"))
NAMES = ("schipperke", "umbrella", "tent", "grass", "kite (bird)")
TABLE = NameTable(
    "detector",
    NAMES,
    ("dog", "umbrella", "tent", "grass", "bird"),
    np.eye(5, dtype=np.float32),
    np.zeros(5, dtype=np.float32),
)
# A caption is as sure as it was, and a name as its probability says.
PLAIN = Agreement((1.0, 0.0, 0.0, 0.0, 0.0), 0.0, (0.0, 1.0, 0.0, 0.0, 0.0), 0.0, likely=0.5)


def regions(
    captions: list[str], names: list[Name], confidences: list[float], codes: list[list[float]]
) -> RegionTable:
    rows = np.arange(len(captions))
    return replace(
        TWO_AND_A_RIVAL.take(rows),
        captions=tuple(
            Caption(tuple(WORDS.encode(text.split())), (-0.1,) * (len(text.split()) + 1))
            for text in captions
        ),
        confidences=np.array(confidences),
        names=tuple(names),
        codes=np.log(np.array(codes, dtype=np.float32)),
    )


UMBRELLA = [0.01, 0.9, 0.05, 0.02, 0.02]
DOG = [0.9, 0.01, 0.05, 0.02, 0.02]


def runtime(agreement: Agreement | None = PLAIN, names: NameTable | None = TABLE) -> Runtime:
    info = SimpleNamespace(prediction=PredictionConfig(agreement=agreement))
    return cast(Runtime, SimpleNamespace(info=info, names=names, words=WORDS))


def test_a_name_is_said_if_it_is_clearly_likelier_right() -> None:
    table = regions(
        ["a tent", "a red umbrella", "a tent"],
        [Name("umbrella", 0.9), Name("umbrella", 0.9), Name("umbrella", 0.9)],
        [0.5, 0.5, 0.65],
        [UMBRELLA, UMBRELLA, UMBRELLA],
    )
    found = agree(runtime(), table)
    assert found.called == (True, False, False)
    assert texts(found, WORDS) == ["an umbrella", "a red umbrella", "a tent"]
    assert found.confidences == pytest.approx([0.9, 0.5, 0.65])
    first, second, _ = to_regions(found, WORDS)
    assert (first.caption, first.logprob, first.confidence) == (
        "an umbrella",
        None,
        pytest.approx(0.9),
    )
    assert second.logprob == pytest.approx(-0.4)


def test_a_caption_that_means_the_same_stays() -> None:
    table = regions(["a puppy"], [Name("schipperke", 0.9)], [0.1], [DOG])
    found = agree(runtime(), table)
    assert texts(found, WORDS) == ["a puppy"]


@pytest.mark.parametrize(
    ("name", "said"), [("grass", "grass"), ("kite (bird)", "a kite"), ("umbrella", "an umbrella")]
)
def test_names_are_said_as_people_say_them(name: str, said: str) -> None:
    table = regions(["a ramp"], [Name(name, 0.9)], [0.1], [UMBRELLA])
    assert texts(agree(runtime(), table), WORDS) == [said]


def test_a_name_is_no_longer_than_asked_for() -> None:
    table = regions(["a tent"], [Name("umbrella", 0.9)], [0.1], [UMBRELLA])
    assert agree(runtime(), table, max_words=1).called == (False,)
    assert agree(runtime(), table, max_words=2).called == (True,)


def test_a_limit_of_words_does_not_change_what_is_called_by_its_name() -> None:
    """Else "an umbrella" would be said instead of "a red tent" where that is shorter than usual."""
    names = [Name("umbrella", 0.9)] * 2
    table = regions(["a tent", "a tent"], names, [0.1, 0.9], [UMBRELLA] * 2)
    limited = replace(
        table, usual_captions=table.captions[::-1], usual_confidences=np.array([0.9, 0.1])
    )
    assert agree(runtime(), table, max_words=5).called == (True, False)
    assert agree(runtime(), limited, max_words=5).called == (False, True)
    assert agree(runtime(), limited.take(np.array([1, 0])), max_words=5).called == (True, False)
    assert agree(runtime(), limited, max_words=1).called == (False, False)


def test_features_say_what_the_names_think_of_the_caption() -> None:
    table = regions(
        ["a red umbrella", "a tent", "a ramp"],
        [Name("umbrella", 0.9)] * 3,
        [0.5, 0.5, 0.5],
        [UMBRELLA] * 3,
    )
    captions = ["a red umbrella", "a tent", "a ramp"]
    values = features(table, captions, TABLE)
    column = AGREEMENT_FEATURES.index("noun_logit")
    expected = [np.log(0.9 / 0.1), np.log(0.05 / 0.95), 0.0]
    np.testing.assert_allclose(values[:, column], expected, atol=1e-5)
    assert values[:, AGREEMENT_FEATURES.index("noun_known")].tolist() == [1, 1, 0]
    assert agrees(values).tolist() == [True, False, False]


def test_probabilities_are_two_logistic_functions() -> None:
    values = np.array([[1.0, 2.0, 3.0, 1.0, 0.0]])
    fitted = Agreement((0.1, 0.2, 0.3, 0.4, 0.5), -1.0, (0.5, 0.4, 0.3, 0.2, 0.1), 0.5, 0.5)
    by_caption, by_name = probabilities(values, fitted)
    assert by_caption == pytest.approx([1 / (1 + np.exp(-(0.1 + 0.4 + 0.9 + 0.4 - 1)))])
    assert by_name == pytest.approx([1 / (1 + np.exp(-(0.5 + 0.8 + 0.9 + 0.2 + 0.5)))])


@pytest.mark.parametrize("without", [{"agreement": None}, {"names": None}])
def test_without_numbers_or_names_captions_stay(without: dict[str, Any]) -> None:
    table = regions(["a tent"], [Name("umbrella", 0.9)], [0.1], [UMBRELLA])
    assert agree(runtime(**without), table) is table


def test_a_name_and_a_better_caption_of_its_class_in_one_place_are_one_thing() -> None:
    """The first two boxes overlap; captions alone may say the same, as people's phrases do."""
    names = [Name("dog", 0.9)] * 3
    table = regions(["a puppy", "a ramp", "a ramp"], names, [0.9, 0.1, 0.1], [DOG] * 3)
    called = agree(runtime(), table)
    assert texts(called, WORDS) == ["a puppy", "a dog", "a dog"]
    kept = drop_same(called, WORDS)
    assert texts(kept, WORDS) == ["a puppy", "a dog"]
    assert kept.boxes_xyxy.tolist() == table.boxes_xyxy[[0, 2]].tolist()
    assert len(drop_same(agree(runtime(None), table), WORDS)) == 3
    captions = regions(["a dog", "a puppy", "a dog"], names, [0.9, 0.9, 0.9], [DOG] * 3)
    assert len(drop_same(agree(runtime(), captions), WORDS)) == 3


def test_regions_with_the_same_name_in_one_place_are_repeats() -> None:
    names = [Name("umbrella", 0.9), Name("umbrella", 0.9)]
    table = regions(["a tent", "a red umbrella"], names, [0.1, 0.9], [UMBRELLA, UMBRELLA])
    assert len(drop_repeats(agree(runtime(), table), WORDS)) == 2  # not the same words
    table = regions(["a tent", "a ramp"], names, [0.1, 0.1], [UMBRELLA, UMBRELLA])
    assert texts(drop_repeats(agree(runtime(), table), WORDS), WORDS) == ["an umbrella"]
