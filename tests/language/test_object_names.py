"""The table of names: whole, without contradictions, and read as people mean it."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from regiontalk.language.object_names import object_names, singulars

NAMES = object_names()
TABLE = tomllib.loads(
    (files("regiontalk.language") / "object_names.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    ("words", "classes"),
    [
        ("a man", ("person",)),
        ("two women", ("person",)),
        ("puppies", ("dog",)),
        ("a hot dog", ("hot dog",)),
        ("a dog bed", ()),
        ("three knives", ("knife",)),
        ("benches", ("bench",)),
        ("a geese", ("bird",)),
        ("reading glasses", ()),
        ("a glass", ("wine glass", "cup")),
        ("a bike", ("bicycle", "motorcycle")),
        ("a dirt bike", ("motorcycle",)),
        ("a train station", ()),
        ("an orange shirt", ()),
        ("a polar bear", ("bear",)),
        ("a stuffed teddy bear", ("teddy bear",)),
        ("skis", ("skis",)),
        ("a lighthouse", ()),
        ("", ()),
    ],
)
def test_the_longest_name_at_the_end_counts(words, classes):
    assert NAMES.classes_of(words.split()) == classes


def test_further_labels_count_by_their_own_name():
    assert NAMES.classes_of(["two", "lighthouses"], {"lighthouse"}) == ("lighthouse",)
    assert NAMES.classes_of(["a", "lap", "dog"], {"lap dog"}) == ("lap dog",)
    assert NAMES.classes_of(["a", "puppy"], {"puppy": 1}) == ("dog",)


def test_the_table_has_cocos_classes_and_only_names_that_do_something():
    assert len(TABLE["classes"]) == 80
    assert set(TABLE["classes"]) >= set(object_names().kinds)
    assert object_names().animals >= {"bird", "dog", "giraffe"}
    for name, others in TABLE["classes"].items():
        assert len({name, *others}) == 1 + len(others), name
    for name in TABLE["other"]["names"]:  # without the entry it would count as something
        *before, last = name.split()
        shorter = [
            NAMES.classes.get(" ".join([*before[start:], one]))
            for start in (1, 2)
            for one in singulars(last)
        ]
        assert any(shorter), name
    for name in TABLE["family"]["names"]:
        assert NAMES.classes[name] == ("person",)


def test_only_words_that_people_use_for_several_classes_stand_under_several():
    shared = {name for name, classes in NAMES.classes.items() if len(classes) > 1}
    assert shared == {
        "bag",
        "bike",
        "board",
        "computer",
        "glass",
        "jar",
        "pastry",
        "van",
        "vehicle",
    }
