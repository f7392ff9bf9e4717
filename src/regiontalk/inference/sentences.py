"""Sentences from codes, through a model's head `sentence` (K&FF section 3.2).

Shapes: K rows of codes, the first of them for the whole photo; D the size of a code; N nested
views; R sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import UsageError, check_range
from regiontalk.inference import decoding
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.inference.decoding import Caption
from regiontalk.inference.maxsim import PADDING_SCORE
from regiontalk.language.vocabulary import END, UNKNOWN, Vocabulary
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.models.settings import WIDEST_BEAM, SentencePredictionConfig
from regiontalk.results import Sentence

SENTENCE_HEAD = "sentence"  # the head's name
EMPTY_BOX = np.array([[0.0, 0.0, 1.0, 1.0]])  # the box of an empty photo
# A region, its surroundings, the whole photo; for a whole photo all three are the same.
VIEWS_PER_REGION = 3


@dataclass(frozen=True)
class SentenceOptions:
    """The options of `Model.describe`."""

    beam: int | None = None
    alternatives: int = 0
    sample: bool = False
    temperature: float = 0.5
    top_p: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        check_range(1, WIDEST_BEAM, beam=self.beam)
        check_range(0, WIDEST_BEAM - 1, alternatives=self.alternatives)
        check_range(0, seed=self.seed)
        if not 0 < self.temperature <= 10:  # written so that NaN fails too
            raise UsageError(f"temperature is {self.temperature}; it must be above 0, at most 10")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; it must be above 0, at most 1")


class SentenceInputs(NamedTuple):
    """What S sentences are about."""

    views: Floats
    """(S, N, D) the codes of each region or whole photo and, nested, of what is around it."""
    codes: Floats
    """(S, K, D) of the photo's rows, which attention reads; padding is zero."""
    places: Floats
    """(S, K, 5) of the same rows (`boxes.places`); the area of padding is 0."""


def photo_inputs(codes: Floats, boxes_xyxy: NDArray[np.float64]) -> SentenceInputs:
    """The inputs for one sentence about a whole photo: codes (K, D), boxes in pixels (K, 4)."""
    views = np.repeat(codes[None, :1], VIEWS_PER_REGION, axis=1)  # (1, N, D)
    places = geometry.places(boxes_xyxy, boxes_xyxy[0, 2:]).astype(np.float32)
    return SentenceInputs(views, codes[None], places[None])


def sentence_rules(settings: SentencePredictionConfig, words: Vocabulary) -> decoding.Rules:
    """Sentences are longer than captions: they need rules against repeated words and incomplete
    ends."""
    return decoding.Rules(
        settings.longest, words.content_tokens, words.leading_tokens, settings.length_penalty
    )


class SentenceHead:
    """The head `sentence` of a model."""

    def __init__(self, runtime: Runtime) -> None:
        head = runtime.head(SENTENCE_HEAD)
        self.runtime = runtime
        self.words = head.words
        assert isinstance(head.info.settings, SentencePredictionConfig)
        self.settings = head.info.settings
        self.rules = sentence_rules(self.settings, head.words)
        self._net = head.info.net
        gates = 4 if self._net["cell"] == "lstm" else 1
        is_multiplicative = self._net.get("conditioning") == "multiplicative"
        self.views = int(self._net["views"])
        # The image term of the first word: b_v of eq. 13, and m_v.
        self._image_size = (gates + is_multiplicative) * int(self._net["hidden"])

    def sentences(
        self, codes: Floats, boxes_xyxy: NDArray[np.float64], options: SentenceOptions
    ) -> list[Sentence]:
        """The sentence of a photo and the alternatives: codes (K, D), boxes in pixels (K, 4)."""
        inputs = photo_inputs(codes, boxes_xyxy)
        is_sampled = options.sample
        captions = self._draw(inputs, options) if is_sampled else self._search(inputs, options)
        return [
            Sentence(self.words.decode(caption.tokens), caption.logprob) for caption in captions
        ]

    def best(
        self, inputs: SentenceInputs, about: Sequence[Floats], beam: int | None = None
    ) -> list[Caption]:
        """The best sentence of each of the inputs (S). `about`: for each, the codes (·, D) that it
        should fit by the alignment head. `beam`: default as in the settings."""
        searched = self._beam_search(self._begin(inputs), beam or self.settings.beam)
        return [
            self._rank(captions, codes)[0] for captions, codes in zip(searched, about, strict=True)
        ]

    def text_log_probabilities(
        self, inputs: SentenceInputs, texts: Sequence[Sequence[int]]
    ) -> NDArray[np.float64]:
        """(S,) the log-probability of a text, as tokens, for each of the inputs; END counts."""
        lengths = np.array([len(tokens) for tokens in texts])
        words = np.full((len(texts), lengths.max() + 1), END, dtype=np.int64)
        for row, tokens in zip(words, texts, strict=True):
            row[: len(tokens)] = tokens
        every = np.arange(len(texts))
        state = self._begin(inputs)
        before = np.full(len(texts), self.words.start(), dtype=np.int64)
        totals = np.zeros(len(texts))
        for position, following in enumerate(words.T):
            logprobs, state = self._step(before, state)
            totals += np.where(position <= lengths, logprobs[every, following], 0.0)
            before = following
        return totals

    def _search(self, inputs: SentenceInputs, options: SentenceOptions) -> list[Caption]:
        """The results of the beam search, best first. If they are too few, those of a wider search
        follow."""
        state = self._begin(inputs)
        (captions,) = self._beam_search(state, options.beam or self.settings.beam)
        captions = self._rank(captions, inputs.codes[0])
        if options.alternatives >= len(captions):
            (wider,) = self._beam_search(state, options.alternatives + 1)
            captions += [caption for caption in wider if caption not in captions]
        return captions[: options.alternatives + 1]

    def _beam_search(self, state: decoding.State, width: int) -> list[list[Caption]]:
        return decoding.beam_search(self._step, state, self.words.start(), self.rules, width)

    def _rank(self, captions: list[Caption], codes: Floats) -> list[Caption]:
        """The captions, sorted by score and by how well they fit codes (·, D) by the alignment
        head, if the settings say so."""
        if not self.settings.alignment_weight or len(captions) < 2:
            return captions
        sentences = [self.words.decode(caption.tokens) for caption in captions]
        fits = AlignmentHead(self.runtime).fits(sentences, codes)
        scores = [
            self.rules.score(caption) + self.settings.alignment_weight * fit
            for caption, fit in zip(captions, fits, strict=True)
        ]
        return [captions[row] for row in np.argsort(-np.array(scores), kind="stable")]

    def _draw(self, inputs: SentenceInputs, options: SentenceOptions) -> list[Caption]:
        """Samples, one after the other, so that the first ones do not depend on their number."""
        state = self._begin(inputs)
        captions = []
        for number in range(options.alternatives + 1):
            captions += decoding.sample(
                self._step,
                state,
                self.words.start(),
                self.rules,
                np.random.default_rng([options.seed, number]),
                options.temperature,
                options.top_p,
            )
        return captions

    def scene(self, codes: Floats, boxes_xyxy: NDArray[np.float64], regions: int) -> Floats:
        """(S,) the image inputs of the sentence decoder, for a photo with codes (K, D) and boxes
        (K, 4), padded to `regions` regions: the image term of the first word, then the regions to
        attend to. These are never negative, except for the padding."""
        _, _, bias, memory, absent = self._begin(photo_inputs(codes, boxes_xyxy))
        nothing = -1 - memory.max()
        memory[absent < 0] = nothing
        filled = np.pad(memory[0], ((0, regions - len(codes)), (0, 0)), constant_values=nothing)
        return np.concatenate([bias[0], filled.ravel()])

    def scene_size(self, regions: int) -> int:
        """S, the number of image inputs of a photo with so many regions."""
        return self._image_size + regions * (int(self._net["attention"]) or geometry.PLACE_NUMBERS)

    def gains(
        self, words: Sequence[str], counts: Sequence[bool], scenes: Floats, regions: int
    ) -> NDArray[np.float64]:
        """(P,) log-likelihood ratio of words in their order: photos with scenes (P, S) of `regions`
        regions against an empty photo. The mean over the known words that count. Without the empty
        photo, common words would be likely for every photo."""
        nothing = self.scene(
            np.zeros((1, self.runtime.code_size()), np.float32), EMPTY_BOX, regions
        )
        every = np.concatenate([nothing[None], scenes])
        logprobs = self.log_probabilities(words, every, regions)
        is_known = np.array(self.words.encode(words), dtype=np.int64) != UNKNOWN
        counted = np.flatnonzero(is_known & np.array(counts, dtype=bool))
        gains = logprobs[1:, counted] - logprobs[0, counted]
        mean: NDArray[np.float64] = gains.sum(axis=1) / max(len(counted), 1)
        return mean

    def log_probabilities(
        self, words: Sequence[str], scenes: Floats, regions: int
    ) -> NDArray[np.float64]:
        """(P, W) log-probability of each word after those before it, for photos with scenes (P, S)
        of `regions` regions."""
        tokens = self.words.encode(words)
        state = self._state(scenes, regions)
        of_words = np.zeros((len(scenes), len(tokens)))
        for column, before in enumerate((self.words.start(), *tokens[:-1])[: len(tokens)]):
            logprobs, state = self._step(np.full(len(scenes), before), state)
            of_words[:, column] = logprobs[:, tokens[column]]
        return of_words

    def _state(self, scenes: Floats, regions: int) -> decoding.State:
        """The decoder's state before START."""
        bias, memory = np.split(scenes, [self._image_size], axis=1)
        memory = memory.reshape(len(scenes), regions, -1)
        absent = np.where(memory[:, :, 0] < 0, np.float32(PADDING_SCORE), np.float32(0))
        nothing = np.zeros((len(scenes), int(self._net["hidden"])), np.float32)
        return nothing, nothing, bias, memory, absent

    def _begin(self, inputs: SentenceInputs) -> decoding.State:
        return tuple(self.runtime.run("sentence_begin", *inputs))

    def _step(
        self, tokens: decoding.Integers, state: decoding.State
    ) -> tuple[decoding.Floats, decoding.State]:
        logprobs, h, c, bias = self.runtime.run("sentence_step", tokens, *state)
        return logprobs, (h, c, bias, *state[3:])
