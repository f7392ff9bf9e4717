"""Taught words: how likely a region shows a word that was taught with a few examples.

    z      = the place of the region in a space where regions that look alike are close
             (`models.background`), a vector of length 1
    s(w)   = z · m(w), m(w) being the mean of z over the word's examples, of length 1
    l(w)   = fit · s(w) − usual · u(w) + examples · ln n(w) + bias
    p(w)   = σ(l(w))

u(w) is how close the background comes to the word: the mean of its `CLOSEST_SHARE` highest s(w). A
word that resembles many everyday things must fit better. n(w) is the number of examples, at most
`MAX_COUNTED`. A region that is closer to an example of what a word does *not* mean than to all of
the word's own examples is not it: p(w) = 0.

Examples of one word differ along directions that say little about what a thing is: light, place,
side. The examples of all words together show which directions these are, and the space is turned
so that they count less (`TaughtWords.sharpened`, linear discriminant analysis). The more examples
there are, the more this helps.

The four numbers are fitted by `regiontalk evaluate teach` on words that the model was never taught.
There are two sets of them: for region codes, and for the vectors of the alignment head, which an
index stores.

Shapes: B regions, D the size of a code or vector, k axes of the space, W words, E examples, N
regions of the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores, sigmoid
from regiontalk.language.articles import as_caption
from regiontalk.models.background import Space, to_length_1
from regiontalk.models.runtime import Floats
from regiontalk.models.word_book import WordBook
from regiontalk.results import Region

CLOSEST_SHARE = 0.01
MAX_COUNTED = 10
EVEN_SPREAD = 0.45
"""How much the examples of a word are taken to differ along each axis before any are seen, so that
a few examples turn the space only a little."""
SURE = 0.5
"""A taught word is said from this probability on."""
PART = 0.5
"""Of two regions, the share of the smaller one that lies in the other if one is a part of it."""
WEAK_EXAMPLES = 3
"""A word with fewer examples is weak."""
WEAK_SHARE = 0.5
"""A word is weak if fewer of its examples are recognised by the others."""


class Weights(NamedTuple):
    """The fitted numbers of l(w)."""

    fit: float
    usual: float
    examples: float
    bias: float


OF_CODES = Weights(fit=13.792, usual=6.896, examples=0.042, bias=-3.572)
OF_VECTORS = Weights(fit=14.195, usual=7.098, examples=0.091, bias=-3.282)


class TaughtWord(NamedTuple):
    """What was taught about a word."""

    word: str
    own: Floats
    """(E, k) z of its examples."""
    others: Floats
    """(E, k) z of the examples of what it does not mean."""

    def turned(self, turn: Floats) -> TaughtWord:
        """The word in `Space.turned`."""
        return TaughtWord(self.word, to_length_1(self.own @ turn), to_length_1(self.others @ turn))


@dataclass(frozen=True)
class TaughtWords:
    """Recognises taught words."""

    space: Space
    words: tuple[TaughtWord, ...]
    weights: Weights
    middles: Floats
    """(W, k) m"""
    offsets: Scores
    """(W,) l(w) − fit · s(w)"""

    @classmethod
    def of(cls, book: WordBook, codes: Floats, space: Space, weights: Weights) -> TaughtWords:
        """The words of a book that have examples; `codes` (E, D) are its codes, or vectors."""
        z = space.place(codes)
        is_it = np.array([one.is_it for one in book.examples])
        words = []
        for word in book.words:
            rows = np.array(book.rows_of(word))
            own = z[rows[is_it[rows]]]
            if len(own):
                words.append(TaughtWord(word, own, z[rows[~is_it[rows]]]))
        return cls.compare(words, space, weights)

    @classmethod
    def compare(cls, words: Sequence[TaughtWord], space: Space, weights: Weights) -> TaughtWords:
        """Words by z of their examples."""
        middles = to_length_1(np.stack([word.own.mean(axis=0) for word in words]))
        usual = closest(space.places, middles).astype(np.float64)
        counts = np.array([min(len(word.own), MAX_COUNTED) for word in words])
        offsets = weights.examples * np.log(counts) - weights.usual * usual + weights.bias
        return cls(space, tuple(words), weights, middles, offsets)

    def sharpened(self) -> TaughtWords:
        """The same words in the space where directions along which the examples of one word differ
        count less: W^(-1/2), W being their scatter within words."""
        apart = np.concatenate([word.own - word.own.mean(axis=0) for word in self.words])
        within = apart.T.astype(np.float64) @ apart + EVEN_SPREAD * np.eye(apart.shape[1])
        turn = np.linalg.cholesky(np.linalg.inv(within)).astype(np.float32)
        words = [word.turned(turn) for word in self.words]
        return self.compare(words, self.space.turned(turn), self.weights)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(word.word for word in self.words)

    def probabilities(self, codes: Floats) -> Scores:
        """Codes (B, D) -> (B, W) how likely each region shows each word."""
        return self.probabilities_at(self.space.place(codes))

    def probabilities_at(self, z: Floats) -> Scores:
        """z (B, k) -> (B, W)"""
        fits = z @ self.middles.T
        likely = sigmoid(self.weights.fit * fits.astype(np.float64) + self.offsets)
        for column, word in enumerate(self.words):
            if len(word.others):
                likely[_is_closer(z, word.others, word.own), column] = 0.0
        return likely

    def one(self, name: str) -> TaughtWords:
        """The word of this name alone."""
        column = self.names.index(name)
        return replace(
            self,
            words=self.words[column : column + 1],
            middles=self.middles[column : column + 1],
            offsets=self.offsets[column : column + 1],
        )

    def by_the_others(self) -> list[Scores]:
        """The probabilities (E, W) of each word's examples, each without itself: how well the word
        is known. A word's only example has nothing to be recognised by: 0."""
        return [self._without_themselves(column) for column in range(len(self.words))]

    def _without_themselves(self, column: int) -> Scores:
        own = self.words[column].own
        likely = self.probabilities_at(own)
        rest = len(own) - 1
        if not rest:
            likely[:, column] = 0.0
            return likely
        middles = to_length_1(own.sum(axis=0) - own)  # (E, k) of the other examples
        fits = (own * middles).sum(axis=1).astype(np.float64)
        fewer = np.log(min(rest, MAX_COUNTED)) - np.log(min(rest + 1, MAX_COUNTED))
        offset = self.offsets[column] + self.weights.examples * fewer
        likely[:, column] = sigmoid(self.weights.fit * fits + offset)
        return likely


def closest(background: Floats, middles: Floats) -> Floats:
    """(W,) u(w): z of the background (N, k) and m (W, k)."""
    count = max(1, int(CLOSEST_SHARE * len(background)))
    fits = background @ middles.T
    usual: Floats = np.partition(fits, -count, axis=0)[-count:].mean(axis=0)
    return usual


def _is_closer(z: Floats, others: Floats, own: Floats) -> NDArray[np.bool_]:
    """(B,) whether z (B, k) is closer to one of the `others` than to all of a word's own."""
    closer: NDArray[np.bool_] = (z @ others.T).max(axis=1) > (z @ own.T).max(axis=1)
    return closer


def say_taught(regions: Sequence[Region], likely: Scores, names: Sequence[str]) -> list[Region]:
    """The regions, those that show a taught word with that word as caption and name; `likely` (R,
    W). Of several words the likeliest is said; of equally likely ones, the first that was taught.
    """
    return [
        region if word is None else called(region, names[word], probability)
        for region, (word, probability) in zip(regions, words_to_say(regions, likely), strict=True)
    ]


def words_to_say(
    regions: Sequence[Region], likely: Scores, captioned: Sequence[int | None] | None = None
) -> list[tuple[int | None, float]]:
    """The number of the word to say of each region, None for those that show none of them, and how
    likely it is; `likely` (R, W). Parts of a thing, and its surroundings, are not called by it,
    unless their caption says it: `captioned`, the number of the word in each caption."""
    best = likely.argmax(axis=1)
    sure = likely.max(axis=1)
    boxes = np.array([region.xyxy for region in regions]).reshape(-1, 4)
    by_caption = np.zeros(len(regions), dtype=bool)
    if captioned is not None:
        by_caption = np.array([word == said for word, said in zip(best, captioned, strict=True)])
    parts = are_parts(boxes, sure + by_caption, best) & ~by_caption
    shows = (sure >= SURE) & ~parts
    return [
        (word if is_shown else None, probability)
        for word, probability, is_shown in zip(
            best.tolist(), sure.tolist(), shows.tolist(), strict=True
        )
    ]


def are_parts(
    boxes_xyxy: NDArray[np.floating], likely: Scores, words: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """(R,) whether a region lies in, or around, one that shows the same word and is likelier: parts
    of a thing and its surroundings resemble it."""
    boxes = boxes_xyxy.astype(np.float64)
    overlaps = geometry.iou(boxes, boxes)
    areas = geometry.area(boxes)
    common = overlaps * (areas[:, None] + areas) / (1 + overlaps)  # IoU = common / (a + b − common)
    is_inside = common >= PART * np.minimum(areas[:, None], areas)
    is_likelier = (words[:, None] == words) & (likely > likely[:, None])
    parts: NDArray[np.bool_] = (is_inside & is_likelier).any(axis=1)
    return parts


def without_parts(likely: Scores, boxes_xyxy: NDArray[np.floating]) -> Scores:
    """The probabilities (R,) of one word, 0 for parts and surroundings of likelier regions."""
    parts = are_parts(boxes_xyxy, likely, np.zeros(len(likely), dtype=np.intp))
    return np.where(parts, 0.0, likely)


def called(region: Region, word: str, probability: float) -> Region:
    """The region with a taught word as its caption and name, if it is likely to show it."""
    if probability < SURE:
        return region
    return replace(
        region,
        caption=as_caption(word),
        logprob=None,
        confidence=probability,
        name=word,
        name_confidence=probability,
        taught=True,
    )
