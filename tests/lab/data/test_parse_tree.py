"""Subtrees and texts of a parse."""

from __future__ import annotations

from regiontalk.lab.data.parse_tree import Token, Tree


def test_a_subtree_reaches_as_far_as_its_words(parse):
    tree = parse("a DT det cat\ncat NN ROOT cat\non IN prep cat\na DT det mat\nmat NN pobj on")
    assert tree.edges(1) == (0, 4)
    assert tree.edges(2) == (2, 4)
    assert tree.edges(0) == (0, 0)
    assert tree.governor(4).text == "on"
    assert tree.has_child(1, "prep", "acl")
    assert not tree.has_child(1, "acl")


def test_a_text_has_the_sentences_own_spaces():
    words = [
        Token("horse", "NN", "amod", 2, False),
        Token("-", "HYPH", "punct", 2, False),
        Token("drawn", "VBN", "x", 2),
    ]
    tree = Tree(words)
    assert tree.text(0, 2) == "horse-drawn"
    assert tree.words(0, 2) == ["horse", "-", "drawn"]
