"""Grounding: how often the region that a phrase was aligned with is the one that people drew for it.

A mention is a phrase in one sentence. Right is a box of IoU ≥ 0.5 with the phrase's true box (the union of its boxes,
as Flickr30k Entities' own protocol has it); the pointing score asks only that the box's centre lies in the true box.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.data.records import Record
from regiontalk.errors import DataError
from regiontalk.maxsim import align_words
from regiontalk.types import BoxXYXY
from regiontalk.vocabulary import clean_karpathy

RIGHT = 0.5
CENTRE = 0.5  # of the photo's width and height: the sides of the centre box

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class TrueMention:
    """A phrase, where it stands among its sentence's words, and its true box."""

    sentence: str
    words: tuple[int, int]
    xyxy: BoxXYXY
    types: tuple[str, ...]


@dataclass(frozen=True)
class Mention:
    """A mention, the photo's regions (row 0 is the whole photo), and how well each word of the sentence fits each."""

    truth: TrueMention
    boxes_xyxy: Floats  # (R, 4)
    fits: Floats  # (W, R)


@dataclass(frozen=True)
class Grounding:
    """Shares of mentions."""

    accuracy: float
    pointing: float
    mentions: int

    def to_dict(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, "pointing": self.pointing, "mentions": self.mentions}


@dataclass(frozen=True)
class GroundingResult:
    model: Grounding
    baselines: dict[str, Grounding]
    types: dict[str, Grounding]
    """The model's, for phrases of each type."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.model.to_dict(),
            "baselines": {name: one.to_dict() for name, one in self.baselines.items()},
            "types": {name: one.to_dict() for name, one in self.types.items()},
        }


def true_mentions(record: Record) -> Iterator[TrueMention]:
    """Every phrase in every sentence that has it. One whose words are not in the sentence is left out."""
    for region in record.regions:
        phrase = clean_karpathy(region.phrase)
        for number in region.sentences:
            if not 0 <= number < len(record.entity_sentences):
                raise DataError(
                    f"{record.image}: {region.phrase!r} is said to be in sentence {number} "
                    f"of {len(record.entity_sentences)} entity_sentences",
                    hint="regiontalk data check names all such records",
                )
            sentence = record.entity_sentences[number]
            start = _find(phrase, clean_karpathy(sentence))
            if start is not None:
                types = tuple((region.type or "other").split("/"))
                yield TrueMention(sentence, (start, start + len(phrase)), region.xyxy, types)


def _find(part: Sequence[str], words: Sequence[str]) -> int | None:
    starts = range(len(words) - len(part) + 1) if part else ()
    return next((start for start in starts if words[start : start + len(part)] == part), None)


def choose_region(fits: Floats, words: tuple[int, int], beta: float | None) -> int:
    """The region of a phrase: the one its words fit best together, or with `beta` the one that most of them have in
    the chain of eqs. 10–12.
    """
    start, end = words
    if beta is None:
        return int(fits[start:end].mean(axis=0).argmax())
    chosen = align_words(fits, beta)[start:end]
    return int(np.bincount(chosen).argmax())


def evaluate_grounding(mentions: Iterable[Mention], beta: float | None = None) -> GroundingResult:
    rows: dict[str, list[tuple[float, float]]] = {}
    types: list[tuple[str, ...]] = []
    for mention in mentions:
        types.append(mention.truth.types)
        for name, outcome in _outcomes(mention, beta).items():
            rows.setdefault(name, []).append(outcome)
    if not types:
        raise DataError("no phrase to look for", hint="records of Flickr30k Entities have them")
    model = rows.pop("model")
    by_type = {
        name: _summary([row for row, own in zip(model, types, strict=True) if name in own])
        for name in sorted({one for own in types for one in own})
    }
    return GroundingResult(_summary(model), {name: _summary(own) for name, own in rows.items()}, by_type)


def _outcomes(mention: Mention, beta: float | None) -> dict[str, tuple[float, float]]:
    """Right and pointed at, of the model and of what needs no model."""
    boxes = mention.boxes_xyxy
    whole = boxes[0]
    centre = geometry.enlarge([whole], CENTRE)[0]
    found = boxes[1:] if len(boxes) > 1 else boxes
    right, pointed = _right(boxes, mention.truth.xyxy), _pointed(boxes, mention.truth.xyxy)
    best = int(geometry.iou(boxes, [mention.truth.xyxy])[:, 0].argmax())
    region = choose_region(mention.fits, mention.truth.words, beta)
    largest = found[int(geometry.area(found).argmax())]
    return {
        "model": (right[region], pointed[region]),
        "random region": (float(np.mean(right)), float(np.mean(pointed))),
        "centre box": (_right([centre], mention.truth.xyxy)[0], _pointed([centre], mention.truth.xyxy)[0]),
        "largest region": (_right([largest], mention.truth.xyxy)[0], _pointed([largest], mention.truth.xyxy)[0]),
        "whole photo": (right[0], pointed[0]),
        "best region there is": (right[best], pointed[best]),
    }


def _right(boxes: Any, truth: BoxXYXY) -> list[float]:
    return [float(overlap >= RIGHT) for overlap in geometry.iou(boxes, [truth])[:, 0]]


def _pointed(boxes: Any, truth: BoxXYXY) -> list[float]:
    x0, y0, x1, y1 = truth
    centres = geometry.xyxy_to_cxcywh(boxes)[:, :2]
    return [float(x0 <= x <= x1 and y0 <= y <= y1) for x, y in centres.tolist()]


def _summary(outcomes: Sequence[tuple[float, float]]) -> Grounding:
    right, pointed = zip(*outcomes, strict=True)
    return Grounding(float(np.mean(right)), float(np.mean(pointed)), len(outcomes))
