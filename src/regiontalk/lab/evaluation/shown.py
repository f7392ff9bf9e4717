"""The captions that people see of photos by default, against what people wrote about these.

- A caption is right as in `lab.evaluation.names`, of those on a true region.
- A colour is right where a phrase on the region says it, of those where a phrase says any.
- A sentence's first thing ("a dog" of "A dog runs after a ball") is that of its first phrase with
  a box. It is named where a caption, wherever in the photo, is right about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from regiontalk.boxes import Integers
from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.evaluation.names import is_right, truths_near
from regiontalk.language.colours import colours_said
from regiontalk.language.vocabulary import clean_karpathy
from regiontalk.results import ImageRegions


class ShownCounts(NamedTuple):
    """Of one photo."""

    captions: int
    on_truths: int
    """Captions of regions that lie on true ones."""
    right: int
    colours: int
    colours_with_truth: int
    """Colours of captions on whose region a phrase says some colour."""
    colours_right: int
    first_things: int
    first_things_named: int


def count_shown(photo: ImageRegions, record: Record) -> ShownCounts:
    """What is shown of a photo, in the pixels of its record."""
    shown = photo.shown.choose(photo.regions)
    captions = [region.caption for region in shown]
    near = truths_near(boxes_of(shown), record)
    on_truths = [
        is_right(caption, some) for caption, some in zip(captions, near, strict=True) if some
    ]
    said = [colours_said(caption.split()) for caption in captions]
    judged = list[bool]()
    for colours, some in zip(said, near, strict=True):
        true_colours = _colours_of(some)
        judged += [colour in true_colours for colour in colours if true_colours]
    named = [
        any(is_right(caption, thing) for caption in captions) for thing in first_things(record)
    ]
    return ShownCounts(
        captions=len(captions),
        on_truths=len(on_truths),
        right=sum(on_truths),
        colours=sum(map(len, said)),
        colours_with_truth=len(judged),
        colours_right=sum(judged),
        first_things=len(named),
        first_things_named=sum(named),
    )


def first_things(record: Record) -> list[list[TrueRegion]]:
    """For each sentence with phrases on boxes, the regions of what it mentions first."""
    things = []
    for number, sentence in enumerate(record.entity_sentences):
        text = sentence.lower()
        places = [
            (text.find(region.phrase.lower()), row)
            for row, region in enumerate(record.regions)
            if number in region.sentences
        ]
        mentioned = [row for place, row in sorted(places) if place >= 0]
        if mentioned:
            first = record.regions[mentioned[0]]
            things.append([region for region in record.regions if _is_same(region, first)])
    return things


def _is_same(region: TrueRegion, other: TrueRegion) -> bool:
    return region is other or (region.entity is not None and region.entity == other.entity)


def _colours_of(truths: Iterable[TrueRegion]) -> set[str]:
    phrases = chain.from_iterable(truth.references for truth in truths)
    return {*chain.from_iterable(colours_said(clean_karpathy(phrase)) for phrase in phrases)}


def evaluate_shown(photos: Iterable[ShownCounts]) -> dict[str, Any]:
    """The shares of right captions, right colours and named first things in percent, with 95 %
    intervals over photos; and how many captions and colours a photo has."""
    counts = np.array(list(photos), dtype=np.int64).reshape(-1, len(ShownCounts._fields))
    if not counts[:, 0].any():
        raise DataError("no caption is shown")
    totals = ShownCounts(*counts.sum(axis=0).tolist())
    return {
        "photos": len(counts),
        "captions_per_photo": totals.captions / len(counts),
        "colours_per_photo": totals.colours / len(counts),
        **_shares(counts),
        "intervals": bootstrap(len(counts), lambda sample: _shares(counts[sample])),
        "counts": totals._asdict(),
    }


def _shares(counts: Integers) -> dict[str, float]:
    totals = ShownCounts(*counts.sum(axis=0).tolist())
    pairs = {
        "right": (totals.right, totals.on_truths),
        "colours_right": (totals.colours_right, totals.colours_with_truth),
        "first_things_named": (totals.first_things_named, totals.first_things),
    }
    return {name: 100 * part / whole if whole else 0.0 for name, (part, whole) in pairs.items()}
