"""Sentences from codes, through a model's head `sentence` (K&FF section 3.2).

Shapes: K rows of codes, the first one's the whole photo; D the size of a code; N nested views; R sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk import decoding
from regiontalk.errors import UsageError
from regiontalk.runtime import Floats, Runtime
from regiontalk.types import Sentence

VIEWS = 3  # a region, its surroundings, its whole photo; a whole photo is all three of them
WIDEST = 100  # beams


@dataclass(frozen=True)
class SentenceHead:
    """The head `sentence` of a model."""

    runtime: Runtime

    def check(self, beam: int | None, alternatives: int) -> None:
        """Says before any work what cannot be asked for, or that the model has no such head."""
        self.runtime.head("sentence")
        if beam is not None and not 1 <= beam <= WIDEST:
            raise UsageError(f"beam is {beam}; it may be from 1 to {WIDEST}")
        if not 0 <= alternatives < (beam or WIDEST):
            raise UsageError(f"alternatives is {alternatives}; it must be less than the beam, {beam or WIDEST}")

    def sentences(
        self, codes: Floats, boxes_xyxy: NDArray[np.float64], beam: int | None, alternatives: int, seed: int | None
    ) -> list[Sentence]:
        """The likeliest sentences of a photo, likeliest first: codes (K, D), boxes in pixels (K, 4)."""
        settings, words = self._settings(), self.runtime.head("sentence").words
        state = self._begin(codes, boxes_xyxy)
        count, start, longest = 1 + alternatives, words.start(), settings["longest"]
        if seed is not None:
            drawn = tuple(part.repeat(count, axis=0) for part in state)
            found = decoding.sample(self._step, drawn, start, longest, np.random.default_rng(seed))
            found = sorted(found, key=lambda caption: -caption.logprob)
        elif (width := beam or max(settings["beam"], count)) == 1:
            found = decoding.greedy(self._step, state, start, longest)
        else:
            (found,) = decoding.beam_search(self._step, state, start, longest, width, count)
        return [Sentence(words.decode(caption.tokens), caption.logprob) for caption in found]

    def _settings(self) -> dict[str, Any]:
        return self.runtime.head("sentence").info.settings

    def _begin(self, codes: Floats, boxes_xyxy: NDArray[np.float64]) -> decoding.State:
        views = np.repeat(codes[None, :1], VIEWS, axis=1)  # (1, N, D)
        places = geometry.places(boxes_xyxy, boxes_xyxy[0, 2:]).astype(np.float32)
        return tuple(self.runtime.run("sentence_begin", views, codes[None], places[None]))

    def _step(self, tokens: decoding.Integers, state: decoding.State) -> tuple[decoding.Floats, decoding.State]:
        logprobs, h, c, bias = self.runtime.run("sentence_step", tokens, *state)
        return logprobs, (h, c, bias, *state[3:])
