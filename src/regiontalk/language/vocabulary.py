"""The two papers' text cleaning, and the table between words and token ids.

Ids: 0 is END (also the padding after it), 1 is `<UNK>`, then the words. After the words comes a
START token for each style of text, and then one for each caption length that can be requested, if
there are any. START tokens are inputs only, so the output layer has `len(vocabulary)` classes and
the input table `len(vocabulary) + starts` rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from regiontalk.errors import ModelError, UsageError, check_range
from regiontalk.io.typed import to_dataclass

END, UNKNOWN = 0, 1
SPECIAL = ("<END>", "<UNK>")
LENGTH_STYLE = (
    "length"  # of phrases that start with the START token of their length; it has none of its own
)

# DenseCap's released preprocessing writes these characters out.
REPLACEMENTS = {
    "½": "half",
    "—": "-",
    "™": "",
    "¢": "cent",
    "ç": "c",
    "û": "u",
    "é": "e",
    "°": " degree",
}
REPLACEMENTS |= {"è": "e", "…": ""}

# DenseCap section 4: "we strip referring phrases such as 'there is...', or 'this seems to be a'".
REFERRING = re.compile(
    r"^(?:(?:there|here)(?: is| are|s)|(?:this|that|it|these|those) "
    r"(?:is|are|seems? to be|looks? like|appears? to be)"
    r"|(?:it|that)s)\s+"
)
LONGEST_PHRASE = 10


def word_set(text: str) -> frozenset[str]:
    """The words of a text: a list of words without quotes and commas."""
    return frozenset(text.split())


POSITION_WORDS = word_set(
    """left right leftmost rightmost lft rt top bottom upper lower middle center centre front back
    behind between far near nearest closest first second third fourth fifth last row corner side
    edge end other"""
)
# The head word of a caption comes before the first of these words.
PREPOSITIONS = word_set(
    """in on at with of to from by near next behind under over above below beside between against
    along across around through into onto inside outside for up down off without toward towards like
    during while as that who which whose is are was has have out about underneath beneath among
    front upon holding wearing"""
)
FUNCTION_WORDS = (PREPOSITIONS - {"holding", "wearing"}) | word_set(
    """a an the this these those one two three four five six seven eight nine ten another other some
    several many few each both all no away past after before and or but not where what when there
    were be being been having had does do doing it its he she his her him they their them himself
    herself itself themselves"""
)
"""Words that a sentence may repeat; all others are content words."""
LEADING_WORDS = word_set(
    """a an the of with and or his her their its is are at from to by for into onto that who which
    while as two three several some"""
)
"""Words that cannot be the last word of a sentence."""
MIRRORED_WORDS = word_set("left right leftmost rightmost lft rt lefthand righthand")


def clean_karpathy(sentence: str) -> list[str]:
    """K&FF section 4: lower case, everything but letters, digits and spaces dropped."""
    return re.sub(r"[^a-z0-9 ]", "", sentence.lower().replace("\n", " ").replace("\t", " ")).split()


def clean_densecap(phrase: str) -> list[str] | None:
    """DenseCap section 4: characters written out, punctuation and referring phrases dropped; None
    if too long."""
    words = REFERRING.sub("", " ".join(_written_out(phrase)) + " ").split()
    return words if len(words) <= LONGEST_PHRASE else None


def clean_release(phrase: str) -> list[str] | None:
    """The released DenseCap code: as in the paper, but referring phrases are kept."""
    words = _written_out(phrase)
    return words if len(words) <= LONGEST_PHRASE else None


def _written_out(phrase: str) -> list[str]:
    for character, plain in REPLACEMENTS.items():
        phrase = phrase.replace(character, plain)
    return clean_karpathy(phrase)


CLEANING: dict[str, Callable[[str], list[str] | None]] = {
    "densecap": clean_densecap,
    "densecap-release": clean_release,
    "karpathy": clean_karpathy,
}
SMALLEST_COUNT = {"densecap": 15, "densecap-release": 15, "karpathy": 5}


def tells_position(words: Iterable[str]) -> bool:
    """Whether a phrase has position words ("left", "behind"), as referring expressions do."""
    return not POSITION_WORDS.isdisjoint(words)


def breaks_when_mirrored(words: Iterable[str]) -> bool:
    """Whether a phrase would be wrong for the mirrored photo."""
    return not MIRRORED_WORDS.isdisjoint(words)


@dataclass(frozen=True)
class Vocabulary:
    """A word list with its cleaning and its styles; every style of text has its own START token."""

    words: tuple[str, ...]
    cleaning: str = "densecap"
    styles: tuple[str, ...] = ("phrase",)
    lengths: int = 0
    """How many START tokens there are for captions of 1, 2 … words, the last one for this many or
    more; they follow those of the styles."""

    def __post_init__(self) -> None:
        if self.cleaning not in CLEANING:
            raise UsageError(
                f"cleaning is {self.cleaning!r}; it must be one of {', '.join(CLEANING)}"
            )
        check_range(0, lengths=self.lengths)

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        cleaning: str = "densecap",
        smallest_count: int | None = None,
        styles: Sequence[str] = ("phrase",),
        lengths: int = 0,
    ) -> Vocabulary:
        """The words that occur at least `smallest_count` times (default: the paper's), most
        frequent first."""
        clean = CLEANING[cleaning]
        counts = Counter(chain.from_iterable(clean(text) or () for text in texts))
        at_least = SMALLEST_COUNT[cleaning] if smallest_count is None else smallest_count
        kept = [word for word, count in counts.items() if count >= at_least]
        kept.sort(key=lambda word: (-counts[word], word))
        return cls(tuple(kept), cleaning, tuple(styles), lengths)

    def __len__(self) -> int:
        """How many tokens can be predicted: END, `<UNK>` and the words."""
        return len(SPECIAL) + len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=len(SPECIAL))}

    @cached_property
    def content_tokens(self) -> frozenset[int]:
        ids = self._ids
        return frozenset(ids[word] for word in self.words if word not in FUNCTION_WORDS)

    @cached_property
    def leading_tokens(self) -> frozenset[int]:
        ids = self._ids
        return frozenset(ids[word] for word in self.words if word in LEADING_WORDS)

    def clean(self, text: str) -> list[str] | None:
        return CLEANING[self.cleaning](text)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Token ids of cleaned words, without START and END."""
        return [self._ids.get(word, UNKNOWN) for word in words]

    def decode(self, tokens: Iterable[int]) -> str:
        """The words up to END."""
        words = []
        for token in tokens:
            if token == END:
                break
            words.append(
                SPECIAL[token] if token < len(SPECIAL) else self.words[token - len(SPECIAL)]
            )
        return " ".join(words)

    def start(self, style: str | None = None) -> int:
        """The START token of a style (default: the first)."""
        return len(self) + (0 if style is None else self.styles.index(style))

    def start_of_length(self, words: int) -> int:
        """The START token of captions of this many words (at least 1)."""
        assert self.lengths
        assert words >= 1
        return len(self) + len(self.styles) + min(words, self.lengths) - 1

    @property
    def starts(self) -> int:
        """How many START tokens there are."""
        return len(self.styles) + self.lengths

    def to_dict(self) -> dict[str, Any]:
        lengths = (
            {"lengths": self.lengths} if self.lengths else {}
        )  # version 0.1.0 does not know the key
        return {
            "cleaning": self.cleaning,
            "styles": list(self.styles),
            **lengths,
            "words": list(self.words),
        }

    @classmethod
    def from_dict(cls, data: object, place: str = "vocabulary") -> Vocabulary:
        return to_dataclass(cls, data, place, ModelError)
