"""The tables of words that mean the same, and what captions mean by them."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from regiontalk.language.object_names import object_names
from regiontalk.language.synonyms import caption_words, synonyms

TABLE = tomllib.loads((files("regiontalk.language") / "synonyms.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("word", "counts", "does_not"),
    [
        ("people", {"man", "girl", "person"}, {"dog"}),
        ("dogs", {"dog", "puppy"}, {"cat"}),
        ("puppy", {"puppy", "dog"}, {"terrier"}),
        ("baby", {"baby"}, {"person", "man"}),
        ("child", {"child", "kid", "girl", "toddler"}, {"man", "person"}),
        ("kids", {"child", "girl", "toddler"}, {"person"}),
        ("blossom", {"flower", "tulip"}, {"tree"}),
        ("ocean", {"ocean", "sea"}, {"lake"}),
        ("animals", {"dog", "zebra"}, {"person"}),
        ("snow", {"snow"}, {"person"}),
        ("glasses", {"glasses", "eyeglasses"}, {"glass", "cup"}),
        ("glass", {"glass", "cup"}, {"glasses"}),
    ],
)
def test_words_of_captions_that_a_query_means(
    word: str, counts: set[str], does_not: set[str]
) -> None:
    assert counts <= caption_words(word)
    assert not does_not & caption_words(word)


def test_words_that_mean_the_same_are_found_from_each_side() -> None:
    assert "creek" in synonyms().same["brook"]
    assert synonyms().same["brook"][0] == "stream"
    assert "flower" in synonyms().broader["dahlia"]
    assert "bird" in synonyms().broader["raven"]
    assert "dahlia" in synonyms().narrower["flower"]


def test_the_tables_say_nothing_twice() -> None:
    for words in (*TABLE["same"], *TABLE["kinds"].values()):
        assert len(set(words)) == len(words), words
    for broad, words in TABLE["kinds"].items():
        assert broad not in words
        repeated = [word for word in words if broad in object_names().classes.get(word, ())]
        assert not repeated, f"{broad}: {repeated} are in object_names.toml"
