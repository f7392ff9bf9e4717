"""Alt texts for screen readers: the sentence if the model is sure of it, else the regions that it
is sure of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regiontalk.results import Region, Sentence

SURE_WORD = 0.4
"""The least probability of a sentence's words, as a geometric mean. On 250 dev photos of Flickr8k,
people's sentences have 66 % of the content words of sentences above it, and 52 % of those below."""
SURE_REGION = (
    0.5  # minimum score of a region, and minimum confidence of its caption if the model has one
)
MOST_REGIONS = 4  # a screen reader reads the text aloud, so it should be short
NOTHING = "a photo"


def choose_alt_text(sentence: Sentence | None, regions: Sequence[Region]) -> str:
    """The sentence if it is sure, else sure regions ("a dog, a wall and a man"), else an unsure
    sentence or region."""
    if sentence is not None and word_probability(sentence) >= SURE_WORD:
        return sentence.sentence
    sure = list(dict.fromkeys(region.caption for region in regions if _is_sure(region)))[
        :MOST_REGIONS
    ]
    if sure:
        return " and ".join(part for part in (", ".join(sure[:-1]), sure[-1]) if part)
    said = [sentence.sentence] if sentence is not None else []
    return next(iter([*said, *(region.caption for region in regions)]), NOTHING)


def word_probability(sentence: Sentence) -> float:
    """The geometric mean of its words' probabilities, END included."""
    return math.exp(sentence.logprob / (len(sentence.sentence.split()) + 1))


def _is_sure(region: Region) -> bool:
    return (
        min(region.score, region.score if region.confidence is None else region.confidence)
        >= SURE_REGION
    )
