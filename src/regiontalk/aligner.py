"""Which words of a sentence belong to which region of a photo (K&FF section 3.1.4).

Pieces are what spaces separate in a sentence. A piece without letters or digits, and a word that the model does not
know, fit every region alike: they go with their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk import maxsim
from regiontalk.errors import UsageError
from regiontalk.runtime import Floats, Runtime
from regiontalk.types import Segment
from regiontalk.vocabulary import UNKNOWN, Vocabulary

SMALLEST_SCORE = 1e-4  # so that its logarithm is finite
HEAD = "words"
MOST_WORDS = 10_000
NAMED = 5  # unknown words in a message


@dataclass(frozen=True)
class ReadSentence:
    """A sentence in pieces, and the tokens of those that are words."""

    pieces: tuple[str, ...]
    places: tuple[int, ...]
    """Of the words among the pieces."""
    tokens: tuple[int, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The words that the model does not know, as they were written."""
        return tuple(
            self.pieces[place] for place, token in zip(self.places, self.tokens, strict=True) if token == UNKNOWN
        )


def read_sentence(sentence: str, words: Vocabulary) -> ReadSentence:
    """Fails, in one line, where the model knows no word of it."""
    pieces = tuple(sentence.split())
    if len(pieces) > MOST_WORDS:
        raise UsageError(f"a sentence of {len(pieces)} words; {MOST_WORDS} at most")
    cleaned = [words.clean(piece) for piece in pieces]
    places = tuple(place for place, clean in enumerate(cleaned) if clean)
    tokens = tuple(words.encode(clean[0] for clean in cleaned if clean))
    read = ReadSentence(pieces, places, tokens)
    if not tokens:
        raise UsageError(f"there is no word of letters or digits in {sentence[:60]!r}")
    if all(token == UNKNOWN for token in tokens):
        named = ", ".join(repr(word) for word in read.unknown[:NAMED])
        more = f" and {len(read.unknown) - NAMED} more" if len(read.unknown) > NAMED else ""
        raise UsageError(f"the model knows none of the words: {named}{more}", hint="it knows English only")
    return read


@dataclass(frozen=True)
class AlignmentHead:
    """The head `words` of a model."""

    runtime: Runtime

    def read(self, sentence: str) -> ReadSentence:
        return read_sentence(sentence, self.runtime.head(HEAD).words)

    def beta(self, given: float | None) -> float:
        """Eq. 12's β; where none is given, the model's."""
        if given is None:
            return float(self.runtime.head(HEAD).info.settings["beta"])
        if not 0 <= given < np.inf:
            raise UsageError(f"beta is {given}; it must be 0 or more")
        return given

    def fits(self, sentences: Sequence[str], codes: Floats) -> list[float]:
        """How well each sentence is found among regions with codes (B, D): its words' best fits, on average."""
        vectors, words = region_vectors(self.runtime, codes), self.runtime.head(HEAD).words
        tokens = [words.encode(words.clean(sentence) or ()) for sentence in sentences]
        return [
            float(maxsim.word_scores(vectors[None], word_vectors(self.runtime, one)).mean()) if one else 0.0
            for one in tokens
        ]

    def segments(
        self,
        sentence: ReadSentence,
        codes: Floats,
        boxes_xyxy: NDArray[np.float64],
        scores: NDArray[np.floating],
        beta: float,
    ) -> tuple[Segment, ...]:
        """The sentence laid over regions with codes (B, D), boxes (B, 4) and scores (B,)."""
        fits = piece_fits(self.runtime, codes, sentence)
        says = _says(sentence)[:, None]
        chosen = maxsim.align_words(fits + says * self.place_prior(scores), beta)
        return tuple(_segments(sentence, boxes_xyxy, fits, chosen))

    def place_prior(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """What the scores (B,) of regions add to the fits of words, (B,)."""
        return place_prior(scores, float(self.runtime.head(HEAD).info.settings.get("place_weight", 0.0)))


def place_prior(scores: NDArray[np.floating], weight: float) -> NDArray[np.float64]:
    """weight · log score of regions (…, B). The whole photo (row 0), which is no found region, counts at most like the
    best of them."""
    logs: NDArray[np.float64] = np.log(np.maximum(scores, SMALLEST_SCORE, dtype=np.float64))
    if logs.shape[-1] > 1:
        logs[..., 0] = np.minimum(logs[..., 0], logs[..., 1:].max(axis=-1))
    logs *= weight
    return logs


def piece_fits(runtime: Runtime, codes: Floats, read: ReadSentence) -> NDArray[np.float64]:
    """How well each piece fits each region, (pieces, B); 0 for pieces that say nothing to the model."""
    vectors = region_vectors(runtime, codes)
    words = word_vectors(runtime, read.tokens)
    fits = np.zeros((len(read.pieces), len(vectors)))
    fits[list(read.places)] = maxsim.similarities(vectors[None], words)[0].T
    for place, token in zip(read.places, read.tokens, strict=True):
        if token == UNKNOWN:
            fits[place] = 0
    return fits


def region_vectors(runtime: Runtime, codes: Floats) -> Floats:
    """codes (B, D) -> vectors (B, h); eq. 1."""
    (vectors,) = runtime.run("vectors", codes)
    return np.asarray(vectors)


def word_vectors(runtime: Runtime, tokens: Sequence[int]) -> Floats:
    """tokens (W,) -> vectors (W, h); eqs. 2–6.

    The graph reads a fixed number of words together. A longer sentence is read in windows that overlap by half, and
    each word is taken from the window in which it stands nearest to the middle.
    """
    longest = int(runtime.head(HEAD).info.settings["longest"])
    step = longest // 2
    windows = [_read_window(runtime, tokens, start, longest) for start in range(0, max(len(tokens) - step, 1), step)]
    rows = []
    for place in range(len(tokens)):
        window = min(max((place - step // 2) // step, 0), len(windows) - 1)
        rows.append(windows[window][place - window * step])
    return np.stack(rows)


def _read_window(runtime: Runtime, tokens: Sequence[int], start: int, longest: int) -> Floats:
    part = tokens[start : start + longest]
    padded, mask = np.zeros((1, longest), dtype=np.int64), np.zeros((1, longest), dtype=np.float32)
    padded[0, : len(part)], mask[0, : len(part)] = part, 1
    (vectors,) = runtime.run("words", padded, mask)
    return np.asarray(vectors)


def _says(read: ReadSentence) -> NDArray[np.bool_]:
    """Which pieces say something to the model."""
    says = np.zeros(len(read.pieces), dtype=bool)
    says[[place for place, token in zip(read.places, read.tokens, strict=True) if token != UNKNOWN]] = True
    return says


def _segments(
    read: ReadSentence, boxes_xyxy: NDArray[np.float64], fits: NDArray[np.float64], chosen: NDArray[np.integer]
) -> list[Segment]:
    """Stretches of pieces with the same region; a stretch's score is the mean fit of its known words."""
    says = _says(read)
    found = []
    for start, end in maxsim.segments(chosen):
        region = int(chosen[start])
        scores = fits[start:end, region]
        known = says[start:end]
        x0, y0, x1, y1 = boxes_xyxy[region].tolist()
        found.append(
            Segment(
                " ".join(read.pieces[start:end]),
                (start, end),
                (x0, y0, x1, y1),
                float(scores[known].mean()) if known.any() else 0.0,
                tuple(scores.tolist()),
            )
        )
    return found
