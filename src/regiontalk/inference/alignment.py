"""Which words of a sentence belong to which region of a photo (K&FF section 3.1.4).

A sentence is split into pieces at spaces. A piece without letters or digits, and a word that the
model does not know, fit all regions equally: they get the region of their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import UsageError
from regiontalk.inference import maxsim
from regiontalk.inference.likelihood import word_log_probabilities
from regiontalk.inference.regions import RegionTable
from regiontalk.language.vocabulary import FUNCTION_WORDS, UNKNOWN, Vocabulary
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.models.settings import AlignmentPredictionConfig
from regiontalk.results import Segment

Logs = NDArray[np.float64]

MIN_SCORE = 1e-4  # so that its logarithm is finite
ALIGNMENT_HEAD = "words"  # the head's name
MAX_WORDS = 10_000  # of a sentence
MAX_UNKNOWN_NAMED = 5  # in a message


@dataclass(frozen=True)
class ReadSentence:
    """A sentence in pieces, and the tokens of those that are words."""

    pieces: tuple[str, ...]
    places: tuple[int, ...]
    """The numbers of the pieces that are words."""
    words: tuple[str, ...]
    """The words, in the form that training uses."""
    tokens: tuple[int, ...]
    """The tokens of the words."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The words that the model does not know, as they were written."""
        return tuple(
            self.pieces[index]
            for index, token in zip(self.places, self.tokens, strict=True)
            if token == UNKNOWN
        )


def split_sentence(sentence: str, words: Vocabulary) -> ReadSentence:
    """Like `read_sentence`, without its checks."""
    pieces = tuple(sentence.split())
    cleaned = [words.clean(piece) for piece in pieces]
    known_form = tuple(clean[0] for clean in cleaned if clean)
    places = tuple(number for number, clean in enumerate(cleaned) if clean)
    return ReadSentence(pieces, places, known_form, tuple(words.encode(known_form)))


def read_sentence(sentence: str, words: Vocabulary) -> ReadSentence:
    """Raises `UsageError` if the model knows no word of it."""
    read = split_sentence(sentence, words)
    if len(read.pieces) > MAX_WORDS:
        raise UsageError(f"a sentence of {len(read.pieces)} words; the limit is {MAX_WORDS}")
    if not read.tokens:
        raise UsageError(f"no word with letters or digits in {sentence[:60]!r}")
    if all(token == UNKNOWN for token in read.tokens):
        named = ", ".join(repr(word) for word in read.unknown[:MAX_UNKNOWN_NAMED])
        more = (
            f" and {len(read.unknown) - MAX_UNKNOWN_NAMED} more"
            if len(read.unknown) > MAX_UNKNOWN_NAMED
            else ""
        )
        raise UsageError(
            f"the model knows none of the words: {named}{more}", hint="it knows English only"
        )
    return read


class SentenceEvidence(NamedTuple):
    """The terms, before weighting, that decide which of R regions each of P pieces of a sentence
    belongs to."""

    fits: Logs
    """(P, R) vᵢ·sₜ, eq. 11; 0 for pieces that the head does not know."""
    likelihoods: Logs
    """(P, R) the language model's log p(word | region); 0 for pieces that are not words."""
    places: Logs
    """(R,) log s, s being the regions' scores"""
    known: NDArray[np.bool_]
    """(P,) which pieces are words that the head knows."""
    function: NDArray[np.bool_]
    """(P,) which are function words."""

    def unary(self, settings: AlignmentPredictionConfig) -> Logs:
        """ψ(j, r) of eq. 10, (P, R): vᵣ·sⱼ + place_weight · log s(r) + likelihood_weight · log
        [s(r) p(wordⱼ | r)].

        Differs from the paper: eq. 11 has the first term only. With likelihoods, function words are
        ignored."""
        weight = settings.likelihood_weight
        total = self.fits + (settings.place_weight + weight) * self.places
        counts = self.known
        if weight:
            total = total + weight * self.likelihoods
            counts = counts & ~self.function
        unary: Logs = counts[:, None] * total
        return unary

    def betas(self, settings: AlignmentPredictionConfig, given: float | None = None) -> Logs:
        """Eq. 12's β between neighbours, (P − 1,); a given β is the same for all.

        Differs from the paper: with likelihoods, β applies inside phrases only. A phrase starts at
        its function words.
        """
        if given is not None or not settings.likelihood_weight:
            return np.full(len(self.known) - 1, settings.beta if given is None else given)
        begins = self.function[1:] & ~self.function[:-1]
        return np.where(begins, 0.0, settings.phrase_beta)

    def align(
        self, settings: AlignmentPredictionConfig, given: float | None = None
    ) -> NDArray[np.intp]:
        """The region of each piece, (P,): the chain of eq. 10."""
        return maxsim.align_words(self.unary(settings), self.betas(settings, given))


@dataclass(frozen=True)
class AlignmentHead:
    """The head `words` of a model."""

    runtime: Runtime

    @property
    def settings(self) -> AlignmentPredictionConfig:
        return alignment_settings(self.runtime)

    @property
    def words(self) -> Vocabulary:
        return self.runtime.head(ALIGNMENT_HEAD).words

    def read(self, sentence: str) -> ReadSentence:
        return read_sentence(sentence, self.words)

    def fits(self, sentences: Sequence[str], codes: Floats) -> list[float]:
        """How well each sentence fits regions with codes (B, D): the mean over its words of the
        best fit."""
        regions = region_vectors(self.runtime, codes)[None]
        return [
            float(maxsim.word_scores(regions, words).mean()) if len(words) else 0.0
            for words in self.vectors(sentences)
        ]

    def vectors(self, sentences: Sequence[str]) -> list[Floats]:
        """The vectors (W, h) of each sentence's words."""
        tokens = [self.words.encode(self.words.clean(sentence) or ()) for sentence in sentences]
        return sentence_vectors(self.runtime, tokens)

    def segments(
        self, sentence: ReadSentence, regions: RegionTable, beta: float | None = None
    ) -> tuple[Segment, ...]:
        """Aligns the sentence with regions. `beta`: eq. 12's (default: the model's)."""
        evidence = self.gather(sentence, regions)
        chosen = evidence.align(self.settings, beta)
        return tuple(_segments(sentence, regions.boxes_xyxy, evidence, chosen))

    def gather(self, sentence: ReadSentence, regions: RegionTable) -> SentenceEvidence:
        """The evidence for each piece of the sentence in each region."""
        assert regions.vectors is not None
        rows = list(sentence.places)
        count = len(sentence.pieces)
        vectors = word_vectors(self.runtime, sentence.tokens)
        fits = np.zeros((count, len(regions)))
        fits[rows] = maxsim.similarities(regions.vectors[None], vectors)[0].T
        likelihoods = np.zeros((count, len(regions)))
        if regions.state:  # codes from a file have none
            likelihoods[rows] = word_log_probabilities(self.runtime, regions.state, sentence.words)
        is_known = np.zeros(count, dtype=bool)
        is_known[rows] = np.array(sentence.tokens) != UNKNOWN
        is_function = np.zeros(count, dtype=bool)
        is_function[rows] = [word in FUNCTION_WORDS for word in sentence.words]
        return SentenceEvidence(
            fits * is_known[:, None],
            likelihoods,
            place_prior(regions.scores, 1.0),
            is_known,
            is_function,
        )

    def place_prior(self, scores: NDArray[np.floating]) -> Logs:
        """What the scores (B,) of regions add to the fits of words, (B,), without likelihoods."""
        return place_prior(scores, self.settings.place_weight)


def place_prior(scores: NDArray[np.floating], weight: float) -> NDArray[np.float64]:
    """weight · log score of regions (…, B). The score of the whole photo (row 0), which was not
    detected, is limited to that of the best region."""
    logs: NDArray[np.float64] = np.log(np.maximum(scores, MIN_SCORE, dtype=np.float64))
    if logs.shape[-1] > 1:
        logs[..., 0] = np.minimum(logs[..., 0], logs[..., 1:].max(axis=-1))
    logs *= weight
    return logs


def alignment_settings(runtime: Runtime) -> AlignmentPredictionConfig:
    """The settings of the model's head `words`."""
    settings = runtime.head(ALIGNMENT_HEAD).info.settings
    assert isinstance(settings, AlignmentPredictionConfig)
    return settings


def region_vectors(runtime: Runtime, codes: Floats) -> Floats:
    """codes (B, D) -> vectors (B, h); eq. 1."""
    (vectors,) = runtime.run("vectors", codes)
    return np.asarray(vectors)


def word_vectors(runtime: Runtime, tokens: Sequence[int]) -> Floats:
    """tokens (W,) -> vectors (W, h); eqs. 2–6."""
    return sentence_vectors(runtime, [tokens])[0]


def sentence_vectors(runtime: Runtime, sentences: Sequence[Sequence[int]]) -> list[Floats]:
    """The vectors (W, h) of each sentence's tokens (W,); eqs. 2–6.

    The graph reads a fixed number of words. A longer sentence is read in windows that overlap by
    half, and each word is taken from the window in which it is closest to the middle.
    """
    longest = alignment_settings(runtime).longest
    step = longest // 2
    starts = [_window_starts(len(tokens), step) for tokens in sentences]
    windows: list[Sequence[int]] = []
    for tokens, own_starts in zip(sentences, starts, strict=True):
        windows += [tokens[start : start + longest] for start in own_starts]
    vectors = _read_windows(runtime, windows, longest)  # (windows, longest, h)
    first = 0
    of_sentences = []
    for tokens, own_starts in zip(sentences, starts, strict=True):
        numbers = np.arange(len(tokens))
        window = np.clip((numbers - step // 2) // step, 0, len(own_starts) - 1)
        of_sentences.append(vectors[first + window, numbers - window * step])
        first += len(own_starts)
    return of_sentences


def _window_starts(words: int, step: int) -> list[int]:
    return list(range(0, max(words - step, 1), step)) if words else []


def _read_windows(runtime: Runtime, windows: Sequence[Sequence[int]], longest: int) -> Floats:
    padded = np.zeros((len(windows), longest), dtype=np.int64)
    mask = np.zeros((len(windows), longest), dtype=np.float32)
    for row, window in enumerate(windows):
        padded[row, : len(window)] = window
        mask[row, : len(window)] = 1
    if not windows:
        return np.zeros((0, longest, 0), dtype=np.float32)
    return runtime.read_words(padded, mask)


def _segments(
    read: ReadSentence,
    boxes_xyxy: NDArray[np.float64],
    evidence: SentenceEvidence,
    chosen: NDArray[np.integer],
) -> list[Segment]:
    """Consecutive pieces with the same region; the score is the mean fit of the known words."""
    segments = []
    for start, end in maxsim.segments(chosen):
        region = int(chosen[start])
        scores = evidence.fits[start:end, region]
        known = evidence.known[start:end]
        x0, y0, x1, y1 = boxes_xyxy[region].tolist()
        segments.append(
            Segment(
                " ".join(read.pieces[start:end]),
                (start, end),
                (x0, y0, x1, y1),
                float(scores[known].mean()) if known.any() else 0.0,
                tuple(scores.tolist()),
            )
        )
    return segments
