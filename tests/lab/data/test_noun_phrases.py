"""Phrases of several lengths, from parses made by hand."""

from __future__ import annotations

import pytest

from regiontalk.lab.data.noun_phrases import (
    MOST_WORDS,
    noun_phrase_between,
    noun_phrases,
    participle,
)
from regiontalk.lab.data.parse_tree import Token


@pytest.fixture
def phrases(parse):
    """The texts of every noun of a parse, by the noun."""
    return lambda lines: {
        tree.tokens[noun.head].text: noun.texts
        for tree in [parse(lines)]
        for noun in noun_phrases(tree)
    }


def test_a_noun_alone_with_adjectives_and_with_what_follows(phrases):
    found = phrases("""
        an DT det cat
        old JJ amod cat
        cat NN nsubj eating
        is VBZ aux eating
        eating VBG ROOT eating
        from IN prep eating
        a DT det bowl
        bowl NN pobj from
        on IN prep bowl
        the DT det floor
        floor NN pobj on
        . . punct eating
    """)
    assert found["cat"] == (
        "a cat",
        "an old cat",
        "an old cat eating",
        "an old cat eating from a bowl",
        "an old cat eating from a bowl on the floor",
    )
    assert found["bowl"] == ("a bowl", "a bowl on the floor")
    assert found["floor"] == ("the floor",)


def test_a_verb_becomes_a_participle_after_other_modifiers(phrases):
    found = phrases("""
        a DT det man
        man NN nsubj rides
        in IN prep man
        red JJ amod shorts
        shorts NNS pobj in
        rides VBZ ROOT rides
        his PRP$ poss horse
        horse NN dobj rides
    """)
    assert found["man"] == ("a man", "a man in red shorts", "a man in red shorts riding his horse")
    assert found["horse"] == ()  # "his horse" does not do alone


def test_a_relative_clause_is_shortened(phrases):
    found = phrases("""
        a DT det bus
        bus NN ROOT bus
        that WDT nsubjpass parked
        is VBZ auxpass parked
        parked VBN relcl bus
        near IN prep parked
        trees NNS pobj near
    """)
    assert found["bus"] == ("a bus", "a bus parked near trees")


def test_to_be_somewhere_is_a_modifier(phrases):
    found = phrases(
        "a DT det cup\ncup NN nsubj is\nis VBZ ROOT is\non IN prep is\na DT det table\ntable NN pobj on"
    )
    assert found["cup"] == ("a cup", "a cup on a table")


def test_what_somebody_does_is_not_said_of_what_she_wears(phrases):
    found = phrases("""
        a DT det woman
        woman NN ROOT woman
        in IN prep woman
        a DT det hat
        hat NN pobj in
        standing VBG acl hat
        near IN prep standing
        trees NNS pobj near
    """)
    assert found["hat"] == ("a hat",)
    assert found["woman"] == ("a woman", "a woman in a hat", "a woman in a hat standing near trees")


def test_what_is_said_of_somebody_is_not_said_of_a_thing(phrases):
    found = phrases(
        "a DT det wall\nwall NN ROOT wall\nwith IN prep wall\nhis PRP$ poss hands\nhands NNS pobj with"
    )
    assert found["wall"] == ("a wall",)
    found = phrases(
        "the DT det dog\ndog NN ROOT dog\nwith IN prep dog\nhis PRP$ poss toy\ntoy NN pobj with"
    )
    assert found["dog"] == ("the dog", "the dog with his toy")
    found = phrases(
        "the DT det grass\ngrass NN ROOT grass\ntoward IN prep grass\ntrees NNS pobj toward"
    )
    assert found["grass"] == ("the grass",)


def test_a_verb_taken_for_a_noun_ends_no_phrase(phrases):
    found = phrases(
        "a DT det man\nman NN ROOT man\nsitting VBG acl man\nand CC cc sitting\nwatches NNS conj sitting"
    )
    assert found["man"] == ("a man", "a man sitting")


def test_a_phrase_ends_before_a_clause_of_its_own(phrases):
    found = phrases("""
        two CD nummod dogs
        dogs NNS nsubj play
        play VBP ROOT play
        in IN prep play
        snow NN pobj in
        while IN mark watches
        a DT det man
        man NN nsubj watches
        watches VBZ advcl play
    """)
    assert found["dogs"] == ("two dogs", "two dogs playing in snow")
    assert found["man"] == ("a man",)


def test_no_phrase_ends_where_more_must_follow(phrases):
    found = phrases("""
        a DT det man
        man NN ROOT man
        in IN prep man
        front NN pobj in
        of IN prep front
        a DT det fire
        fire NN compound truck
        truck NN pobj of
    """)
    assert found["man"] == ("a man", "a man in front of a fire truck")
    assert "fire" not in found


def test_a_compound_stays_whole_where_it_is_another_thing(phrases):
    assert phrases("a DT det dog\nhot JJ amod dog\ndog NN ROOT dog") == {"dog": ("a hot dog",)}
    assert phrases(
        "a DT det player\nyoung JJ amod player\ntennis NN compound player\nplayer NN ROOT player"
    ) == {"player": ("a tennis player", "a young tennis player")}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("this DT det cat\ncat NN ROOT cat", "pointing"),
        ("12 CD nummod cats\ncats NNS ROOT cats", "number"),
        ("her PRP$ poss cat\ncat NN ROOT cat", "possessive"),
        ("without IN ROOT without\na DT det cat\ncat NN pobj without", "not there"),
    ],
)
def test_phrases_that_do_not_do_alone_have_no_texts(phrases, lines, why):
    assert set(phrases(lines).values()) == {()}, why


def test_pictures_and_pronouns_are_no_things(phrases):
    lines = "a DT det picture\npicture NN ROOT picture\nof IN prep picture\nit PRP pobj of"
    assert phrases(lines) == {}


def test_signs_and_too_many_words_are_left_out(phrases):
    assert phrases("a DT det cat\nc4t JJ amod cat\ncat NN ROOT cat") == {"cat": ("a cat",)}
    many = "\n".join(f"old{chr(97 + n)} JJ amod cat" for n in range(MOST_WORDS))
    assert phrases(f"a DT det cat\n{many}\ncat NN ROOT cat") == {"cat": ("a cat",)}


def test_given_words_are_the_full_phrase(parse):
    tree = parse("""
        a DT det group
        group NN ROOT group
        of IN prep group
        men NNS pobj of
        playing VBG acl group
        cards NNS dobj playing
    """)
    noun = noun_phrase_between(tree, 0, 3)
    assert noun is not None
    assert noun.texts == (
        "a group of men",
        "a group of men playing cards",
    )  # "a group" says nothing
    assert noun_phrase_between(tree, 4, 5) is None  # a verb heads it
    assert noun_phrase_between(tree, 1, 3) is None  # a word is missing


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        ("sits", "sitting"),
        ("rides", "riding"),
        ("lies", "lying"),
        ("carries", "carrying"),
        ("watches", "watching"),
        ("looks", "looking"),
        ("plays", "playing"),
        ("sees", "seeing"),
        ("goes", "going"),
    ],
)
def test_participles(verb, form):
    assert participle(Token(verb, "VBZ", "ROOT", 0)) == form


def test_participle_of_a_plurals_verb():
    assert participle(Token("run", "VBP", "ROOT", 0)) == "running"
