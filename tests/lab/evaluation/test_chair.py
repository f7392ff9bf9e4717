from __future__ import annotations

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.chair import classes_shown, evaluate_chair, mentions

BOX = (0.0, 0.0, 9.0, 9.0)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Two dogs and a cat on a sofa.", ["dog", "cat", "couch"]),
        ("a man rides a motor bike", ["person", "motorcycle"]),
        ("a hot dog on a dining table", ["hot dog", "dining table"]),
        ("a baby elephant beside its mother", ["elephant", "person"]),
        ("a passenger train and a passenger", ["train", "person"]),
        ("a couple of dogs", ["dog"]),
        ("a couple on a bench", ["person", "bench"]),
        (
            "an orange and white cat with an orange ball and an orange",
            ["cat", "sports ball", "orange"],
        ),
        ("teddy bears in sunglasses", ["teddy bear"]),
        ("knives, forks and wine glasses", ["knife", "fork", "wine glass"]),
        ("a green field under the sky", []),
    ],
)
def test_mentions(sentence: str, expected: list[str]) -> None:
    assert [one.classes[0] for one in mentions(sentence)] == expected


def record(image: str, *objects: str, sentences: tuple[str, ...] = ()) -> Record:
    regions = tuple(TrueRegion(BOX, name, "object") for name in objects)
    return Record(image, 10, 10, sentences=sentences, regions=regions)


def test_shown_is_what_is_marked_and_what_people_mention() -> None:
    photo = record("a", "dog", sentences=("A man walks a puppy.",))
    assert classes_shown(photo) == {"dog", "person"}
    phrase = TrueRegion(BOX, "a red car", "vehicles")
    assert classes_shown(Record("b", 10, 10, regions=(phrase,))) == {"car"}


def test_by_hand() -> None:
    records = [
        record("a", "dog", "dog", "frisbee"),
        record("b", "cat", "handbag", sentences=("a cat on a couch",)),
        record("c"),  # nothing is known of it
        record("d", "car"),  # no sentence
    ]
    sentences = {
        "a": "a dog and a cat run after a cat",  # the cat is invented, twice
        "b": "a cat on a couch beside a bag",  # a handbag is a bag; the couch people mention
        "c": "a dog",
    }
    figures = evaluate_chair(records, sentences)
    assert figures["chair_i"] == pytest.approx(100 * 2 / 6)
    assert figures["chair_s"] == 50
    assert figures["recall"] == pytest.approx(100 * 3 / 4)  # of dog, frisbee, cat, handbag
    assert (figures["sentences"], figures["mentions"]) == (2, 6)
    assert figures["invented"] == {"cat": 2}
    assert figures["intervals"]["chair_s"] == [0, 100]


def test_nothing_to_judge() -> None:
    with pytest.raises(DataError, match="objects are known"):
        evaluate_chair([record("c")], {"c": "a dog"})
