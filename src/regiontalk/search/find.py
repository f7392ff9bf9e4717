"""Finds phrases among the regions of an index: as in `inference.find`, but without likelihoods, and
with the stored captions in place of names, because an index stores neither the inputs of the
language model nor the codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regiontalk.inference import find as finder
from regiontalk.inference.find import PhraseEvidence
from regiontalk.inference.known_names import others_by_captions, shown_by_captions
from regiontalk.inference.phrases import Phrase, about_words, read_phrases
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import FindConfig
from regiontalk.results import Finding, Region
from regiontalk.search.store import PhotoFile, Store, Where


class FoundIn(NamedTuple):
    file: PhotoFile
    findings: tuple[Finding, ...]
    """One for each phrase."""


def find_in(
    store: Store,
    where: Where,
    runtime: Runtime,
    phrases: Sequence[str],
    threshold: float | None,
    top: int | None,
) -> Iterator[FoundIn]:
    """The findings of every photo; none if the alignment head cannot read one of the phrases. See
    `Model.find`."""
    config = runtime.info.prediction.find_indexed or FindConfig(fit=7.0, likelihood=0.0)
    least = config.likely if threshold is None else threshold
    sought = read_phrases(runtime, phrases)
    if not sought or not all(len(phrase.vectors) for phrase in sought):
        return
    with store.reading():
        files = store.files(where.folder)
        # all photos; and each vector is compared with its checksum
        ids = store.word_scores(sought[0].vectors[:1], where).ids.tolist()
        pairs = list(zip(store.read(ids), store.vectors(ids), strict=True))
    for photo, vectors in pairs:
        boxes = np.array([region.xyxy for region in photo.regions], dtype=np.float64)
        # raw scores, as `Model.candidates` has them, on which `find_indexed` is fitted
        table = RegionTable(
            Frame(photo.size, photo.size, (1.0, 1.0)),
            boxes_xyxy=boxes,
            scores=np.array(photo.raw_scores),
            vectors=vectors,
        )
        findings = []
        gathered = gather_stored(runtime, sought, table, photo.regions)
        for phrase, evidence in zip(sought, gathered, strict=True):
            likely = evidence.probabilities(config)
            rows = finder.choose(likely, boxes, least, top)
            closest = float(likely.max())
            regions = tuple(
                replace(photo.regions[row], score=float(likely[row])) for row in rows.tolist()
            )
            place = (photo.path, *photo.size, runtime.info.name)
            about = (phrase.text, closest >= config.likely, regions, closest)
            findings.append(Finding(*place, *about, **about_words([phrase])))
        yield FoundIn(files[photo.path].file, tuple(findings))


def gather_stored(
    runtime: Runtime, phrases: Sequence[Phrase], table: RegionTable, regions: Sequence[Region]
) -> list[PhraseEvidence]:
    """The evidence for each phrase from what an index stores: vectors and scores in the `table`,
    and the same `regions` with their captions."""
    return [
        evidence._replace(
            shown=shown_by_captions(phrase, regions), others=others_by_captions(phrase, regions)
        )
        for phrase, evidence in zip(
            phrases, finder.gather(runtime, phrases, table, by_likelihood=False), strict=True
        )
    ]
