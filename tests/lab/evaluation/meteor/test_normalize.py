from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.lab.evaluation.meteor.normalize import normalize

ABBREVIATIONS = frozenset(["Mr", "vs", "e.g", "A"])
NUMERIC = frozenset(["No", "pp"])

# The jar's own words, joined by "|".
CASES = {
    "A dog runs": "a|dog|runs",
    "A dog runs .": "a|dog|runs|.",
    "A dog runs.": "a|dog|runs|.",
    "A dog. It runs": "a|dog|.|it|runs",
    "a dog. it runs": "a|dog.|it|runs",
    "Mr. Brown": "mr.|brown",
    "the U.S. team": "the|us|team",
    "A. B": "a.|b",
    "No. 12": "no.|12",
    "I say No. Twelve": "i|say|no|.|twelve",
    "wait... what": "wait|...|what",
    "3.5 is .5 more": "3.5|is|.5|more",
    "a,b,c and d , e": "a|,|b,c|and|d|,|e",
    "1,000 and 3,a": "1,000|and|3|,|a",
    "(red) car!": "(|red|)|car|!",
    "it's the dogs' toy": "it|'s|the|dogs|'|toy",
    "the '90s and 90's": "the|'|90s|and|90|'s",
    "“so” ‘it’ ``is''": '"|so|"|\'|it|\'|"|is|"',
    "a well-known T-shirt": "a|well|known|t|shirt",
    "a-b-c": "a|b-c",
    "left – right -- left": "left|-|right|-|left",
    "Café Łódź": "café|łódź",
    "漢字 😀": "漢|字|😀",
    "no\u00a0break\u3000here": "no|break|here",
    "tab\tline\nfeed": "tab|line|feed",
    "a\x0bb": "a\x0bb",
    "\x1ca \x1c b\x1c": "a|\x1c|b",
    "": "",
    " . ": ".",
    "..": "..",
}


@pytest.mark.parametrize(("text", "words"), CASES.items())
def test_words_of_the_jar(text: str, words: str) -> None:
    assert normalize(text, ABBREVIATIONS, NUMERIC) == [word for word in words.split("|") if word]


@given(st.text())
def test_any_text_gives_words_without_blanks(text: str) -> None:
    for word in normalize(text, ABBREVIATIONS, NUMERIC):
        assert word
        assert not set(word) & set(" \t\n\r\f")


@given(st.lists(st.text("abcXYZ019", min_size=1)))
def test_plain_words_are_only_lowered(words: list[str]) -> None:
    assert normalize("  ".join(words), ABBREVIATIONS, NUMERIC) == [word.lower() for word in words]
