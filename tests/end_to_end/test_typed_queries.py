"""100 queries as people type them (`tests/search/typed_queries.toml`), over freely licensed photos,
with the model of the package: the right photo first, and an honest answer where no photo shows it."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import regiontalk
from regiontalk.results import Hits

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "tests/search/typed_queries.toml").read_text(encoding="utf-8"))
MIN_RIGHT_FIRST = 0.85
MIN_ABSENT = 0.80


class Answer(NamedTuple):
    query: str
    right: tuple[str, ...]
    """Names of the photos that show it."""
    hits: Hits

    @property
    def first(self) -> str:
        return Path(self.hits[0].path).stem if len(self.hits) else ""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[regiontalk.Index]:
    folder = tmp_path_factory.mktemp("typed")
    for photos in ("examples/photos", "docs/gallery/photos"):
        for photo in (ROOT / photos).glob("*.jpg"):
            shutil.copy(photo, folder)
    index = regiontalk.Index.open(folder)
    index.update(regiontalk.load())
    yield index
    index.close()


@pytest.fixture(scope="module")
def answers(index: regiontalk.Index) -> dict[str, list[Answer]]:
    """By kind of query."""
    return {
        kind: [
            Answer(one["query"], tuple(one.get("right", ())), index.search(one["query"]))
            for one in queries
        ]
        for kind, queries in TABLE.items()
    }


def test_there_are_a_hundred_of_all_kinds() -> None:
    assert {kind: len(queries) for kind, queries in TABLE.items()} == {
        "words": 30,
        "typos": 14,
        "synonyms": 19,
        "attributes": 19,
        "absent": 18,
    }
    names = {photo.stem for photo in (ROOT / "examples/photos").glob("*.jpg")}
    names |= {photo.stem for photo in (ROOT / "docs/gallery/photos").glob("*.jpg")}
    for kind, queries in TABLE.items():
        for one in queries:
            assert bool(one.get("right")) == (kind != "absent"), one
            assert set(one.get("right", ())) <= names, one


def test_the_right_photo_comes_first(answers: dict[str, list[Answer]]) -> None:
    asked = [one for kind, own in answers.items() if kind != "absent" for one in own]
    wrong = [f"{one.query}: {one.first}" for one in asked if one.first not in one.right]
    assert len(wrong) <= (1 - MIN_RIGHT_FIRST) * len(asked), wrong


def test_absent_things_are_said_to_be_absent(answers: dict[str, list[Answer]]) -> None:
    wrong = [f"{one.query}: {one.first}" for one in answers["absent"] if one.hits.likely]
    assert len(wrong) <= (1 - MIN_ABSENT) * len(answers["absent"]), wrong


def test_mistakes_are_corrected_and_all_words_are_known(answers: dict[str, list[Answer]]) -> None:
    for one in (one for own in answers.values() for one in own):
        assert one.hits.unknown == (), one.query
    for one in answers["typos"]:
        assert one.hits.corrected, one.query


def test_an_animal_is_no_other_animal(index: regiontalk.Index) -> None:
    """The cat looks a little like a dog: that neither makes it one, nor leaves it out."""
    likely = {Path(hit.path).stem for hit in index.search("a dog").likely}
    assert likely >= {"dogs", "hug"}
    assert not likely & {"chelsea", "jockey"}
    assert [Path(hit.path).stem for hit in index.search("cat -dog").likely] == ["chelsea"]
