"""Words and numbers: both papers' cleaning, counting, styles, and the word list on disk."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import ModelError
from regiontalk.language.vocabulary import (
    CLEANING,
    END,
    UNKNOWN,
    Vocabulary,
    breaks_when_mirrored,
    clean_densecap,
    clean_karpathy,
    clean_release,
    tells_position,
)

TEXTS = ["a dog", "a red dog", "a cat", "the dog"]


@pytest.mark.parametrize(
    ("phrase", "words"),
    [
        ("A man's hat.", "a mans hat"),
        ("½ of a café", "half of a cafe"),
        ("90° turn… ™", "90 degree turn"),
        ("crème brûlée — 5¢, façade", "creme brulee 5cent facade"),
        ("red-and-white\tshirt\n", "redandwhite shirt"),
        ("there is a dog", "a dog"),
        ("There's a dog", "a dog"),
        ("here are two cats", "two cats"),
        ("this is a red light", "a red light"),
        ("This seems to be a mug", "a mug"),
        ("it looks like rain", "rain"),
        ("these appear to be shoes", "shoes"),
        ("a sign that is red", "a sign that is red"),
        ("a dog over there is brown", "a dog over there is brown"),
        ("therein", "therein"),
        ("this island", "this island"),
    ],
)
def test_densecap_cleaning(phrase, words):
    """DenseCap section 4; "there is…", "this seems to be a" and the like are stripped from the
    front alone."""
    assert clean_densecap(phrase) == words.split()


def test_the_release_keeps_referring_phrases():
    assert clean_release("There is a café.") == ["there", "is", "a", "cafe"]


@pytest.mark.parametrize("clean", [clean_densecap, clean_release])
def test_more_than_ten_words_are_too_many(clean):
    assert clean(" ".join("abcdefghij")) == list("abcdefghij")
    assert clean(" ".join("abcdefghijk")) is None


def test_the_limit_counts_what_is_left():
    assert clean_densecap("there is " + " ".join("abcdefghij")) == list("abcdefghij")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("A dog's ball, isn't it?", "a dogs ball isnt it"),
        ("A black-and-white 2nd dog !", "a blackandwhite 2nd dog"),
        ("There is a dog .", "there is a dog"),
        ("Café 90°", "caf 90"),
        ("", ""),
        ("... !", ""),
    ],
)
def test_karpathy_cleaning(sentence, words):
    """Characters that are not alphanumeric go; the word they stand in stays."""
    assert clean_karpathy(sentence) == words.split()


def test_karpathy_sentences_may_be_long():
    assert len(clean_karpathy("word " * 40)) == 40


@given(st.text(max_size=60), st.sampled_from(sorted(CLEANING)))
def test_cleaned_words_are_plain(text, cleaning):
    for word in CLEANING[cleaning](text) or ():
        assert word
        assert all(character in "abcdefghijklmnopqrstuvwxyz0123456789" for character in word)


@given(st.text(max_size=60))
def test_karpathy_cleaning_twice_changes_nothing(text):
    once = clean_karpathy(text)
    assert clean_karpathy(" ".join(once)) == once


class TestBuild:
    def test_most_frequent_first_then_by_letter(self):
        assert Vocabulary.build(TEXTS, smallest_count=1).words == ("a", "dog", "cat", "red", "the")

    def test_rare_words_are_left_out(self):
        assert Vocabulary.build(TEXTS, smallest_count=2).words == ("a", "dog")

    @pytest.mark.parametrize(
        ("cleaning", "count"), [("densecap", 15), ("densecap-release", 15), ("karpathy", 5)]
    )
    def test_the_papers_counts_are_the_default(self, cleaning, count):
        texts = ["often"] * count + ["rare"] * (count - 1)
        assert Vocabulary.build(texts, cleaning).words == ("often",)

    def test_phrases_that_are_too_long_do_not_count(self):
        assert Vocabulary.build(["a b c d e f g h i j k", "a"], smallest_count=1).words == ("a",)

    def test_the_order_of_texts_does_not_matter(self):
        assert Vocabulary.build(TEXTS, smallest_count=1) == Vocabulary.build(
            reversed(TEXTS), smallest_count=1
        )


@pytest.fixture
def words() -> Vocabulary:
    return Vocabulary.build(TEXTS, smallest_count=1, styles=("phrase", "name"))


class TestNumbers:
    def test_end_and_unknown_come_first(self, words):
        assert (END, UNKNOWN) == (0, 1)
        assert len(words) == 2 + 5
        assert words.encode(["a", "zebra", "the"]) == [2, UNKNOWN, 6]

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ([], "[] is not of type dict"),
            ({}, "'words' is missing"),
            ({"words": [], "colour": 1}, "unknown key 'colour'"),
            ({"words": [], "cleaning": "none"}, "cleaning is 'none'"),
            ({"words": [], "cleaning": []}, "cleaning: [] is not"),
            ({"words": [3]}, "words[0]: 3 is not"),
            ({"words": "abc"}, "words: 'abc' is not a list"),
            ({"words": [], "lengths": -1}, "lengths is -1"),
            ({"words": [], "lengths": 2.0}, "lengths: 2.0 is not"),
        ],
    )
    def test_broken(self, data, said):
        with pytest.raises(ModelError) as caught:
            Vocabulary.from_dict(data, "words.json")
        assert caught.value.message.startswith(f"words.json: {said}")

    def test_plain_values(self, words):
        assert json.loads(json.dumps(words.to_dict())) == words.to_dict()
        assert Vocabulary.from_dict(words.to_dict()) == words

    def test_lengths_have_start_tokens_after_those_of_the_styles(self, words):
        by_length = replace(words, lengths=4)
        assert [words.start("phrase"), words.start("name")] == [7, 8]
        assert [by_length.start_of_length(count) for count in (1, 2, 4, 9)] == [9, 10, 12, 12]
        assert (words.starts, by_length.starts) == (2, 6)
        assert Vocabulary.from_dict(by_length.to_dict()) == by_length
        assert "lengths" not in words.to_dict()
        assert Vocabulary.from_dict(words.to_dict()).lengths == 0


def test_position_words():
    assert tells_position(["man", "on", "the", "left"])
    assert tells_position(["second", "guy"])
    assert not tells_position(["a", "brown", "dog"])


def test_mirrored_words():
    assert breaks_when_mirrored(["left", "hand"])
    assert breaks_when_mirrored(["rightmost"])
    assert breaks_when_mirrored(clean_densecap("left-hand side"))
    assert not breaks_when_mirrored(["bottom", "of", "the", "second", "row"])
    assert not breaks_when_mirrored(["bright", "leftover"])
