"""Which regions of a photo show what a phrase says: alignment and likelihood together (open-world
object detection, DenseCap section 4.2).

    choice(r) = fit · f(r) + likelihood · l(r) + place · log s(r)
    p(best)   = σ(photo · F + choice · choice(best) + bias)
    p(r)      = p(best) · exp(choice(r) − choice(best))

f(r): how well the phrase's words fit the region, on average; l(r): the phrase's log-probability per
word; s(r): the region's score; F: the words' fits with their best regions, on average. The weights
are those of `FindConfig`. The first line is good at choosing the region. F is the better measure of
whether the photo shows the phrase at all.

Shapes: P phrases, R regions with the whole photo first, h the size of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import UsageError
from regiontalk.inference import likelihood
from regiontalk.inference.alignment import HEAD, NAMED, place_prior, word_vectors
from regiontalk.inference.calibration import Scores, sigmoid
from regiontalk.inference.rank import SAME_PLACE
from regiontalk.inference.regions import Candidates
from regiontalk.language.vocabulary import FUNCTION_WORDS, UNKNOWN
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.models.settings import FindConfig

MOST_WORDS = 100  # of a phrase
REGIONS = 100  # of a photo, the best ones; DenseCap 4.2


@dataclass(frozen=True)
class Phrase:
    """A phrase as a model reads it."""

    text: str
    tokens: tuple[int, ...]
    """Of the language model."""
    vectors: Floats
    """(W, h), of the words that the alignment head knows; (0, 0) without such a head."""
    unknown: tuple[str, ...]
    """The words that neither of them knows."""


class Evidence(NamedTuple):
    """The terms of a phrase's score for each region."""

    photo_fit: float
    """F"""
    fits: Scores
    """(R,) f"""
    likelihoods: Scores
    """(R,) l"""
    places: Scores
    """(R,) log s"""

    def choices(self, config: FindConfig) -> Scores:
        """(R,)"""
        return (
            config.fit * self.fits
            + config.likelihood * self.likelihoods
            + config.place * self.places
        )

    def probabilities(self, config: FindConfig) -> Scores:
        """(R,) the probability that each region shows the phrase."""
        choices = self.choices(config)
        best = choices.max()
        here = sigmoid(
            config.photo * np.array([self.photo_fit]) + config.choice * best + config.bias
        )
        shown: Scores = here * np.exp(choices - best)
        return shown


def choose(
    likely: Scores, boxes_xyxy: NDArray[np.floating], least: float, top: int | None
) -> NDArray[np.intp]:
    """The regions that show a phrase with a probability of at least `least`, best first. Of several
    in about the same place only the best; none with an empty box."""
    enough = np.flatnonzero((likely >= least) & (geometry.area(boxes_xyxy) > 0))
    if not len(enough):
        return enough
    return enough[geometry.nms(boxes_xyxy[enough], likely[enough], SAME_PLACE)][:top]


def read_phrase(runtime: Runtime, text: str) -> Phrase:
    """Raises `UsageError` if there is nothing to look for."""
    words = likelihood.clean_phrase(text, runtime.words)
    if not 1 <= len(words) <= MOST_WORDS:
        raise UsageError(
            f"a phrase of {len(words)} words; it must have 1 to {MOST_WORDS}",
            hint='"a red umbrella"',
        )
    phrase = to_phrase(runtime, text)
    content = [word for word in words if word not in FUNCTION_WORDS] or words
    if set(content) <= set(phrase.unknown):
        named = ", ".join(repr(word) for word in phrase.unknown[:NAMED])
        raise UsageError(
            f"the model knows none of the words: {named}", hint="it knows English only"
        )
    return phrase


def to_phrase(runtime: Runtime, text: str) -> Phrase:
    """Like `read_phrase`, without its checks."""
    words, vectors = (
        likelihood.clean_phrase(text, runtime.words),
        np.zeros((0, 0), dtype=np.float32),
    )
    tokens = runtime.words.encode(words)
    known = np.array(tokens) != UNKNOWN
    if HEAD in runtime.heads and words:
        read = runtime.head(HEAD).words.encode(words)
        aligned = np.array(read) != UNKNOWN
        vectors, known = word_vectors(runtime, read)[aligned], known | aligned
    unknown = tuple(
        word for word, is_known in zip(words, known.tolist(), strict=True) if not is_known
    )
    return Phrase(text, tuple(tokens), vectors, unknown)


def gather(
    runtime: Runtime, phrases: Sequence[Phrase], seen: Candidates, by_likelihood: bool = True
) -> list[Evidence]:
    """The evidence for each phrase. Without `by_likelihood`, likelihoods are 0, that is, equal for
    all regions."""
    tokens = [phrase.tokens for phrase in phrases]
    likelihoods = np.zeros((len(phrases), len(seen.scores)))
    if by_likelihood:
        likelihoods = likelihood.per_word(
            likelihood.log_probabilities(runtime, seen.state, tokens), tokens
        )
    places = place_prior(seen.scores, 1.0)
    return [
        Evidence(*fits(one, seen), own, places)
        for one, own in zip(phrases, likelihoods, strict=True)
    ]


def fits(phrase: Phrase, seen: Candidates) -> tuple[float, Scores]:
    """How well the words fit the photo, and each region (R,); 0 where no word is known."""
    if seen.vectors is None or not len(phrase.vectors):
        return 0.0, np.zeros(len(seen.scores))
    products = (seen.vectors @ phrase.vectors.T).astype(np.float64)  # (R, W)
    return float(products.max(axis=0).mean()), products.mean(axis=1)
