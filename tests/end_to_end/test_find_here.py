"""`find` says what a photo shows and what it does not, with the model of the package: a cat is no
giraffe, neither when the photo is looked at nor in an index."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import regiontalk
from regiontalk.model import Model

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
SHOWN = {"chelsea.jpg": "a cat", "jockey.jpg": "a horse"}
OTHER_ANIMALS = ("a giraffe", "an elephant", "a zebra", "a sheep")
OTHER_THINGS = ("an umbrella", "a pizza")


@pytest.fixture(scope="module")
def model() -> Model:
    return regiontalk.load(words_book=False)


@pytest.fixture(scope="module")
def index(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[regiontalk.Index]:
    folder = tmp_path_factory.mktemp("photos")
    for name in SHOWN:
        shutil.copy(PHOTOS / name, folder)
    index = regiontalk.Index.open(folder, model=model)
    index.update()
    yield index
    index.close()


@pytest.mark.parametrize(("name", "phrase"), SHOWN.items())
def test_what_is_there_and_what_is_not(model: Model, name: str, phrase: str) -> None:
    there, *absent = model.find(PHOTOS / name, [phrase, *OTHER_ANIMALS, *OTHER_THINGS])
    assert there.here
    assert [one.phrase for one in absent if one.here] == []
    assert max(one.closest for one in absent) < there.closest


def test_a_cat_is_no_dog(model: Model) -> None:
    assert not model.find(PHOTOS / "chelsea.jpg", "a dog").here


def test_an_index_says_the_same_of_animals(index: regiontalk.Index) -> None:
    for phrase in (*SHOWN.values(), *OTHER_ANIMALS, "a dog"):
        here = {Path(one.path).name for one in index.find(phrase) if one.here}
        assert here == {name for name, shown in SHOWN.items() if shown == phrase}, phrase
