"""Sentences from codes, through a model's head `sentence` (K&FF section 3.2).

Shapes: K rows of codes, the first of them for the whole photo; D the size of a code; N nested
views; R sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import UsageError, check_range
from regiontalk.inference import decoding
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.inference.decoding import Caption
from regiontalk.inference.maxsim import LOWEST
from regiontalk.io.typed import to_dataclass
from regiontalk.language.vocabulary import UNKNOWN, Vocabulary
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.models.settings import WIDEST_BEAM, SentencePredictionConfig
from regiontalk.results import Sentence

SENTENCE = "sentence"  # the head's name
NOWHERE = np.array([[0.0, 0.0, 1.0, 1.0]])  # the box of an empty photo
VIEWS = 3  # a region, its surroundings, the whole photo; for a whole photo all three are the same


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


def sentence_rules(settings: SentencePredictionConfig, words: Vocabulary) -> decoding.Rules:
    """Sentences are longer than captions: they need rules against repeated words and incomplete
    ends."""
    return decoding.Rules(
        settings.longest, words.content_tokens, words.leading_tokens, settings.length_penalty
    )


class SentenceHead:
    """The head `sentence` of a model."""

    def __init__(self, runtime: Runtime) -> None:
        head = runtime.head(SENTENCE)
        self.runtime = runtime
        self.words = head.words
        self.settings = to_dataclass(SentencePredictionConfig, head.info.settings, "sentence")
        self.rules = sentence_rules(self.settings, head.words)
        self._net = head.info.net
        gates = 4 if self._net["cell"] == "lstm" else 1
        is_multiplicative = self._net.get("conditioning") == "multiplicative"
        # The image term of the first word: b_v of eq. 13, and m_v.
        self._image_size = (gates + is_multiplicative) * int(self._net["hidden"])

    def sentences(
        self, codes: Floats, boxes_xyxy: NDArray[np.float64], options: SentenceOptions
    ) -> list[Sentence]:
        """The sentence of a photo and the alternatives: codes (K, D), boxes in pixels (K, 4)."""
        state = self._begin(codes, boxes_xyxy)
        is_sampled = options.sample
        captions = self._draw(state, options) if is_sampled else self._search(state, codes, options)
        return [
            Sentence(self.words.decode(caption.tokens), caption.logprob) for caption in captions
        ]

    def _search(
        self, state: decoding.State, codes: Floats, options: SentenceOptions
    ) -> list[Caption]:
        """The results of the beam search, best first. If they are too few, those of a wider search
        follow."""
        captions = self._beam_search(state, options.beam or self.settings.beam)
        if self.settings.alignment_weight and len(captions) > 1:
            captions = self._rank(captions, codes)
        if options.alternatives >= len(captions):
            wider = self._beam_search(state, options.alternatives + 1)
            captions += [caption for caption in wider if caption not in captions]
        return captions[: options.alternatives + 1]

    def _beam_search(self, state: decoding.State, width: int) -> list[Caption]:
        (captions,) = decoding.beam_search(self._step, state, self.words.start(), self.rules, width)
        return captions

    def _rank(self, captions: Sequence[Caption], codes: Floats) -> list[Caption]:
        """The captions, sorted by score and by how well they fit the photo by the alignment
        head."""
        sentences = [self.words.decode(caption.tokens) for caption in captions]
        fits = AlignmentHead(self.runtime).fits(sentences, codes)
        scores = [
            self.rules.score(caption) + self.settings.alignment_weight * fit
            for caption, fit in zip(captions, fits, strict=True)
        ]
        return [captions[row] for row in np.argsort(-np.array(scores), kind="stable")]

    def _draw(self, state: decoding.State, options: SentenceOptions) -> list[Caption]:
        """Samples, one after the other, so that the first ones do not depend on their number."""
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
        _, _, bias, memory, absent = self._begin(codes, boxes_xyxy)
        nothing = -1 - memory.max()
        memory[absent < 0] = nothing
        filled = np.pad(memory[0], ((0, regions - len(codes)), (0, 0)), constant_values=nothing)
        return np.concatenate([bias[0], filled.ravel()])

    def scene_size(self, regions: int) -> int:
        """S, the number of image inputs of a photo with so many regions."""
        return self._image_size + regions * (int(self._net["attention"]) or geometry.PLACE)

    def gains(
        self, words: Sequence[str], counts: Sequence[bool], scenes: Floats, regions: int
    ) -> NDArray[np.float64]:
        """(P,) log-likelihood ratio of words in their order: photos with scenes (P, S) of `regions`
        regions against an empty photo. The mean over the known words that count. Without the empty
        photo, common words would be likely for every photo."""
        nothing = self.scene(np.zeros((1, self.runtime.code_size()), np.float32), NOWHERE, regions)
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
        tokens, state = self.words.encode(words), self._state(scenes, regions)
        found = np.zeros((len(scenes), len(tokens)))
        for column, before in enumerate((self.words.start(), *tokens[:-1])[: len(tokens)]):
            logprobs, state = self._step(np.full(len(scenes), before), state)
            found[:, column] = logprobs[:, tokens[column]]
        return found

    def _state(self, scenes: Floats, regions: int) -> decoding.State:
        """The decoder's state before START."""
        bias, memory = np.split(scenes, [self._image_size], axis=1)
        memory = memory.reshape(len(scenes), regions, -1)
        absent = np.where(memory[:, :, 0] < 0, np.float32(LOWEST), np.float32(0))
        nothing = np.zeros((len(scenes), int(self._net["hidden"])), np.float32)
        return nothing, nothing, bias, memory, absent

    def _begin(self, codes: Floats, boxes_xyxy: NDArray[np.float64]) -> decoding.State:
        views = np.repeat(codes[None, :1], VIEWS, axis=1)  # (1, N, D)
        places = geometry.places(boxes_xyxy, boxes_xyxy[0, 2:]).astype(np.float32)
        return tuple(self.runtime.run("sentence_begin", views, codes[None], places[None]))

    def _step(
        self, tokens: decoding.Integers, state: decoding.State
    ) -> tuple[decoding.Floats, decoding.State]:
        logprobs, h, c, bias = self.runtime.run("sentence_step", tokens, *state)
        return logprobs, (h, c, bias, *state[3:])
