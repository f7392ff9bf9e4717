"""Words as coco-caption cuts them: Penn Treebank tokens, lower case, without punctuation. No Java.

coco-caption pipes sentences through Stanford's PTBTokenizer 3.4.1 (`-lowerCase`) and drops a list
of punctuation tokens. This module cuts the same way for what captions contain; `docs/evaluation.md`
says how often the two differ on real captions.
"""

from __future__ import annotations

import re
from functools import lru_cache

# coco-caption's list. Brackets reach it in lower case ("-lrb-"), so they stay, there as here.
PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])

_TYPOGRAPHIC = str.maketrans(
    {"’": "'", "‘": "`", "“": '"', "”": '"', "–": "--", "—": "--", "…": "..."}
)
_SIGNS = {
    **{"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"},
    **{'"': "''", "£": "#", "€": "$", "¢": "cents"},
}
# Two words written as one, and where the treebank cuts them.
_JOINED = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "lemme": 3, "gimme": 3}
_ABBREVIATIONS = (
    "mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|inc|co|corp|ltd|bros|univ|penn|gen|sen|rep|gov|lt|sgt|"
    "capt|col|rev|"
    "ave|blvd|rd|ct|la|mt|ft|no|al"
)
_TOKEN = re.compile(
    rf"""
      https?://\S+ | www\.\S*\w | [\w.+-]+@[\w-]+(?:\.\w+)+          # addresses
    | </?[a-z]+>                                                    # <unk>
    | \.\.+ | --+
    | n't\b | '(?:s|m|d|re|ve|ll)\b | '(?:n'?(?!\w)|em\b|\d\ds?\b)  # second half of a contraction
    | [\#@][a-z]\w*                                                 # names in a network
    | \b(?:{_ABBREVIATIONS})\. | [a-z]+\.(?=[,;:])
    | \b[a-z]\.(?:[a-z]\.)*[a-z]\b\.? | \b(?!i)[a-z]\.(?!\s*$)       # u.s., initials
    | 't(?=is\b|was\b) | y'(?=all\b) | [odl]'[a-z]+ | \b[a-z]+'ed\b
    | [a-z]+(?=n't\b)  # first half of a contraction
    | \d+:\d+(?=[ap]m\b) | :\d+ | [-+]?\d*(?:[.,:/]?\d+)+(?:-?\w+)*
    | \b(?-i:[A-Z]+&[A-Z]+)                                         # AT&T, but not at&t
    | \w+(?:[-/_.]\w+)*
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


@lru_cache(maxsize=50_000)
def tokenize(sentence: str) -> tuple[str, ...]:
    """The words of a sentence; punctuation is gone."""
    words: list[str] = []
    for match in _TOKEN.finditer(sentence.translate(_TYPOGRAPHIC)):
        token = match.group().lower()
        cut = _JOINED.get(token)
        pieces = [token[:cut], token[cut:]] if cut else [_SIGNS.get(token, token)]
        words += [piece for piece in pieces if not _is_punctuation(piece)]
    return tuple(words)


def _is_punctuation(token: str) -> bool:
    """Runs of dots and dashes, however long, are "..." and "--" to the treebank."""
    return token in PUNCTUATION or not token.strip(".") or not token.strip("-")
