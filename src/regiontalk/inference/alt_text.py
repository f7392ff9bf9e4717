"""Alt texts for screen readers: the sentence if the model is sure of it, else the regions that it
is sure of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regiontalk.results import Region, Sentence, Shown

MAX_REGIONS = 4  # a screen reader reads the text aloud, so it should be short
EMPTY_TEXT = "a photo"
PERHAPS = "perhaps"


class Spoken(NamedTuple):
    """An alt text, and whether the model is sure of it."""

    text: str
    sure: bool


def choose_alt_text(sentence: Sentence | None, regions: Sequence[Region], shown: Shown) -> Spoken:
    """The sentence if it is sure, else sure regions ("a dog, a wall and a man"), else "perhaps" and
    the unsure sentence or region: a listener cannot see that it is wrong. Sentences do not have
    taught words, which follow them."""
    taught = dict.fromkeys(region.caption for region in regions if region.taught)
    if sentence is not None and sentence.sure:
        text = f"{sentence.sentence}; {_listed(list(taught)[:MAX_REGIONS])}" if taught else ""
        return Spoken(text or sentence.sentence, True)
    captions = dict.fromkeys(region.caption for region in regions if shown.is_sure(region))
    if captions:
        return Spoken(_listed(list(captions)[:MAX_REGIONS]), True)
    if sentence is not None:
        return Spoken(f"{PERHAPS} {sentence.sentence}", False)
    if regions:
        return Spoken(f"{PERHAPS} {regions[0].caption}", False)
    return Spoken(EMPTY_TEXT, True)


def _listed(captions: Sequence[str]) -> str:
    *first, last = captions
    return f"{', '.join(first)} and {last}" if first else last
