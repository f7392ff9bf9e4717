"""The Snowball stemmer for English ("Porter 2"), as METEOR 1.5 uses it.

The algorithm is defined at https://snowballstem.org/algorithms/english/stemmer.html; the steps below carry
its names. The word is lower-case already. Consonant y is written Y while the steps run.
"""

from __future__ import annotations

import re

_VOWELS = frozenset("aeiouy")
_DOUBLES = frozenset(("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"))
_BEFORE_LI = frozenset("cdeghkmnrt")

_WHOLE_WORDS = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
} | {word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")}
_AFTER_STEP_1A = frozenset(("inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"))

_STEP_2 = {
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "abli": "able",
    "entli": "ent",
    "izer": "ize",
    "ization": "ize",
    "ational": "ate",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "aliti": "al",
    "alli": "al",
    "fulness": "ful",
    "ousli": "ous",
    "ousness": "ous",
    "iveness": "ive",
    "iviti": "ive",
    "biliti": "ble",
    "bli": "ble",
    "ogi": "og",
    "fulli": "ful",
    "lessli": "less",
    "li": "",
}
_STEP_3 = {
    "tional": "tion",
    "ational": "ate",
    "alize": "al",
    "icate": "ic",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
    "ative": "",
}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate"),
    *("iti", "ous", "ive", "ize", "ion"),
)
_SUFFIXES_2, _SUFFIXES_3 = tuple(_STEP_2), tuple(_STEP_3)

_SPECIAL_R1 = ("gener", "commun", "arsen")
_VOWEL_THEN_CONSONANT = re.compile(r"[aeiouy][^aeiouy]")


def stem(word: str) -> str:
    if word in _WHOLE_WORDS:
        return _WHOLE_WORDS[word]
    if len(word) < 3:
        return word
    word = _mark_consonant_y(word.removeprefix("'"))
    r1, r2 = _regions(word)
    word = _step_1a(_step_0(word))
    if word not in _AFTER_STEP_1A:
        word = _step_1c(_step_1b(word, r1))
        word = _step_2(word, r1)
        word = _step_3(word, r1, r2)
        word = _step_4(word, r2)
        word = _step_5(word, r1, r2)
    return word.replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """y at the start or after a vowel becomes Y; a marked Y is no vowel to the y after it."""
    if "y" not in word:
        return word
    letters = list(word)
    for place, letter in enumerate(letters):
        if letter == "y" and (place == 0 or letters[place - 1] in _VOWELS):
            letters[place] = "Y"
    return "".join(letters)


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 begin: each after the first consonant that follows a vowel."""
    if word.startswith(_SPECIAL_R1):
        r1 = next(len(start) for start in _SPECIAL_R1 if word.startswith(start))
    else:
        r1 = _after_vowel_and_consonant(word, 0)
    return r1, _after_vowel_and_consonant(word, r1)


def _after_vowel_and_consonant(word: str, start: int) -> int:
    found = _VOWEL_THEN_CONSONANT.search(word, start)
    return found.end() if found else len(word)


def _step_0(word: str) -> str:
    for suffix in ("'s'", "'s", "'"):
        if word.endswith(suffix):
            return word[: -len(suffix)]
    return word


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")) or not word.endswith("s"):
        return word
    return word[:-1] if _has_vowel(word[:-2]) else word


def _step_1b(word: str, r1: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            return word[: -len(suffix)] + "ee" if len(word) - len(suffix) >= r1 else word
    suffix = _longest(word, ("ingly", "edly", "ing", "ed"))
    rest = word[: len(word) - len(suffix)]
    if not suffix or not _has_vowel(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if rest[-2:] in _DOUBLES:
        return rest[:-1]
    return rest + "e" if r1 >= len(rest) and _ends_in_short_syllable(rest) else rest


def _step_1c(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


def _step_2(word: str, r1: int) -> str:
    suffix = _longest(word, _SUFFIXES_2)
    before = word[: len(word) - len(suffix)]
    if not suffix or len(before) < r1:
        return word
    if suffix == "ogi" and not before.endswith("l"):
        return word
    if suffix == "li" and before[-1:] not in _BEFORE_LI:
        return word
    return before + _STEP_2[suffix]


def _step_3(word: str, r1: int, r2: int) -> str:
    suffix = _longest(word, _SUFFIXES_3)
    before = word[: len(word) - len(suffix)]
    if not suffix or len(before) < r1 or (suffix == "ative" and len(before) < r2):
        return word
    return before + _STEP_3[suffix]


def _step_4(word: str, r2: int) -> str:
    suffix = _longest(word, _STEP_4)
    before = word[: len(word) - len(suffix)]
    if not suffix or len(before) < r2 or (suffix == "ion" and before[-1:] not in ("s", "t")):
        return word
    return before


def _step_5(word: str, r1: int, r2: int) -> str:
    before = word[:-1]
    if word.endswith("e"):
        goes = len(before) >= r2 or (len(before) >= r1 and not _ends_in_short_syllable(before))
        return before if goes else word
    return before if word.endswith("ll") and len(before) >= r2 else word


def _longest(word: str, suffixes: tuple[str, ...]) -> str:
    if not word.endswith(suffixes):
        return ""
    return max((suffix for suffix in suffixes if word.endswith(suffix)), key=len)


def _has_vowel(text: str) -> bool:
    return not _VOWELS.isdisjoint(text)


def _ends_in_short_syllable(word: str) -> bool:
    """A vowel between consonants, the last one not w, x or Y; or a word of a vowel and a consonant."""
    if len(word) < 2 or word[-1] in _VOWELS or word[-2] not in _VOWELS:
        return False
    return len(word) == 2 or (word[-3] not in _VOWELS and word[-1] not in "wxY")
