"""Taught words among the photos of an index, by the vectors that it stores: no photo is opened, and
an index that was made before a word was taught answers too.

Shapes: P photos, R regions of each, h the size of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regiontalk.inference import find as finder
from regiontalk.inference.taught import SURE, TaughtWords, called, say_taught, without_parts
from regiontalk.inference.teaching import Taught
from regiontalk.results import Finding, Hit, Hits, Region, WordMatch
from regiontalk.search.query import Parsed, parse
from regiontalk.search.store import PhotoFile, Store, StoredPhoto, Where

SECOND_LOOK = 200
"""The best photos by 8 bits of their vectors, which are compared exactly."""

SearchRest = Callable[[str, int], Hits]
"""Searches for the phrases of a query that were not taught: at most so many photos."""


CLOSE_PHOTOS = 50
"""Photos closest to a word, among which unsure regions are looked for."""


class Unsure(NamedTuple):
    """A region of which it is unsure whether it shows a word."""

    photo: StoredPhoto
    row: int
    """Its number among the photo's regions."""
    word: str
    probability: float


def taught_phrases(query: str, taught: Taught | None) -> Parsed:
    """The taught words that a query asks for, wanted and unwanted."""
    parsed = parse(query)
    if taught is None or taught.by_vector is None:
        return Parsed((), ())
    return Parsed(_taught_words(parsed.wanted, taught), _taught_words(parsed.unwanted, taught))


def _taught_words(texts: Iterable[str], taught: Taught) -> tuple[str, ...]:
    words = [taught.word_in(text.strip('"')) for text in texts]
    return tuple(word for word in words if word is not None)


def search_taught(
    store: Store,
    taught: Taught,
    query: str,
    rest: SearchRest,
    top: int,
    threshold: float | None,
    where: Where,
) -> Hits:
    """The best photos for a query with taught words; its other phrases are left to `rest`."""
    known = taught.by_vector
    assert known is not None
    words = taught_phrases(query, taught)
    count = max(top, SECOND_LOOK)
    others = _without_taught(query, taught)
    with store.reading():
        of_others: dict[int, Hit] = {}
        if others:
            results = rest(others, count)
            ids = [store.find_key(hit.id) for hit in results]
            of_others = {id: hit for id, hit in zip(ids, results, strict=True) if id is not None}
            candidates = list(of_others)
        else:
            candidates, searched = _closest(store, known, words, where, count)
            results = Hits(query, (), searched)
        photos = _shown_in(store, known, candidates, words)
        for photo in photos:
            if photo.id in of_others:
                hit = of_others[photo.id]
                photo.score *= hit.score
                photo.likely = photo.likely and hit.likely
        kept = [photo for photo in photos if photo.score >= (threshold or 0.0)]
        kept.sort(key=lambda photo: (not photo.likely, -photo.score))
        best = kept[:top]
        stored = store.read(photo.id for photo in best)
        hits = [
            _to_hit(photo, stored_photo, words.wanted, of_others.get(photo.id))
            for photo, stored_photo in zip(best, stored, strict=True)
        ]
    closest = max((photo.score for photo in photos), default=None)
    return replace(results, query=query, hits=tuple(hits), closest=closest)


@dataclass
class _Shown:
    """How likely a photo shows the wanted words, and where."""

    id: int
    score: float
    likely: bool
    rows: list[int]
    """The best region of each word."""
    probabilities: list[float]


def _shown_in(store: Store, known: TaughtWords, ids: Sequence[int], words: Parsed) -> list[_Shown]:
    """Photos that show no unwanted word."""
    if not ids:
        return []
    vectors = store.vectors(ids)
    ends = np.cumsum([len(photo_vectors) for photo_vectors in vectors])
    z = known.space.place(np.concatenate(vectors))
    likely = {
        word: np.split(known.one(word).probabilities_at(z)[:, 0], ends[:-1])
        for word in (*words.wanted, *words.unwanted)
    }
    photos = []
    for number, id in enumerate(ids):
        if any(likely[word][number].max() >= SURE for word in words.unwanted):
            continue
        rows = [int(likely[word][number].argmax()) for word in words.wanted]
        best = [float(likely[word][number].max()) for word in words.wanted]
        is_likely = all(probability >= SURE for probability in best)
        photos.append(_Shown(id, math.prod(best), is_likely, rows, best))
    return photos


def _to_hit(shown: _Shown, photo: StoredPhoto, words: Sequence[str], of_others: Hit | None) -> Hit:
    """`of_others`: the hit for the other phrases of the query."""
    matches = () if of_others is None else of_others.words
    regions = () if of_others is None else of_others.regions
    for word, row, sure in zip(words, shown.rows, shown.probabilities, strict=True):
        matches = (*matches, WordMatch(word, sure, len(regions)))
        regions = (*regions, called(photo.regions[row], word, sure))
    place = (photo.key, *photo.size)
    return Hit(photo.path, shown.score, matches, regions, *place, likely=shown.likely)


def _without_taught(query: str, taught: Taught) -> str:
    """The phrases of a query that were not taught, as a query; "" if no wanted one is left."""
    parsed = parse(query)
    wanted = [text for text in parsed.wanted if taught.word_in(text) is None]
    unwanted = [
        text if text.startswith('"') or " " not in text else f'"{text}"'
        for text in parsed.unwanted
        if taught.word_in(text.strip('"')) is None
    ]
    minus = [f"-{text}" for text in unwanted]
    return " ".join(["; ".join(wanted), *minus]) if wanted else ""


def _closest(
    store: Store, known: TaughtWords, words: Parsed, where: Where, count: int
) -> tuple[list[int], int]:
    """The photos closest to the wanted words by a linear form of s(w), and the number of all. It
    leaves out the length of (v − mean) · axes, which varies little."""
    chosen = [known.one(word) for word in words.wanted]
    lines = (
        np.concatenate([taught_word.middles for taught_word in chosen]) @ known.space.axes.T
    )  # (W, h)
    scored = store.word_scores(lines.astype(np.float32), where)
    together = scored.scores.sum(axis=1)
    order = np.argsort(-together, kind="stable")[:count]
    return scored.ids[order].tolist(), scored.searched


def with_taught_words(
    store: Store, taught: Taught | None, photo: StoredPhoto
) -> tuple[Region, ...]:
    """The regions of a photo of the index, called by the words that were taught since."""
    known = None if taught is None else taught.by_vector
    if known is None or len(photo.regions) < 2:
        return photo.regions
    whole, *regions = photo.regions
    likely = known.probabilities(store.vectors([photo.id])[0])[1:]
    return (whole, *say_taught(regions, likely, known.names))


def find_taught(
    store: Store,
    taught: Taught,
    where: Where,
    text: str,
    model: str,
    threshold: float | None,
    top: int | None,
) -> list[tuple[PhotoFile, Finding]]:
    """Where a taught word is in each photo; see `Model.find`."""
    known = taught.by_vector
    word = taught.word_in(text)
    assert known is not None
    assert word is not None
    only = known.one(word)
    min_probability = SURE if threshold is None else threshold
    findings = []
    with store.reading():
        files = store.files(where.folder)
        ids = store.word_scores(only.middles @ known.space.axes.T, where).ids.tolist()
        for photo, vectors in zip(store.read(ids), store.vectors(ids), strict=True):
            boxes = np.array([region.xyxy for region in photo.regions], dtype=np.float64)
            likely = without_parts(only.probabilities(vectors)[:, 0], boxes)
            rows = finder.choose(likely, boxes, min_probability, top).tolist()
            chosen = [(photo.regions[row], float(likely[row])) for row in rows]
            regions = tuple(
                replace(called(region, word, probability), score=probability)
                for region, probability in chosen
            )
            closest = float(likely.max())
            place = (photo.path, *photo.size, model)
            finding = Finding(*place, text, closest >= SURE, regions, closest)
            findings.append((files[photo.path].file, finding))
    return findings


def least_sure(
    store: Store,
    taught: Taught,
    where: Where,
    top: int,
    root: Path,
    given: Container[tuple[str, str]],
) -> list[Unsure]:
    """The regions of which it is least sure whether they show a taught word, one of each photo for
    a word. `given`: words and the photos that have an example of them already; they are left
    out."""
    known = taught.by_vector
    if known is None:
        return []
    lines = (known.middles @ known.space.axes.T).astype(np.float32)
    unsure_regions = list[Unsure]()
    with store.reading():
        scored = store.word_scores(lines, where)
        for column, word in enumerate(known.names):
            order = np.argsort(-scored.scores[:, column], kind="stable")[:CLOSE_PHOTOS]
            ids = scored.ids[order].tolist()
            for photo, vectors in zip(store.read(ids), store.vectors(ids), strict=True):
                path = str((root / photo.path).absolute())
                if (word, path) not in given and len(vectors) > 1:
                    likely = known.one(word).probabilities(vectors[1:])[:, 0]
                    row = int(likely.argmax())
                    unsure_regions.append(Unsure(photo, 1 + row, word, float(likely[row])))
    unsure_regions.sort(key=lambda unsure: abs(unsure.probability - SURE))
    return unsure_regions[:top]
