"""A query, and the photos that answer it.

A query is one or more phrases with ";" between them, all of which a photo should show, and phrases after "-" that it
should not: `a dog; a red ball -beach -"tennis court"`. A photo's score is the probability that it shows what is asked:
that of each phrase (`model_folder.SearchConfig`), all multiplied, those of unwanted ones taken from 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import maxsim
from regiontalk.aligner import HEAD, AlignmentHead, ReadSentence, word_vectors
from regiontalk.calibration import sigmoid
from regiontalk.errors import UsageError
from regiontalk.model_folder import AlignmentPredictionConfig, SearchConfig
from regiontalk.runtime import Runtime
from regiontalk.search.store import Floats, Scored, Store, StoredPhoto, Where
from regiontalk.typed import to_dataclass
from regiontalk.types import Hit, Hits, WordMatch
from regiontalk.vocabulary import FUNCTION_WORDS, UNKNOWN

MOST_PHRASES = 20
UNWANTED = re.compile(r'(?:(?<=\s)|^)-(?:"([^"]*)"|(\S+))')

Probabilities = NDArray[np.float64]


class Parsed(NamedTuple):
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


def parse(query: str) -> Parsed:
    unwanted = tuple(quoted or word for quoted, word in UNWANTED.findall(query))
    wanted = tuple(part.strip() for part in UNWANTED.sub(" ", query).split(";") if part.strip())
    if not wanted:
        raise UsageError("the query names nothing to look for", hint='for example: "a red umbrella -people"')
    if len(wanted) + len(unwanted) > MOST_PHRASES:
        raise UsageError(f"{len(wanted) + len(unwanted)} phrases in one query; {MOST_PHRASES} at most")
    return Parsed(wanted, unwanted)


@dataclass(frozen=True)
class Phrase:
    """A phrase with the vectors (W, h) of its words that the model knows."""

    read: ReadSentence
    vectors: Floats
    content: tuple[str, ...]
    """Words that stand in captions if the photo shows what they name."""


def read_phrase(runtime: Runtime, text: str) -> Phrase:
    read, words = AlignmentHead(runtime).read(text), runtime.head(HEAD).words
    known = np.array(read.tokens) != UNKNOWN
    clean = [clean[0] for piece in read.pieces if (clean := words.clean(piece))]
    content = dict.fromkeys(word for word in clean if word not in FUNCTION_WORDS)
    return Phrase(read, word_vectors(runtime, read.tokens)[known], tuple(content))


def search_config(runtime: Runtime) -> SearchConfig:
    settings = runtime.head(HEAD).info.settings
    return to_dataclass(AlignmentPredictionConfig, settings, "heads.words.settings").search or SearchConfig()


@dataclass(frozen=True)
class Searcher:
    """Asks an index in a model's words."""

    store: Store
    runtime: Runtime

    def search(self, query: str, top: int, threshold: float | None, where: Where) -> Hits:
        """The best photos that show each wanted phrase with a probability of at least `threshold` (default: the
        model's), and none of the unwanted ones."""
        parsed, config = parse(query), search_config(self.runtime)
        wanted, unwanted = ([read_phrase(self.runtime, text) for text in texts] for texts in parsed)
        least = config.likely if threshold is None else threshold
        with self.store.reading():
            scored, likely = self._probabilities([*wanted, *unwanted], where, config)
            likely[:, len(wanted) :] = 1 - likely[:, len(wanted) :]
            together = likely.prod(axis=1)
            enough = (likely[:, : len(wanted)] >= least).all(axis=1)
            if config.likely:
                enough &= (likely[:, len(wanted) :] > 1 - config.likely).all(axis=1)
            best = _best(np.where(enough, together, -1.0), min(top, int(enough.sum())))
            chosen = scored.ids[best].tolist()
            photos, vectors = self.store.read(chosen), self.store.vectors(chosen)
        found = zip(photos, vectors, together[best].tolist(), strict=True)
        hits = [self._hit(photo, own, score, wanted) for photo, own, score in found]
        unknown = dict.fromkeys(word for phrase in (*wanted, *unwanted) for word in phrase.read.unknown)
        closest = float(together.max()) if len(together) else None
        return Hits(query, tuple(hits), scored.searched, tuple(unknown), closest)

    def _probabilities(
        self, phrases: Sequence[Phrase], where: Where, config: SearchConfig
    ) -> tuple[Scored, Probabilities]:
        """Photos (P,), and how likely each shows each phrase, (P, phrases)."""
        scored, fits, shares = self.evidence(phrases, where)
        return scored, sigmoid(config.fit * fits + config.captions * shares + config.bias)

    def evidence(self, phrases: Sequence[Phrase], where: Where) -> tuple[Scored, Probabilities, Probabilities]:
        """Photos (P,); how well each phrase's words fit the regions of each, on average, and the share of its words in
        the captions, both (P, phrases)."""
        words, said = np.concatenate([phrase.vectors for phrase in phrases]), [phrase.content for phrase in phrases]
        scored = self.store.word_scores(words, where, said)
        ends = np.cumsum([len(phrase.vectors) for phrase in phrases])
        fits = [part.mean(axis=1, dtype=np.float64) for part in np.split(scored.scores, ends[:-1], axis=1)]
        shares = [self._shares_in_captions(phrase, scored) for phrase in phrases]
        return scored, np.stack(fits, axis=1), np.stack(shares, axis=1)

    def _shares_in_captions(self, phrase: Phrase, scored: Scored) -> Probabilities:
        """(P,) the share of the phrase's content words in a photo's captions; rare words count for more."""
        shares, total = np.zeros(len(scored.ids)), 0.0
        for word in phrase.content:
            said = self.store.said(word, scored)
            weight = math.log(1 + scored.searched / (1 + said.photos))
            shares += weight * said.among
            total += weight
        return shares / (total or 1)

    def _hit(self, photo: StoredPhoto, vectors: Floats, score: float, wanted: Sequence[Phrase]) -> Hit:
        """Words stay together in regions as in `align` (eq. 12)."""
        beta = AlignmentHead(self.runtime).beta(None)
        words: list[WordMatch] = []
        found: dict[int, int] = {}  # row -> number among the regions of the hit
        for phrase in wanted:
            fits = maxsim.similarities(vectors[None], phrase.vectors)[0].T  # (W, R)
            rows = maxsim.align_words(fits, beta).tolist()
            matches = iter(zip(rows, fits, strict=True))
            for place, token in zip(phrase.read.places, phrase.read.tokens, strict=True):
                match = WordMatch(phrase.read.pieces[place], 0.0, None)
                if token != UNKNOWN:
                    row, fit = next(matches)
                    match = replace(match, score=float(fit[row]), region=found.setdefault(row, len(found)))
                words.append(match)
        return _to_hit(photo, score, tuple(words), found)

    def like(self, vector: Floats, top: int, where: Where) -> Hits:
        """The photos with regions most like one with a vector (h,), by their cosine."""
        with self.store.reading():
            length = float(np.linalg.norm(vector)) or 1.0
            scored = self.store.word_scores(vector[None] / length, where)
            best = _best(scored.scores[:, 0], top)
            chosen = scored.ids[best].tolist()
            photos, vectors = self.store.read(chosen), self.store.vectors(chosen)
        hits = []
        for photo, own in zip(photos, vectors, strict=True):
            cosines = own @ vector / (length * np.linalg.norm(own, axis=1))
            row = int(cosines.argmax())
            hits.append(_to_hit(photo, float(cosines[row]), (), [row]))
        hits.sort(key=lambda hit: -hit.score)
        return Hits("", tuple(hits), scored.searched, (), hits[0].score if hits else None)


def _to_hit(photo: StoredPhoto, score: float, words: tuple[WordMatch, ...], rows: Iterable[int]) -> Hit:
    regions = tuple(photo.regions[row] for row in rows)
    return Hit(photo.path, score, words, regions, None, photo.key, *photo.size)


def _best(scores: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """The places of the highest scores, falling; of equal ones the first."""
    if count < len(scores):
        cut = np.partition(scores, -count)[-count] if count else np.inf
        places = np.flatnonzero(scores >= cut)
    else:
        places = np.arange(len(scores))
    return places[np.argsort(-scores[places], kind="stable")][:count]
