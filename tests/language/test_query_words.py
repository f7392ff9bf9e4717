"""How typed words are read, over a small vocabulary."""

from __future__ import annotations

import pytest

from regiontalk.language.query_words import (
    MAX_RARE,
    MAX_WORDS,
    ReadPhrase,
    english_words,
    foreign_words,
    notes,
    read_phrase,
    typing_distance,
)
from regiontalk.language.vocabulary import Vocabulary

WORDS = """a the in on of with and two dog dogs cat horse bicycle umbrella car plane boat child woman man girl
stream flower bird teddy bear soccer ball red brown house houses tshirt glasses picture la at holding speed hunt hand
paris"""
VOCABULARY = Vocabulary(tuple(WORDS.split()), "karpathy")


def read(text: str, as_typed: bool = False) -> ReadPhrase:
    return read_phrase(text, [VOCABULARY], as_typed)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("A red Dog!", "a red dog"),
        ("a T-shirt", "a tshirt"),
        ("a girl's dög", "a girl dog"),
        ("a teddy-bear", "a teddy bear"),
    ],
)
def test_case_punctuation_and_accents_do_not_matter(typed: str, expected: str) -> None:
    found = read(typed)
    assert " ".join(found.known) == expected
    assert notes([found]) == ()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bycicle", "bicycle"),
        ("umbrela", "umbrella"),
        ("hores", "horse"),
        ("womann", "woman"),
        ("brwon", "brown"),
        ("teddybear", "teddy bear"),
        ("soccerball", "soccer ball"),
    ],
)
def test_typing_mistakes_are_corrected_and_said(typed: str, meant: str) -> None:
    found = read(f"a {typed}")
    assert " ".join(found.known) == f"a {meant}"
    assert found.unknown == ()
    (note,) = notes([found])
    assert typed in note
    assert meant in note


@pytest.mark.parametrize("typed", ['a "bycicle"', "a “bycicle”"])
def test_words_in_quotes_are_read_as_typed(typed: str) -> None:
    found = read(typed.replace("“", '"').replace("”", '"'))
    assert found.known == ("a",)
    assert found.unknown == ("bycicle",)
    assert not found.says_something
    assert found.corrected == {}


def test_as_typed_changes_nothing() -> None:
    found = read("a photo of an automobile and a bycicle", as_typed=True)
    assert found.unknown == ("photo", "an", "automobile", "bycicle")
    assert (found.corrected, found.synonyms, found.language) == ({}, {}, "")
    assert read("der Hund", as_typed=True).unknown == ("der", "Hund")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("automobile", "car"),
        ("jetliner", "plane"),
        ("puppies", "dog"),
        ("kitty", "cat"),
        ("toddler", "child"),
        ("brook", "stream"),
        ("dahlias", "flower"),
        ("ravens", "bird"),
        ("lady", "woman"),
    ],
)
def test_synonyms_and_kinds_are_read_as_known_words(typed: str, meant: str) -> None:
    found = read(typed)
    assert found.known == (meant,)
    assert found.synonyms == {typed: meant}
    assert found.corrected == {}
    assert notes([found]) == (f"“{typed}” is read as “{meant}”.",)


@pytest.mark.parametrize(
    ("typed", "expected"), [("cats", "cat"), ("bicycles", "bicycle"), ("umbrellas", "umbrella")]
)
def test_singular_and_plural_are_the_same_word(typed: str, expected: str) -> None:
    found = read(typed)
    assert found.known == (expected,)
    assert notes([found]) == ()


def test_a_mistake_in_a_synonym_is_corrected_too() -> None:
    found = read("automobil")
    assert found.known == ("car",)
    assert found.corrected == {"automobil": "automobile"}
    assert found.synonyms == {"automobile": "car"}


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("a photo of a dog", "a dog"),
        ("Pictures of dogs", "dogs"),
        ("an image of the cat", "the cat"),
        ("show me a cat", "a cat"),
        ("find me pictures of a horse", "a horse"),
        ("there is a dog", "a dog"),
        ("man holding a picture of a dog", "man holding a picture of a dog"),
        ("picture", "picture"),
    ],
)
def test_a_photo_of_says_nothing(typed: str, left: str) -> None:
    found = read(typed)
    assert " ".join(found.known) == left
    assert found.unknown == ()


@pytest.mark.parametrize("word", ["spaceship", "xqzzt", "dgo", "hoarse"])
def test_what_is_not_known_is_named(word: str) -> None:
    found = read(f"a dog and a {word}")
    assert found.known == ("a", "dog", "and", "a")
    assert found.unknown == (word,)
    assert found.says_something
    assert notes([found]) == (f"The model does not know “{word}”.",)
    alone = read(f"a {word}")
    assert not alone.says_something
    assert "nothing else to look for" in notes([alone])[0]


@pytest.mark.parametrize(
    ("typed", "language"),
    [
        ("Hund", "another"),  # German, and Swedish
        ("ein Hund im Schnee", "German"),
        ("chien dans la neige", "French"),
        ("perro en la playa", "Spanish"),
        ("Weihnachten", "German"),
        ("собака", "another"),
        ("犬", "another"),
        ("كلب", "another"),
    ],
)
def test_other_languages_are_recognised(typed: str, language: str) -> None:
    found = read(typed)
    assert found.language == language
    assert not found.says_something
    assert found.known == ()
    (note,) = notes([found])
    assert "The model reads English only." in note
    assert language == "another" or language in note


@pytest.mark.parametrize(
    ("typed", "language"),
    [
        ("un perro", "Spanish"),
        ("un chien", "French"),
        ("un gatto", "Italian"),
        ("o gato", "Portuguese"),
    ],
)
def test_a_foreign_article_that_the_model_has_as_a_word_is_not_looked_for(
    typed: str, language: str
) -> None:
    found = read_phrase(typed, [Vocabulary((*WORDS.split(), "un", "o"), "karpathy")])
    assert found.language == language
    assert read_phrase("un horse", [Vocabulary(("un", "horse"), "karpathy")]).language == ""


def test_an_english_phrase_with_a_foreign_word_is_english() -> None:
    found = read("red horse hund")
    assert found.language == ""
    assert found.unknown == ("hund",), "it is not taken for a mistake"
    assert read("a man at the Louvre in Paris").language == ""


@pytest.mark.parametrize("typed", ["🐈", "!!!", "\0", "''"])
def test_phrases_without_words(typed: str) -> None:
    found = read(typed)
    assert found.words == ()
    assert not found.says_something
    assert "no word" in notes([found])[0]


@pytest.mark.parametrize("typed", ["the", "a photo of the", "with", "not the"])
def test_function_words_alone_are_nothing_to_look_for(typed: str) -> None:
    found = read_phrase(typed, [Vocabulary((*WORDS.split(), "not"), "karpathy")])
    assert not found.says_something
    assert "nothing to look for" in notes([found])[0]
    assert read("two").says_something


def test_another_script_is_recognised_if_the_model_knows_the_letter_s() -> None:
    found = read_phrase("собака", [Vocabulary((*WORDS.split(), "s"), "karpathy")])
    assert found.language == "another"


def test_long_phrases_are_cut_and_it_is_said() -> None:
    found = read("dog xqzzt " * 5_000)
    assert len(found.words) == MAX_WORDS
    assert found.left_out == 10_000 - MAX_WORDS
    assert notes([found])[-1] == "Only the first 100 words are read; 9,900 are left out."
    assert read_phrase("a red dog", [VOCABULARY], max_words=2).known == ("a", "red")


@pytest.mark.parametrize(
    ("word", "other", "distance"),
    [("dog", "dog", 0), ("dgo", "dog", 1), ("do", "dog", 1), ("dogg", "dog", 1), ("cat", "dog", 3)],
)
def test_the_distance_of_typing_mistakes(word: str, other: str, distance: int) -> None:
    assert typing_distance(word, other, 3) == distance


def many_words() -> Vocabulary:
    """The few words as the most frequent ones, and after them what vocabularies of 20,000 words
    have too: all English words, names, foreign words and typing mistakes."""
    frequent = WORDS.split()
    fillers = [f"{number:05d}" for number in range(MAX_RARE - len(frequent))]
    rare = [word.lower() for word in sorted(english_words())]
    odd = ["haus", "casa", "mein", "umbrellla", "bicyle", "tshirts", "tedy", "wifi", "camo"]
    return Vocabulary(tuple(dict.fromkeys([*frequent, *fillers, *rare, *odd])), "karpathy")


MANY_WORDS = many_words()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bycicle", "bicycle"),  # and not "bicyclic" or "icicle"
        ("umbrela", "umbrella"),
        ("hores", "horse"),
        ("brwon", "brown"),
        ("huse", "house"),  # and not "hues" or "husk"
        ("birs", "bird"),  # and not "birch"
        ("strem", "stream"),
        ("wman", "woman"),
        ("spaceshp", "spaceship"),  # a rare word, if no frequent one is near
    ],
)
def test_mistakes_are_corrected_to_frequent_words_if_many_words_are_known(
    typed: str, meant: str
) -> None:
    found = read_phrase(typed, [MANY_WORDS])
    assert found.corrected == {typed: meant}
    assert found.known == (meant,)


@pytest.mark.parametrize(
    ("typed", "meant"), [("bicyle", "bicycle"), ("umbrellla", "umbrella"), ("tedy", "teddy")]
)
def test_mistakes_that_a_vocabulary_has_are_corrected_too(typed: str, meant: str) -> None:
    assert typed in MANY_WORDS.words
    found = read_phrase(f"a red {typed}", [MANY_WORDS])
    assert found.known == ("a", "red", meant)
    assert found.corrected == {typed: meant}
    assert read_phrase(f'"{typed}"', [MANY_WORDS]).known == (typed,)


@pytest.mark.parametrize(
    "typed", ["hoarse", "beech", "boar", "lens", "maine", "wifi", "camo", "tshirts", "spaceships"]
)
def test_rare_english_words_and_names_are_no_mistakes(typed: str) -> None:
    found = read_phrase(typed, [MANY_WORDS])
    assert found.corrected == {}
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("typed", "language"),
    [
        ("Hund", "another"),
        ("Haus", "German"),
        ("casa", "another"),
        ("mein Hund", "another"),
        ("mariposa", "Spanish"),
    ],
)
def test_foreign_words_of_a_vocabulary_are_foreign(typed: str, language: str) -> None:
    assert read_phrase(typed, [MANY_WORDS]).language == language


def test_names_are_not_what_was_meant() -> None:
    assert "Hardin" in english_words()
    assert read_phrase("hardim", [MANY_WORDS]).corrected != {"hardim": "hardin"}


@pytest.mark.parametrize("typed", ["pain", "a chat", "die", "petite woman", "a con man"])
def test_words_that_are_english_and_foreign_are_english(typed: str) -> None:
    assert read_phrase(typed, [MANY_WORDS]).language == ""


def test_lists_of_words() -> None:
    assert "hund" in foreign_words()
    assert len(english_words()) > 50_000
    assert not [word for word in english_words() if not word.isalpha()]
