"""Phrases as a model reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import UsageError
from regiontalk.inference.alignment import ALIGNMENT_HEAD, word_vectors
from regiontalk.inference.phrases import about_words, read_aligned, read_phrases, to_phrase
from regiontalk.language.query_words import MAX_WORDS
from regiontalk.model import Model


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


def test_a_phrase_has_tokens_vectors_and_unknown_words(model: Model) -> None:
    (phrase,) = read_phrases(model.runtime, ["A red Zebra!"])
    assert phrase.tokens == tuple(model.runtime.words.encode(["a", "red", "zebra"]))
    known = model.runtime.head(ALIGNMENT_HEAD).words.encode(["a", "red"])
    np.testing.assert_array_equal(phrase.vectors, word_vectors(model.runtime, known))
    assert (phrase.text, phrase.unknown) == ("A red Zebra!", ("Zebra",))


@pytest.mark.parametrize("text", ["!!! 🐈", "zebra", "a zebra", "der Hund", "\0", "'; DROP TABLE"])
def test_phrases_that_say_nothing_are_no_errors(model: Model, text: str) -> None:
    (phrase,) = read_phrases(model.runtime, [text])
    assert not phrase.read.says_something
    assert about_words([phrase])["notes"]


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_phrase_is_wrong_usage(model: Model, text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        read_phrases(model.runtime, ["a red circle", text])


def test_the_words_of_a_query_are_limited_together(model: Model) -> None:
    phrases = read_aligned(model.runtime, ["red " * 90, "red " * 90, "circle"])
    assert [len(phrase.read.words) for phrase in phrases] == [90, MAX_WORDS - 90, 0]
    assert (
        about_words(phrases)["notes"][-1] == "Only the first 100 words are read; 81 are left out."
    )


def test_find_and_search_read_alike(model: Model) -> None:
    for text in ("a red cirlce", "red circles", "a photo of a red circle", '"cirlce"'):
        (find,), (search,) = (read(model.runtime, [text]) for read in (read_phrases, read_aligned))
        assert find.read == search.read
        np.testing.assert_array_equal(find.vectors, search.vectors)


def test_phrases_that_nobody_typed_are_used_as_they_are(model: Model) -> None:
    phrase = to_phrase(model.runtime, "there is a red cirlce")
    assert phrase.unknown == ("cirlce",)
    assert len(phrase.vectors) == 2
    assert to_phrase(model.runtime, "").vectors.shape == (0, 0)


def test_a_model_lists_the_words_that_it_knows(model: Model) -> None:
    aligned = model.runtime.head(ALIGNMENT_HEAD).words.words
    assert model.words[: len(aligned)] == aligned
    assert set(model.words) == {*aligned, *model.runtime.words.words}
    assert len(set(model.words)) == len(model.words)
    (phrase,) = read_phrases(model.runtime, [" ".join(model.words[:20])], as_typed=True)
    assert phrase.unknown == ()
