"""Grounding: how often the region that a phrase was aligned with is the one that people drew for
it.

A mention is a phrase in one sentence. Right is a box of IoU ≥ 0.5 with the phrase's true box (the
union of its boxes, as Flickr30k Entities' own protocol has it); the pointing score asks only that
the box's centre lies in the true box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.inference.maxsim import align_words
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.intervals import bootstrap_shares
from regiontalk.language.vocabulary import clean_karpathy
from regiontalk.results import BoxXYXY

RIGHT_IOU = 0.5
BASELINES = ("centre box", "largest region", "whole photo", "best region there is")
CENTRE_BOX_SIDE = 0.5  # of the photo's width and height: the sides of the centre box

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class TrueMention:
    """A phrase, where it stands among its sentence's words, and its true box."""

    image: str
    sentence: str
    words: tuple[int, int]
    xyxy: BoxXYXY
    types: tuple[str, ...]


@dataclass(frozen=True)
class Mention:
    """A mention, the photo's regions (row 0 is the whole photo), and how well each word of the
    sentence fits each."""

    truth: TrueMention
    boxes_xyxy: Floats  # (R, 4)
    fits: Floats  # (W, R), with the other terms of the score added
    chain: NDArray[np.intp]
    """(W,) the region that `align` gives each word."""


def true_mentions(record: Record) -> Iterator[TrueMention]:
    """Every phrase in every sentence that has it. One whose words are not in the sentence is left
    out."""
    for region in record.regions:
        phrase = clean_karpathy(region.phrase)
        for number in region.sentences:
            if not 0 <= number < len(record.entity_sentences):
                raise DataError(
                    f"{record.image}: {region.phrase!r} should be in sentence {number} "
                    f"of {len(record.entity_sentences)} entity_sentences",
                    hint="regiontalk data check names all such records",
                )
            sentence = record.entity_sentences[number]
            start = _find(phrase, clean_karpathy(sentence))
            if start is not None:
                types = tuple((region.type or "other").split("/"))
                words = (start, start + len(phrase))
                yield TrueMention(record.image, sentence, words, region.xyxy, types)


def _find(part: Sequence[str], words: Sequence[str]) -> int | None:
    starts = range(len(words) - len(part) + 1) if part else ()
    return next((start for start in starts if words[start : start + len(part)] == part), None)


def choose_region(fits: Floats, words: tuple[int, int], beta: float | None) -> int:
    """The region of a phrase: the one its words fit best together, or with `beta` the one that most
    of them have in the chain of eqs. 10–12.
    """
    start, end = words
    if beta is None:
        return int(fits[start:end].mean(axis=0).argmax())
    return most_chosen(align_words(fits, beta), words)


def most_chosen(chain: NDArray[np.intp], words: tuple[int, int]) -> int:
    """The region that most words of a phrase have."""
    start, end = words
    return int(np.bincount(chain[start:end]).argmax())


def evaluate_grounding(mentions: Iterable[Mention], beta: float | None = None) -> dict[str, Any]:
    """Shares of mentions: `accuracy` and `pointing` of the model, for phrases of each type, and
    without a model; `chain`: if `align` is not told what the phrases are; `intervals` of 95 %, over
    photos."""
    rows: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    types: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    chance: list[tuple[float, float]] = []
    photos: list[str] = []
    for mention in mentions:
        photos.append(mention.truth.image)
        right, pointed = _verdicts(mention.boxes_xyxy, mention.truth.xyxy)
        chance.append((float(np.mean(right)), float(np.mean(pointed))))
        for name, row in _choices(mention, beta).items():
            rows[name].append((right[row], pointed[row]))
        centre = geometry.enlarge(mention.boxes_xyxy[:1], CENTRE_BOX_SIDE)
        rows["centre box"].append(
            tuple(verdict[0] for verdict in _verdicts(centre, mention.truth.xyxy))
        )
        for name in mention.truth.types:
            types[name].append(rows["model"][-1])
    if not chance:
        raise DataError("no phrase to look for", hint="records of Flickr30k Entities have them")
    baselines = {"random region": chance} | {name: rows[name] for name in BASELINES}
    return {
        **_summary(rows["model"]),
        "chain": _summary(rows["chain"]),
        "baselines": {name: _summary(verdicts) for name, verdicts in baselines.items()},
        "types": {name: _summary(types[name]) for name in sorted(types)},
        "intervals": _intervals(photos, rows["model"]),
    }


def _choices(mention: Mention, beta: float | None) -> dict[str, int]:
    """The number of the region that the model chooses, and what needs no words chooses."""
    boxes = mention.boxes_xyxy
    areas = geometry.area(boxes)
    areas[0] = (
        -1 if len(boxes) > 1 else areas[0]
    )  # the whole photo is no region, unless it is all there is
    return {
        "chain": most_chosen(mention.chain, mention.truth.words),
        "model": choose_region(mention.fits, mention.truth.words, beta),
        "largest region": int(areas.argmax()),
        "whole photo": 0,
        "best region there is": int(geometry.iou(boxes, [mention.truth.xyxy])[:, 0].argmax()),
    }


def _verdicts(boxes_xyxy: Floats, truth: BoxXYXY) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which boxes are right, and which have their centre in the true box."""
    low = np.array(truth[:2])
    high = np.array(truth[2:])
    centres = geometry.xyxy_to_cxcywh(boxes_xyxy)[:, :2]
    pointed = np.logical_and.reduce((low <= centres) & (centres <= high), axis=1)
    return is_right(boxes_xyxy, truth), pointed


def is_right(boxes_xyxy: Floats, truth: BoxXYXY) -> NDArray[np.bool_]:
    return geometry.iou(boxes_xyxy, [truth])[:, 0] >= RIGHT_IOU


def _intervals(
    photos: Sequence[str], outcomes: Sequence[tuple[bool, bool]]
) -> dict[str, list[float]]:
    right, pointed = zip(*outcomes, strict=True)
    return bootstrap_shares(photos, {"accuracy": right, "pointing": pointed})


def _summary(outcomes: Sequence[tuple[float, float]]) -> dict[str, Any]:
    right, pointed = zip(*outcomes, strict=True)
    return {
        "accuracy": float(np.mean(right)),
        "pointing": float(np.mean(pointed)),
        "mentions": len(outcomes),
    }
