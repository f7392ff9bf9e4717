"""Queries, and the scores of photos for them.

A query has one or more phrases separated by ";", all of which a photo should show, and phrases
after "-" that it should not show: `a dog; a red ball -beach -"tennis court"`. A photo's score is
the probability that it matches the query: the product of the probabilities of its phrases
(`models.settings.SearchConfig`), 1 − p for unwanted ones.

Vectors and captions choose the best photos; the language model then scores these again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import UsageError
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import HEAD, AlignmentHead, ReadSentence, word_vectors
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.sentences import SentenceHead
from regiontalk.io.typed import to_dataclass
from regiontalk.language.object_names import caption_words, singulars
from regiontalk.language.vocabulary import FUNCTION_WORDS, UNKNOWN
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import AlignmentPredictionConfig, SearchConfig
from regiontalk.results import Hit, Hits, Shown, WordMatch
from regiontalk.search.store import Floats, Ids, Scored, Store, StoredPhoto, Where

MOST_PHRASES = 20
LEAST_ALIKE = 0.6
"""The cosine from which the regions of photos are called alike. Measured with 159 objects of 70 dev
photos of COCO as queries, in 140 photos: of the photos above it, 52 % show an object of the same class (of all
photos 4 %), people left out; with people 71 % (33 %)."""
SECOND_LOOK = 100  # best photos that the language model scores too
UNWANTED = re.compile(r'(?:(?<=\s)|^)-(?:"([^"]*)"|(\S+))')

Probabilities = NDArray[np.float64]


class Parsed(NamedTuple):
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


def parse(query: str) -> Parsed:
    unwanted = tuple(quoted or word for quoted, word in UNWANTED.findall(query))
    wanted = tuple(part.strip() for part in UNWANTED.sub(" ", query).split(";") if part.strip())
    if not wanted:
        raise UsageError(
            "the query has nothing to look for", hint='for example: "a red umbrella -people"'
        )
    if len(wanted) + len(unwanted) > MOST_PHRASES:
        raise UsageError(
            f"{len(wanted) + len(unwanted)} phrases in one query; the limit is {MOST_PHRASES}"
        )
    return Parsed(wanted, unwanted)


@dataclass(frozen=True)
class Phrase:
    """A phrase without the words that the model does not know."""

    read: ReadSentence
    words: tuple[str, ...]
    """(W,)"""
    vectors: Floats
    """(W, h)"""
    content: Mapping[str, float]
    """Content words, which captions have if the photo shows them, and how rare each of them is."""


def read_phrase(runtime: Runtime, text: str) -> Phrase:
    read, vocabulary = AlignmentHead(runtime).read(text), runtime.head(HEAD).words
    tokens = [token for token in read.tokens if token != UNKNOWN]
    words = tuple(vocabulary.decode([token]) for token in tokens)
    # Words are numbered from the most frequent one on: by Zipf's law, -log frequency is the log of
    # the number.
    content = {
        word: math.log(token)
        for word, token in zip(words, tokens, strict=True)
        if word not in FUNCTION_WORDS
    }
    return Phrase(read, words, word_vectors(runtime, tokens), content)


def search_config(runtime: Runtime) -> SearchConfig:
    settings = runtime.head(HEAD).info.settings
    return (
        to_dataclass(AlignmentPredictionConfig, settings, "heads.words.settings").search
        or SearchConfig()
    )


class Evidence(NamedTuple):
    """The terms of the scores of phrases in the best photos."""

    searched: int
    """Number of photos that were searched."""
    ids: Ids
    """(P,)"""
    fits: Probabilities
    """(P, phrases) how well the phrase's words fit the photo's regions, on average."""
    captions: Probabilities
    """(P, phrases) the share of its words in the captions."""
    likelihoods: Probabilities
    """(P, phrases) log-likelihood ratio of the phrase: this photo against an empty one."""

    def probabilities(self, config: SearchConfig) -> Probabilities:
        """(P, phrases) the probability that the photo shows it."""
        second = config.captions * self.captions + config.likelihood * self.likelihoods
        return sigmoid(config.fit * self.fits + second + config.bias)


@dataclass(frozen=True)
class Searcher:
    """Searches an index with the words of a model."""

    store: Store
    runtime: Runtime

    def search(self, query: str, top: int, threshold: float | None, where: Where) -> Hits:
        """The best photos, the likely ones first, and none that show an unwanted phrase.

        A photo is likely if each wanted phrase has at least the probability of the model's line, or
        stands in a shown caption. `threshold`: only photos with at least this probability.
        """
        parsed, config = parse(query), search_config(self.runtime)
        wanted, unwanted = ([read_phrase(self.runtime, text) for text in texts] for texts in parsed)
        with self.store.reading():
            evidence = self.evidence(wanted, unwanted, where, config, max(top, SECOND_LOOK))
            shows, together = _all_shown(evidence.probabilities(config), len(wanted))
            is_kept = (shows[:, : len(wanted)] >= (threshold or 0.0)).all(axis=1)
            if config.likely:
                is_kept &= (shows[:, len(wanted) :] > 1 - config.likely).all(axis=1)
            is_likely = np.asarray((shows[:, : len(wanted)] >= config.likely).all(axis=1))
            below = np.flatnonzero(is_kept & ~is_likely)
            is_likely[below] = self._are_captioned(wanted, evidence.ids[below])
            order = np.where(is_kept, together + is_likely, -1.0)  # likely ones first
            best = _best(order, min(top, int(is_kept.sum())))
            ids = evidence.ids[best].tolist()
            photos = self.store.read(ids)
            vectors = self.store.vectors(ids)
            hits = [
                replace(
                    self._hit(photo, own, float(together[row]), wanted), likely=bool(is_likely[row])
                )
                for photo, own, row in zip(photos, vectors, best, strict=True)
            ]
        unknown = dict.fromkeys(
            word for phrase in (*wanted, *unwanted) for word in phrase.read.unknown
        )
        closest = float(together.max()) if len(together) else None
        return Hits(query, tuple(hits), evidence.searched, tuple(unknown), closest)

    def evidence(
        self,
        wanted: Sequence[Phrase],
        unwanted: Sequence[Phrase],
        where: Where,
        config: SearchConfig,
        count: int,
    ) -> Evidence:
        """The `count` best photos by their vectors and captions; for the `SECOND_LOOK` best also by
        exact vectors and the language model."""
        phrases = [*wanted, *unwanted]
        words, said = (
            np.concatenate([phrase.vectors for phrase in phrases]),
            [[*phrase.content] for phrase in phrases],
        )
        scored = self.store.word_scores(words, where, said)
        shares = np.stack([self._shares_in_captions(phrase, scored) for phrase in phrases], axis=1)
        first = sigmoid(
            config.fit * _mean_fits(scored.scores, phrases) + config.captions * shares + config.bias
        )
        best = _best(_all_shown(first, len(wanted))[1], min(count, len(first)))
        again = scored.ids[best[:SECOND_LOOK]]
        scores = scored.scores[best]
        if not scored.exact:
            for row, own in enumerate(self.store.vectors(again.tolist())):
                scores[row] = maxsim.word_scores(own[None], words)[0]
        likelihoods = self._likelihoods(phrases, again)
        if len(best) > len(again):  # the rest is not scored again: it stays behind
            rest = np.tile(likelihoods.min(axis=0), (len(best) - len(again), 1))
            likelihoods = np.concatenate([likelihoods, rest])
        return Evidence(
            scored.searched,
            scored.ids[best],
            _mean_fits(scores, phrases),
            shares[best],
            likelihoods,
        )

    def _likelihoods(self, phrases: Sequence[Phrase], ids: Ids) -> Probabilities:
        """(P, phrases): log-likelihood ratio per word of each phrase by the language model: the
        photo against an empty one."""
        found = np.zeros((len(ids), len(phrases)))
        if self.store.model.state and len(ids):
            head, scenes = SentenceHead(self.runtime), self.store.states(ids.tolist())
            for column, phrase in enumerate(phrases):
                text = " ".join(phrase.words[: head.settings.longest])
                found[:, column] = head.gains(text, scenes, self.store.model.regions)
        return found

    def _shares_in_captions(self, phrase: Phrase, scored: Scored) -> Probabilities:
        """(P,) the share of the phrase's content words in a photo's captions; rare words count for
        more."""
        shares = np.zeros(len(scored.ids))
        for word, rarity in phrase.content.items():
            shares += rarity * self.store.said(word, scored)
        return shares / (sum(phrase.content.values()) or 1)

    def _are_captioned(self, wanted: Sequence[Phrase], ids: Ids) -> NDArray[np.bool_]:
        """(P,) whether shown captions of the photos have the content words of each phrase."""
        phrases = [[caption_words(word) for word in phrase.content] for phrase in wanted]
        if not all(phrases):
            return np.zeros(len(ids), dtype=bool)
        fitted = self.runtime.info.prediction.confidence
        shown = Shown(confidence=0.0 if fitted is None else fitted.likely)
        photos = self.store.read(ids.tolist())
        return np.array([_is_captioned(photo, shown, phrases) for photo in photos], dtype=bool)

    def _hit(
        self, photo: StoredPhoto, vectors: Floats, score: float, wanted: Sequence[Phrase]
    ) -> Hit:
        """Like `align`, from stored vectors: neighbouring words stay together (eq. 12) and prefer
        regions with a high score, but there are no likelihoods."""
        head = AlignmentHead(self.runtime)
        beta, prior = head.settings.beta, head.place_prior(np.array(photo.raw_scores))
        words: list[WordMatch] = []
        found: dict[int, int] = {}  # row -> number among the regions of the hit
        for phrase in wanted:
            fits = maxsim.similarities(vectors[None], phrase.vectors)[0].T  # (W, R)
            rows = maxsim.align_words(fits + prior, beta).tolist()
            matches = iter(zip(rows, fits, strict=True))
            for place, token in zip(phrase.read.places, phrase.read.tokens, strict=True):
                match = WordMatch(phrase.read.pieces[place], 0.0, None)
                if token != UNKNOWN:
                    row, fit = next(matches)
                    match = replace(
                        match, score=float(fit[row]), region=found.setdefault(row, len(found))
                    )
                words.append(match)
        return _to_hit(photo, score, tuple(words), found)

    def like(self, vector: Floats, top: int, where: Where) -> Hits:
        """The photos with the regions most similar to a vector (h,), by cosine; `likely` from
        `LEAST_ALIKE` on."""
        with self.store.reading():
            length = float(np.linalg.norm(vector)) or 1.0
            scored = self.store.word_scores(vector[None] / length, where)
            ids, hits = scored.ids[_best(scored.scores[:, 0], top)].tolist(), []
            for photo, own in zip(self.store.read(ids), self.store.vectors(ids), strict=True):
                cosines = own @ vector / (length * np.linalg.norm(own, axis=1))
                row = int(cosines.argmax())
                hit = _to_hit(photo, float(cosines[row]), (), [row])
                hits.append(replace(hit, likely=hit.score >= LEAST_ALIKE))
        hits.sort(key=lambda hit: -hit.score)
        return Hits("", tuple(hits), scored.searched, (), hits[0].score if hits else None)


def _is_captioned(
    photo: StoredPhoto, shown: Shown, phrases: Sequence[Sequence[frozenset[str]]]
) -> bool:
    """Whether each phrase has a shown caption with all its words; a word is the set of its
    forms."""
    captions = []
    for region in shown.choose(photo.regions):
        words = region.caption.split()
        captions.append({form for word in words for form in singulars(word)})
    return all(
        any(all(not words.isdisjoint(forms) for forms in phrase) for words in captions)
        for phrase in phrases
    )


def _mean_fits(scores: Floats, phrases: Sequence[Phrase]) -> Probabilities:
    """(P, words of all phrases) -> (P, phrases)"""
    ends = np.cumsum([len(phrase.vectors) for phrase in phrases])
    return np.stack(
        [part.mean(axis=1, dtype=np.float64) for part in np.split(scores, ends[:-1], axis=1)],
        axis=1,
    )


def _all_shown(likely: Probabilities, wanted: int) -> tuple[Probabilities, Probabilities]:
    """From the probabilities that photos show phrases (P, phrases), the wanted ones first: the
    probability that each phrase is as wanted, and that all are (P,)."""
    shows = likely.copy()
    shows[:, wanted:] = 1 - shows[:, wanted:]
    return shows, shows.prod(axis=1)


def _to_hit(
    photo: StoredPhoto, score: float, words: tuple[WordMatch, ...], rows: Iterable[int]
) -> Hit:
    regions = tuple(photo.regions[row] for row in rows)
    return Hit(photo.path, score, words, regions, photo.key, *photo.size)


def _best(scores: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """The indices of the highest scores, highest first; of equal ones the first."""
    if count < len(scores):
        cut = np.partition(scores, -count)[-count] if count else np.inf
        places = np.flatnonzero(scores >= cut)
    else:
        places = np.arange(len(scores))
    return places[np.argsort(-scores[places], kind="stable")][:count]
