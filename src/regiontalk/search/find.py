"""Phrases found on the regions that an index keeps: as `finder` has it, but without likelihoods, because an index does
not keep what the language model would need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from regiontalk import finder
from regiontalk.model_settings import FindConfig
from regiontalk.regions import Candidates
from regiontalk.runtime import Floats, Runtime
from regiontalk.search.store import PhotoFile, Store, StoredPhoto, Where
from regiontalk.types import Finding


class FoundIn(NamedTuple):
    file: PhotoFile
    findings: tuple[Finding, ...]
    """One for each phrase."""


@dataclass(frozen=True)
class Sought:
    """Phrases that are looked for; `threshold` and `top` as in `Model.find`."""

    runtime: Runtime
    phrases: Sequence[str]
    threshold: float | None
    top: int | None

    def find_in(self, store: Store, where: Where) -> Iterator[FoundIn]:
        """Every photo; none if the alignment head knows no word of a phrase."""
        phrases = [finder.read_phrase(self.runtime, phrase) for phrase in self.phrases]
        if not all(len(phrase.vectors) for phrase in phrases):
            return
        with store.reading():
            files = store.files(where.folder)
            # all photos; and each vector is compared with its checksum
            ids = store.word_scores(phrases[0].vectors[:1], where).ids.tolist()
            pairs = list(zip(store.read(ids), store.vectors(ids), strict=True))
        for photo, vectors in pairs:
            yield FoundIn(files[photo.path].file, tuple(self._find(phrases, photo, vectors)))

    def _find(self, phrases: Sequence[finder.Phrase], photo: StoredPhoto, vectors: Floats) -> Iterator[Finding]:
        config = self.runtime.info.prediction.find_indexed or FindConfig(fit=7.0, likelihood=0.0)
        least = config.likely if self.threshold is None else self.threshold
        boxes = np.array([region.xyxy for region in photo.regions], dtype=np.float64)
        # raw scores, as `Model.candidates` has them, on which `find_indexed` is fitted
        seen = Candidates(boxes, np.array(photo.raw_scores), np.zeros(len(boxes), np.float32), (), vectors)
        place = (photo.path, *photo.size, self.runtime.info.name)
        for phrase, evidence in zip(phrases, finder.gather(self.runtime, phrases, seen, False), strict=True):
            likely = evidence.probabilities(config)
            rows, closest = finder.choose(likely, boxes, least, self.top), float(likely.max())
            regions = tuple(replace(photo.regions[row], score=float(likely[row])) for row in rows.tolist())
            yield Finding(*place, phrase.text, closest >= config.likely, regions, closest, phrase.unknown)
