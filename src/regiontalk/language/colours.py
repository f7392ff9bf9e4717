"""The colour words of a caption: which ones it says, and the caption with likelier ones.

Colours stand before a noun ("a black and white dog") or after "in" ("a woman in red"). "An orange"
says no colour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from regiontalk.language.articles import indefinite_article
from regiontalk.language.head_nouns import head_place, named_classes
from regiontalk.language.vocabulary import FUNCTION_WORDS, PREPOSITIONS, word_set

COLOURS = (
    *("black", "white", "gray", "red", "orange", "yellow", "green"),
    *("blue", "purple", "pink", "brown", "tan", "blond"),
)
COLOUR_OF = {colour: colour for colour in COLOURS} | {
    "grey": "gray",
    "silver": "gray",
    "maroon": "red",
    "turquoise": "blue",
    "teal": "blue",
    "lavender": "purple",
    "beige": "tan",
    "cream": "tan",
    "khaki": "tan",
    "blonde": "blond",
}
"""Colour word -> one of `COLOURS`."""
_SHADES = word_set("dark light bright pale")  # "dark blue"
_SUFFIXES = word_set("colored coloured haired faced eyed headed skinned furred")  # "white haired"
_NO_NOUNS = FUNCTION_WORDS | PREPOSITIONS
PEOPLE = "person"


class _Run(NamedTuple):
    """Colour words that belong together, with all that goes if none of them is kept."""

    first: int
    end: int
    """The place after the last word."""
    colours: tuple[int, ...]
    """The places of the colour words."""


def colours_said(words: Sequence[str]) -> list[str]:
    """The `COLOURS` that a caption says of things, each once."""
    places = chain.from_iterable(run.colours for run in _runs(words))
    return list(dict.fromkeys(COLOUR_OF[words[place]] for place in places))


def with_likely_colours(
    words: Sequence[str], unlikely: Collection[str], instead: str | None = None
) -> dict[int, str]:
    """Place -> word of a caption without the `unlikely` ones of `COLOURS`, and without a colour
    that was said just before ("white and white"); articles fit again. A thing that a caption is
    about, and that is left without a colour, has the colour `instead`."""
    said = dict(enumerate(words))
    for run in _runs(words):
        kept = list[int]()
        for place in run.colours:
            is_repeated = words[place] in [words[before] for before in kept]
            if COLOUR_OF[words[place]] not in unlikely and not is_repeated:
                kept.append(place)
        if len(kept) == len(run.colours):
            continue
        left = _left(words, run, kept)
        if not kept and instead is not None and _may_be_replaced(words, run):
            said[run.colours[0]] = instead
            left = {run.colours[0]}
        for place in {*range(run.first, run.end)} - left:
            del said[place]
    places = list(said)
    for place, following in pairwise(places):
        is_changed = following != place + 1 or said[following] != words[following]
        if said[place] in ("a", "an") and is_changed:
            after = [said[later] for later in places if later > place]
            said[place] = indefinite_article(" ".join(after))
    return said


def _may_be_replaced(words: Sequence[str], run: _Run) -> bool:
    """Whether the colours are of the thing that a caption is about, and not those of a person:
    "a white woman" would say something else."""
    is_of_hair = "blond" in [COLOUR_OF[words[place]] for place in run.colours]
    is_before_noun = run.end <= head_place(words)
    return is_before_noun and not is_of_hair and PEOPLE not in named_classes(" ".join(words))


def _runs(words: Sequence[str]) -> Iterator[_Run]:
    end = 0
    for place, word in enumerate(words):
        if place >= end and word in COLOUR_OF:
            run = _run_from(words, place)
            end = run.end
            if run.colours:
                yield run


def _run_from(words: Sequence[str], first: int) -> _Run:
    """The run whose first colour is at `first`; without colours if that word is a noun."""
    colours = [first]
    end = first + 1
    while (following := _next_colour(words, end)) is not None:
        colours.append(following)
        end = following + 1
    if end < len(words) and words[end] in _SUFFIXES:
        end += 1
    start = first - 1 if first and words[first - 1] in _SHADES else first
    has_noun = end < len(words) and words[end] not in _NO_NOUNS
    if has_noun:
        return _Run(start, end, tuple(colours))
    if start and words[start - 1] == "in":  # "a woman in red"
        return _Run(start - 1, end, tuple(colours))
    return _Run(start, end, ())


def _next_colour(words: Sequence[str], place: int) -> int | None:
    """The place of the colour that goes on at `place`: "blue", "and blue", "and dark blue"."""
    if words[place : place + 1] == ["and"]:
        place += 1
    if place < len(words) and words[place] in _SHADES:
        place += 1
    return place if place < len(words) and words[place] in COLOUR_OF else None


def _left(words: Sequence[str], run: _Run, kept: Sequence[int]) -> set[int]:
    """The places of a run that stay if only the colours at `kept` do."""
    if not kept:
        return set()
    places = range(run.first, run.end)
    ands = [place for place in places if words[place] == "and"]
    left = {*kept, *(ands[-1:] if len(kept) > 1 else ())}
    left.update(place - 1 for place in kept if words[place - 1] in _SHADES)
    left.update(place for place in places if words[place] in (*_SUFFIXES, "in"))
    return left
