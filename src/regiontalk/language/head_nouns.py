"""What a caption names: its head noun, found without a parser.

The noun ends before the first word that opens something about it ("with", "on", "holding a"), and
the longest name of `object_names.toml` that ends there counts. So "an orange shirt" names no
orange, and "a hot dog on a plate" neither a dog nor a plate.
"""

from __future__ import annotations

from collections.abc import Sequence

from regiontalk.language.object_names import object_names
from regiontalk.language.vocabulary import FUNCTION_WORDS, PREPOSITIONS, clean_karpathy, word_set

_PARTICIPLES = word_set(
    "made seen shown held cut set lit spread taken worn driven ridden hung built"
)
_DETERMINERS = word_set("a an the his her its their this that some another two three four several")
_AFTER_NOUNS = word_set(
    "outdoors indoors together asleep alone nearby ahead away there here it him them"
)
# "A red building in the snow" names a building; "a jockey riding in the snow" a jockey.
_NOUNS_IN_ING = word_set(
    """building ceiling railing clothing painting wing ring king string thing swing awning crossing
    bedding dressing pudding wedding landing siding"""
)
# "A group of people" names people, "a bowl of soup" a bowl.
_GROUPS = word_set(
    "group couple pair bunch herd flock team piece slice row stack pile crowd number set lot lots"
)

# Kinds whose classes are kinds, too: a puppy is a dog, and a dog an animal. But a desk is furniture
# and no dining table.
FINE_KINDS = ("animal", "vehicle")


def head_words(caption: str) -> list[str]:
    """The words of a caption up to and with its head noun."""
    words = clean_karpathy(caption)
    start, end = _head_span(words)
    return words[start:end]


def head_place(words: Sequence[str]) -> int:
    """The place of the head noun among a caption's words; −1 if there are no words."""
    return _head_span(words)[1] - 1


def _head_span(words: Sequence[str]) -> tuple[int, int]:
    start = 0
    for index, word in enumerate(words):
        if word == "of" and index and words[index - 1] in _GROUPS:
            start = index + 1
        elif index > start and _ends_noun(words, start, index):
            return start, index
    return start, len(words)


def _ends_noun(words: Sequence[str], start: int, index: int) -> bool:
    """Whether the noun has come before the word at `index`."""
    word = words[index]
    if word in PREPOSITIONS or word in _AFTER_NOUNS:
        return True
    named = words[index - 1] != "orange" and bool(object_names().classes_of(words[start:index]))
    if word == "and" or word.endswith("ed") or word in _PARTICIPLES:
        return (
            named  # "a man and a dog"; not "a black and white dog", nor "an orange and white cat"
        )
    if not word.endswith("ing"):
        return False
    following = words[index + 1] if index + 1 < len(words) else ""
    is_verb = following in PREPOSITIONS and word not in _NOUNS_IN_ING
    return named or following in _DETERMINERS or is_verb


def named_classes(caption: str) -> tuple[str, ...]:
    """The object classes that a caption names."""
    return object_names().classes_of(head_words(caption))


def head_noun(caption: str) -> str:
    """The noun of a caption as a keyword: "teddy bear" of "two teddy bears on a bed". A plural
    becomes singular if that is a name we know. Empty if the caption has no noun."""
    words = head_words(caption)
    if not words or words[-1] in FUNCTION_WORDS:
        return ""
    return object_names().name_of(words) or words[-1]


def kinds_of(noun: str) -> tuple[str, ...]:
    """What a noun is a kind of, from the widest word: animal, dog of "puppy"; none if unknown."""
    names = object_names()
    classes = names.classes_of(noun.split())
    kinds = {names.kinds.get(name) for name in classes}
    if len(kinds) != 1 or None in kinds:
        return ()
    (kind,) = kinds
    path = [str(kind)]
    if len(classes) == 1 and kind in FINE_KINDS:
        path.append(classes[0])
    return tuple(word for word in path if word != noun)
