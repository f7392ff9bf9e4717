"""METEOR 1.5's English normalisation (`-norm`): punctuation apart, contractions cut, lower case.

The rules' order matters, and so does that each takes the characters it matched: "a,b,c" gives "a ,
b,c". Blanks, digits and lower case in the rules are Java's, that is ASCII's.
"""

from __future__ import annotations

import re
from collections.abc import Set

_LETTERS = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_BLANKS = " \t\n\r\f"
_OTHER = re.compile(rf"[^0-9{_LETTERS}{_BLANKS}\v.'`,\-‘’]")
_DOTS = re.compile(r"\.{2,}")
_COMMAS = (
    re.compile(r"([^0-9]),([^0-9])"),
    re.compile(r"([0-9]),([^0-9])"),
    re.compile(r"([^0-9]),([0-9])"),
)
_SINGLE_QUOTES = re.compile("[`‘’]")
_DOUBLE_QUOTES = re.compile("[“”]|''")
_HYPHEN = re.compile(rf"([0-9{_LETTERS}.])-([0-9{_LETTERS}])")
_APOSTROPHES = (
    (re.compile(rf"([^{_LETTERS}])'([^{_LETTERS}])"), r"\1 ' \2"),
    (re.compile(rf"([^{_LETTERS}0-9])'([{_LETTERS}])"), r"\1 ' \2"),
    (re.compile(rf"([{_LETTERS}])'([^{_LETTERS}])"), r"\1 ' \2"),
    (re.compile(rf"([{_LETTERS}])'([{_LETTERS}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
)
_LETTER = re.compile(f"[{_LETTERS}]")
_UNICODE_SPACES = frozenset(map(chr, (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
_CONTROLS = "".join(map(chr, range(33)))
_BLANK = re.compile(f"[{_BLANKS}]+")
_WORD_WITH_DOT = re.compile(r"[0-9A-Za-z]\.")
_SPECIAL = re.compile(rf"[^0-9A-Za-z{_BLANKS}.]|\.\.")


def normalize(text: str, abbreviations: Set[str], numeric_abbreviations: Set[str]) -> list[str]:
    """The words of a sentence.

    A dot stays at an abbreviation; at a numeric one ("No.") only if a number follows.
    """
    text = text.strip(_CONTROLS)
    special = _SPECIAL.search(text)
    words = _split(_separate_signs(f" {text} ")) if special else text.split()
    if "." in text and (special or _WORD_WITH_DOT.search(text)):
        words = _separate_final_dots(words, abbreviations, numeric_abbreviations)
    if special:
        words = _split(
            " ".join(word for word in words if word not in _UNICODE_SPACES).strip(_CONTROLS)
        )
    return [word.lower() for word in words]


def _separate_signs(text: str) -> str:
    text = _OTHER.sub(r" \g<0> ", text)
    text = _DOTS.sub(r" \g<0> ", text)
    if "," in text:
        for comma in _COMMAS:
            text = comma.sub(r"\1 , \2", text)
    text = _DOUBLE_QUOTES.sub(' " ', _SINGLE_QUOTES.sub("'", text))
    text = _HYPHEN.sub(r"\1 \2", text.replace("–", "-").replace("--", "-"))
    if "'" in text:
        for apostrophe, replacement in _APOSTROPHES:
            text = apostrophe.sub(replacement, text)
    return text


def _separate_final_dots(
    words: list[str], abbreviations: Set[str], numeric_abbreviations: Set[str]
) -> list[str]:
    out: list[str] = []
    for number, word in enumerate(words, start=1):
        before = word[:-1]
        following = words[number][0] if number < len(words) else ""
        if word[-1] != "." or not word.strip("."):
            out.append(word)
        elif "." in before and _LETTER.search(before):
            out.append(word.replace(".", ""))
        elif (
            before in abbreviations
            or (before in numeric_abbreviations and "0" <= following <= "9")
            or "a" <= following <= "z"
        ):
            out.append(word)
        else:
            out += [before, "."]
    return out


def _split(text: str) -> list[str]:
    return [word for word in _BLANK.split(text) if word]
