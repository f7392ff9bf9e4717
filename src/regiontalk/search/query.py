"""Queries, and the scores of photos for them.

A query has one or more phrases separated by ";", all of which a photo should show, and phrases
after "-" that it should not show: `a dog; a red ball -beach -"tennis court"`. A photo's score is
the probability that it matches the query: the product of the probabilities of its phrases
(`models.settings.SearchConfig`), 1 − p for unwanted ones.

Vectors and captions choose the best photos; the confidences of captions and the language model then
score these again. How words are read is in `language.query_words`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import UsageError
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import AlignmentHead, alignment_settings
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.phrases import Phrase, about_words, read_aligned
from regiontalk.inference.sentences import SentenceHead
from regiontalk.language.synonyms import caption_words
from regiontalk.language.vocabulary import UNKNOWN
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import SearchConfig
from regiontalk.results import Hit, Hits, Shown, WordMatch
from regiontalk.search.captioned import (
    Animal,
    Caption,
    confidence_of,
    is_captioned,
    meant_words,
)
from regiontalk.search.store import Floats, Ids, Scored, Store, StoredPhoto, Where

MOST_PHRASES = 20
LEAST_ALIKE = 0.6
"""The cosine from which the regions of photos are called alike. Measured with 159 objects of 70 dev
photos of COCO as queries, in 140 photos: of the photos above it, 52 % show an object of the same
class (of all photos 4 %), people left out; with people 71 % (33 %)."""
SECOND_LOOK = 100  # best photos, at least, that are scored again
SECOND_LOOK_WORDS = 500  # more of them if the query has few words: so many photos times words
SAID_CONFIDENCE = 0.8  # about that of captions that are likely right
UNWANTED_WORDS = re.compile(r'(?:(?<=\s)|^)-(?:"([^"]*)"|(\S+))')
WITHOUT_WORDS = re.compile(
    r"(?<=\w),?\s+(?:without|except|(?:with|but|and)\s+no)\s+(?:(?:an?|the|any)\s+)?"
    r"(?P<words>\w+(?:\s\w+){0,2})(?=\s*(?:;|\s-|$))",
    re.IGNORECASE,
)
"""At the end of a phrase, with at most three words: "a beach without people"."""
NEGATIONS = frozenset({"no", "not", "without"})

Probabilities = NDArray[np.float64]


class Parsed(NamedTuple):
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]


def parse(query: str, as_typed: bool = False) -> Parsed:
    """The phrases of a query. `as_typed`: "without people" does not mean `-people`."""
    query = re.sub("[“”„]", '"', query)
    unwanted = tuple(
        f'"{quoted}"' if quoted else word for quoted, word in UNWANTED_WORDS.findall(query)
    )
    if not as_typed:
        unwanted += _left_out(query)
        query = WITHOUT_WORDS.sub("", query)
    wanted = tuple(
        part.strip() for part in UNWANTED_WORDS.sub(" ", query).split(";") if part.strip()
    )
    if not wanted:
        raise UsageError(
            "the query has nothing to look for", hint='for example: "a red umbrella -people"'
        )
    if len(wanted) + len(unwanted) > MOST_PHRASES:
        raise UsageError(
            f"{len(wanted) + len(unwanted)} phrases in one query; the limit is {MOST_PHRASES}"
        )
    return Parsed(wanted, unwanted)


def _left_out(query: str) -> tuple[str, ...]:
    """The words after "without" and the like."""
    return tuple(match["words"] for match in WITHOUT_WORDS.finditer(query))


def negation_notes(query: str, phrases: Sequence[Phrase]) -> tuple[str, ...]:
    """What people should know about "no" and "without" in a query."""
    notes = [f"Photos that show “{words}” are left out." for words in _left_out(query)]
    for phrase in phrases:
        if negations := NEGATIONS.intersection(phrase.read.known):
            word = min(negations)
            notes.append(f"“{word}” leaves nothing out here. A minus does: a beach -people.")
    return tuple(dict.fromkeys(notes))


def search_config(runtime: Runtime) -> SearchConfig:
    return alignment_settings(runtime).search or SearchConfig()


class Evidence(NamedTuple):
    """The terms of the scores of phrases in the best photos."""

    searched: int
    """Number of photos that were searched."""
    ids: Ids
    """(P,)"""
    fits: Probabilities
    """(P, phrases) how well the phrase's words fit the photo's regions, on average."""
    captions: Probabilities
    """(P, phrases) the highest confidence of a caption that has a word, on average."""
    likelihoods: Probabilities
    """(P, phrases) log-likelihood ratio of the phrase: this photo against an empty one."""

    def probabilities(self, config: SearchConfig, phrases: Sequence[Phrase]) -> Probabilities:
        """(P, phrases) the probability that the photo shows it."""
        columns = [
            config.logits(fits, captions, likelihoods, len(phrase.read.content), rarity(phrase))
            for fits, captions, likelihoods, phrase in zip(
                self.fits.T, self.captions.T, self.likelihoods.T, phrases, strict=True
            )
        ]
        return sigmoid(np.stack(columns, axis=1))


def rarity(phrase: Phrase) -> float:
    """Σ −log frequency of the content words. Words are numbered from the most frequent one on: by
    Zipf's law, −log frequency is the log of the number."""
    pairs = zip(phrase.read.words, phrase.aligned_tokens, strict=True)
    numbers = {word.word: token for word, token in pairs if token != UNKNOWN}
    return sum(math.log(numbers[word]) for word in phrase.read.content)


@dataclass(frozen=True)
class Searcher:
    """Searches an index with the words of a model."""

    store: Store
    runtime: Runtime

    def search(
        self,
        query: str,
        top: int,
        threshold: float | None,
        where: Where,
        as_typed: bool = False,
    ) -> Hits:
        """The best photos, the likely ones first, and none that show an unwanted phrase.

        A photo is likely if each wanted phrase has at least the probability of the model's line, or
        stands in a shown caption; but not for a phrase about an animal if the region that fits it
        best has a shown caption with another animal. It shows an unwanted phrase by the same rule.
        `threshold`: only photos with at least this probability. `as_typed`: correct no typing
        mistakes, and take no synonyms.
        """
        parsed = parse(query, as_typed)
        config = search_config(self.runtime)
        phrases = read_aligned(self.runtime, [*parsed.wanted, *parsed.unwanted], as_typed)
        about = about_words(phrases)
        if not as_typed:
            about["notes"] += negation_notes(query, phrases)
        wanted = _readable(phrases[: len(parsed.wanted)])
        unwanted = _readable(phrases[len(parsed.wanted) :])
        if not wanted:
            return Hits(query, (), 0, **about)
        with self.store.reading():
            evidence = self.evidence(wanted, unwanted, where, config, max(top, SECOND_LOOK))
            likely = evidence.probabilities(config, [*wanted, *unwanted])
            shows, together = _all_shown(likely, len(wanted))
            is_wanted = np.ones(len(together), dtype=bool)
            for phrase, probabilities in zip(unwanted, likely.T[len(wanted) :], strict=True):
                line = config.likely or math.inf  # without a line, captions alone say it
                is_wanted &= ~self._are_likely(phrase, probabilities, evidence.ids, line)
            is_kept = is_wanted & (shows[:, : len(wanted)] >= (threshold or 0.0)).all(axis=1)
            is_likely = is_kept.copy()
            for phrase, probabilities in zip(wanted, likely.T, strict=False):
                kept = np.flatnonzero(is_likely)
                is_likely[kept] = self._are_likely(
                    phrase, probabilities[kept], evidence.ids[kept], config.likely
                )
            order = np.where(is_kept, together + is_likely, -1.0)  # likely ones first
            best = _best(order, min(top, int(is_kept.sum())))
            ids = evidence.ids[best].tolist()
            photos = self.store.read(ids)
            vectors = self.store.vectors(ids)
            hits = [
                replace(
                    self._hit(photo, photo_vectors, float(together[row]), wanted),
                    likely=bool(is_likely[row]),
                )
                for photo, photo_vectors, row in zip(photos, vectors, best, strict=True)
            ]
        closest = float(together[is_wanted].max()) if is_wanted.any() else None
        return Hits(query, tuple(hits), evidence.searched, closest=closest, **about)

    def evidence(
        self,
        wanted: Sequence[Phrase],
        unwanted: Sequence[Phrase],
        where: Where,
        config: SearchConfig,
        count: int,
    ) -> Evidence:
        """The `count` best photos by their vectors and captions; for the best of these also by
        exact vectors, the confidences of captions and the language model."""
        phrases = [*wanted, *unwanted]
        words = np.concatenate([phrase.vectors for phrase in phrases])
        scored = self.store.word_scores(words, where, [phrase.read.content for phrase in phrases])
        shares = np.stack([self._shares_in_captions(phrase, scored) for phrase in phrases], axis=1)
        unknown = np.zeros_like(shares)
        first = Evidence(
            scored.searched, scored.ids, _mean_fits(scored.scores, phrases), shares, unknown
        )
        second_look = max(SECOND_LOOK, SECOND_LOOK_WORDS // len(words))
        likely = _all_shown(first.probabilities(config, phrases), len(wanted))[1]
        best = _best(likely, min(max(count, second_look), len(likely)))
        best_ids = scored.ids[best[:second_look]]
        scores = scored.scores[best]
        if not scored.exact:
            for row, photo_vectors in enumerate(self.store.vectors(best_ids.tolist())):
                scores[row] = maxsim.word_scores(photo_vectors[None], words)[0]
        captions = shares[best]
        captions[: len(best_ids)] = self._confidences(phrases, best_ids)
        likelihoods = self._likelihoods(phrases, best_ids)
        if len(best) > len(best_ids):  # the rest is not scored again: it stays behind
            lowest = np.tile(likelihoods.min(axis=0), (len(best) - len(best_ids), 1))
            likelihoods = np.concatenate([likelihoods, lowest])
        fits = _mean_fits(scores, phrases)
        return Evidence(scored.searched, scored.ids[best], fits, captions, likelihoods)

    def _likelihoods(self, phrases: Sequence[Phrase], ids: Ids) -> Probabilities:
        """(P, phrases): log-likelihood ratio of the content words of each phrase by the language
        model, on average: the photo against an empty one."""
        likelihoods = np.zeros((len(ids), len(phrases)))
        if self.store.model.state and len(ids):
            head = SentenceHead(self.runtime)
            scenes = self.store.states(ids.tolist())
            for column, phrase in enumerate(phrases):
                words = phrase.read.known[: head.settings.longest]
                counts = [word in phrase.read.content for word in words]
                likelihoods[:, column] = head.gains(words, counts, scenes, self.store.model.regions)
        return likelihoods

    def _shares_in_captions(self, phrase: Phrase, scored: Scored) -> Probabilities:
        """(P,) an estimate of `_confidences`: the share of the phrase's content words that likely
        captions of a photo have."""
        words = phrase.read.content
        have_word = [self.store.said(caption_words(word), scored) for word in words]
        share: Probabilities = SAID_CONFIDENCE * np.mean(have_word, axis=0)
        return share

    def _confidences(self, phrases: Sequence[Phrase], ids: Ids) -> Probabilities:
        """(P, phrases): the highest confidence of a caption of the photo that has a content word of
        the phrase, on average."""
        meant = [meant_words(phrase) for phrase in phrases]
        confidences = np.zeros((len(ids), len(phrases)))
        for row, photo in enumerate(self.store.read(ids.tolist())):
            captions = [Caption.of(region) for region in photo.regions if region.caption]
            for column, words in enumerate(meant):
                best = [confidence_of(word, captions) for word in words]
                confidences[row, column] = float(np.mean(best))
        return confidences

    def _are_likely(
        self, phrase: Phrase, probabilities: Probabilities, ids: Ids, line: float
    ) -> NDArray[np.bool_]:
        """(P,) whether photos are likely to show a phrase."""
        shown = Shown(confidence=self.runtime.info.prediction.likely)
        are_likely = probabilities >= line
        animal = Animal.of(phrase)
        if animal is not None and line:  # without a line, all photos are
            above = np.flatnonzero(are_likely)
            photos = self.store.read(ids[above].tolist())
            vectors = self.store.vectors(ids[above].tolist())
            for row, photo, photo_vectors in zip(above, photos, vectors, strict=True):
                are_likely[row] = not animal.is_another(photo, photo_vectors, shown)
        below = np.flatnonzero(~are_likely)
        words = meant_words(phrase)
        for row, photo in zip(below, self.store.read(ids[below].tolist()), strict=True):
            are_likely[row] = is_captioned(photo, shown, words)
        return are_likely

    def _hit(
        self, photo: StoredPhoto, vectors: Floats, score: float, wanted: Sequence[Phrase]
    ) -> Hit:
        """Like `align`, from stored vectors: neighbouring words stay together (eq. 12) and prefer
        regions with a high score, but there are no likelihoods."""
        head = AlignmentHead(self.runtime)
        beta = head.settings.beta
        prior = head.place_prior(np.array(photo.raw_scores))
        words: list[WordMatch] = []
        numbers: dict[int, int] = {}  # row -> number among the regions of the hit
        for phrase in wanted:
            fits = maxsim.similarities(vectors[None], phrase.vectors)[0].T  # (W, R)
            rows = maxsim.align_words(fits + prior, beta).tolist()
            matches = iter(zip(rows, fits, strict=True))
            for word, token in zip(phrase.read.words, phrase.aligned_tokens, strict=True):
                match = WordMatch(word.written, 0.0, None)
                if token != UNKNOWN:
                    row, fit = next(matches)
                    match = replace(
                        match, score=float(fit[row]), region=numbers.setdefault(row, len(numbers))
                    )
                words.append(match)
        return _to_hit(photo, score, tuple(words), numbers)

    def like(self, vector: Floats, top: int, where: Where) -> Hits:
        """The photos with the regions most similar to a vector (h,), by cosine; `likely` from
        `LEAST_ALIKE` on."""
        with self.store.reading():
            length = float(np.linalg.norm(vector)) or 1.0
            scored = self.store.word_scores(vector[None] / length, where)
            ids = scored.ids[_best(scored.scores[:, 0], top)].tolist()
            hits = []
            for photo, photo_vectors in zip(
                self.store.read(ids), self.store.vectors(ids), strict=True
            ):
                cosines = photo_vectors @ vector / (length * np.linalg.norm(photo_vectors, axis=1))
                row = int(cosines.argmax())
                hit = _to_hit(photo, float(cosines[row]), (), [row])
                hits.append(replace(hit, likely=hit.score >= LEAST_ALIKE))
        hits.sort(key=lambda hit: -hit.score)
        return Hits("", tuple(hits), scored.searched, (), hits[0].score if hits else None)


def _readable(phrases: Sequence[Phrase]) -> list[Phrase]:
    """The phrases that have a word to look for."""
    return [phrase for phrase in phrases if phrase.read.says_something]


def _mean_fits(scores: Floats, phrases: Sequence[Phrase]) -> Probabilities:
    """(P, words of all phrases) -> (P, phrases)"""
    ends = np.cumsum([len(phrase.vectors) for phrase in phrases])
    return np.stack(
        [part.mean(axis=1, dtype=np.float64) for part in np.split(scores, ends[:-1], axis=1)],
        axis=1,
    )


def _all_shown(likely: Probabilities, wanted: int) -> tuple[Probabilities, Probabilities]:
    """Turns the probabilities that photos show phrases (P, phrases), the wanted ones first, into
    the probability that each phrase is as wanted, and that all are (P,)."""
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
