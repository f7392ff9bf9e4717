"""Sentences from codes, through a model's head `sentence` (K&FF section 3.2).

Shapes: K rows of codes, the first of them for the whole photo; D the size of a code; N nested
views; R sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import UsageError, check_range
from regiontalk.inference import decoding
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.inference.decoding import Caption
from regiontalk.inference.maxsim import LOWEST
from regiontalk.io.typed import to_dataclass
from regiontalk.language.vocabulary import END, UNKNOWN, Vocabulary
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
        self.runtime, self.words = runtime, head.words
        self.settings = to_dataclass(SentencePredictionConfig, head.info.settings, "sentence")
        self.rules = sentence_rules(self.settings, head.words)
        self._net = head.info.net
        parts = (4 if self._net["cell"] == "lstm" else 1) + (
            self._net.get("conditioning") == "multiplicative"
        )
        self._from_image = parts * int(self._net["hidden"])  # numbers: b_v of eq. 13, and m_v

    def sentences(
        self, codes: Floats, boxes_xyxy: NDArray[np.float64], options: SentenceOptions
    ) -> list[Sentence]:
        """The sentence of a photo and the alternatives: codes (K, D), boxes in pixels (K, 4)."""
        state = self._begin(codes, boxes_xyxy)
        found = (
            self._draw(state, options) if options.sample else self._search(state, codes, options)
        )
        return [Sentence(self.words.decode(caption.tokens), caption.logprob) for caption in found]

    def _search(
        self, state: decoding.State, codes: Floats, options: SentenceOptions
    ) -> list[Caption]:
        """The results of the beam search, best first. If they are too few, those of a wider search
        follow."""
        found = self._beam_search(state, options.beam or self.settings.beam)
        if self.settings.alignment_weight and len(found) > 1:
            found = self._rank(found, codes)
        if options.alternatives >= len(found):
            wider = self._beam_search(state, options.alternatives + 1)
            found += [caption for caption in wider if caption not in found]
        return found[: options.alternatives + 1]

    def _beam_search(self, state: decoding.State, width: int) -> list[Caption]:
        (found,) = decoding.beam_search(self._step, state, self.words.start(), self.rules, width)
        return found

    def _rank(self, found: Sequence[Caption], codes: Floats) -> list[Caption]:
        """Sorted by score and by how well the sentence fits the photo by the alignment head."""
        fits = AlignmentHead(self.runtime).fits(
            [self.words.decode(caption.tokens) for caption in found], codes
        )
        scores = [
            self.rules.score(caption) + self.settings.alignment_weight * fit
            for caption, fit in zip(found, fits, strict=True)
        ]
        return [found[place] for place in np.argsort(-np.array(scores), kind="stable")]

    def _draw(self, state: decoding.State, options: SentenceOptions) -> list[Caption]:
        """One after the other, so that the first ones do not depend on the number of samples."""
        found = []
        for number in range(options.alternatives + 1):
            generator = np.random.default_rng([options.seed, number])
            temperature, start = options.temperature, self.words.start()
            found += decoding.sample(
                self._step, state, start, self.rules, generator, temperature, options.top_p
            )
        return found

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
        """S"""
        return self._from_image + regions * (int(self._net["attention"]) or geometry.PLACE)

    def gains(self, sentence: str, scenes: Floats, regions: int) -> NDArray[np.float64]:
        """(P,) log-likelihood ratio of a sentence: photos with scenes (P, S) of `regions` regions
        against an empty photo. Without it, sentences of common words would be likely for every
        photo."""
        nothing = self.scene(np.zeros((1, self.runtime.code_size()), np.float32), NOWHERE, regions)
        found = self.likelihoods(sentence, np.concatenate([nothing[None], scenes]), regions)
        gains: NDArray[np.float64] = found[1:] - found[0]
        return gains

    def likelihoods(self, sentence: str, scenes: Floats, regions: int) -> NDArray[np.float64]:
        """(P,) log-probability of a sentence for photos with scenes (P, S) of `regions` regions:
        the mean over the words that the head knows and END."""
        tokens, total = self.words.encode(self.words.clean(sentence) or ()), np.zeros(len(scenes))
        state = self._state(scenes, regions)
        for before, token in pairwise((self.words.start(), *tokens, END)):
            logprobs, state = self._step(np.full(len(scenes), before), state)
            total += logprobs[:, token] * (token != UNKNOWN)
        return total / (1 + sum(token != UNKNOWN for token in tokens))

    def _state(self, scenes: Floats, regions: int) -> decoding.State:
        """Before START."""
        bias, memory = np.split(scenes, [self._from_image], axis=1)
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
