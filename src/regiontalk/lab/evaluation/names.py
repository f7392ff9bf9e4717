"""Whether captions of true boxes name the objects in them: whether their head nouns
(`language/head_nouns.py`) stand in `language/object_names.toml`.

A caption is right about a true region, whatever its phrase, where both have the same head noun or
name a class in common, and not a man where the other names a woman.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.boxes import Integers
from regiontalk.errors import DataError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.lab.evaluation.matching import boxes_of, captions_at
from regiontalk.language.head_nouns import head_words, named_classes
from regiontalk.language.object_names import singulars
from regiontalk.language.vocabulary import word_set
from regiontalk.results import ImageRegions

PEOPLE = "person"

_MALE = word_set("man boy guy gentleman male father dad son brother")
_FEMALE = word_set("woman girl lady female mother mom daughter sister")


def is_right(caption: str, truths: Iterable[TrueRegion]) -> bool:
    """Whether a caption names what one of the true regions is."""
    phrases = chain.from_iterable(truth.references for truth in truths)
    return any(_same_thing(caption, phrase) for phrase in phrases)


def _same_thing(caption: str, phrase: str) -> bool:
    ours, theirs = (
        {*singulars(words[-1])} if (words := head_words(text)) else set()
        for text in (caption, phrase)
    )
    if (ours & _MALE and theirs & _FEMALE) or (ours & _FEMALE and theirs & _MALE):
        return False
    return bool(ours & theirs) or not set(named_classes(caption)).isdisjoint(named_classes(phrase))


def truths_near(
    boxes_xyxy: geometry.Floats, record: Record, iou: float = 0.5
) -> list[list[TrueRegion]]:
    """For each box the true regions that it overlaps by at least `iou`: those that say what it
    is."""
    near = geometry.iou(boxes_xyxy, boxes_of(record.regions)) >= iou
    return [list(compress(record.regions, row)) for row in near.tolist()]


def objects_of(record: Record, smallest: float = 0.0) -> tuple[TrueRegion, ...]:
    """The regions of a record that are objects, of at least `smallest` × `smallest` pixels of area.

    Pixels are those of the original photo where the record knows its size, else of the stored one.
    """
    original = (record.original_width or record.width) * (record.original_height or record.height)
    scale = original / (record.width * record.height)
    return tuple(
        region
        for region in record.regions
        if region.type == "object" and geometry.area([region.xyxy])[0] * scale >= smallest**2
    )


def caption_objects(
    dataset_model: DatasetModel, records: Iterable[Record], smallest: float = 0.0
) -> Iterator[ImageRegions]:
    """A model's captions of the objects' boxes, exactly as `caption --boxes` makes them."""
    for record in records:
        boxes_xyxy = boxes_of(objects_of(record, smallest))
        if len(boxes_xyxy):
            yield dataset_model.captions(record, boxes_xyxy)


def evaluate_names(
    records: Iterable[Record], photos: Iterable[ImageRegions], smallest: float = 0.0
) -> dict[str, Any]:
    """Captions of `photos` against the objects of `records` that lie on the same boxes (IoU ≥ 0.9).

    An object without a caption (`missing`) counts as named wrongly. Shares are in percent;
    `intervals` of 95 % are over photos.
    """
    truths = {record.image: objects_of(record, smallest) for record in records}
    every_region = chain.from_iterable(truths.values())
    classes = sorted({region.phrase for region in every_region})
    if not classes:
        raise DataError(
            "no object to name", hint="regions of type 'object' with a class name as their phrase"
        )
    rows = {path: row for row, path in enumerate(truths)}
    columns = {name: column for column, name in enumerate(classes)}
    objects = np.zeros((len(rows), len(columns)), dtype=np.intp)
    right = np.zeros_like(objects)
    for path, own in truths.items():
        for truth in own:
            objects[rows[path], columns[truth.phrase]] += 1
    captioned = 0
    for photo in photos:
        photo_truths = truths[photo.path]
        for truth, caption in zip(
            photo_truths, captions_at(boxes_of(photo_truths), photo.regions), strict=True
        ):
            captioned += caption is not None
            is_named = truth.phrase in named_classes(caption or "")
            right[rows[photo.path], columns[truth.phrase]] += is_named
    others = np.array([name != PEOPLE for name in classes])
    counts = objects.sum(axis=0)
    shares = 100 * right.sum(axis=0) / counts
    return {
        **_shares(objects, right, others),
        "objects": int(counts.sum()),
        "missing": int(counts.sum()) - captioned,
        "classes": {
            name: {"right": float(shares[column]), "objects": int(counts[column])}
            for name, column in columns.items()
        },
        "intervals": bootstrap(
            len(rows), lambda sample: _shares(objects[sample], right[sample], others)
        ),
    }


def _shares(objects: Integers, right: Integers, others: NDArray[np.bool_]) -> dict[str, float]:
    """From how many objects of each class are in each photo (P, classes), and how many are named
    rightly. `others`: the classes that are not people. Classes that do not occur are left out."""
    counts = objects.sum(axis=0)
    named = right.sum(axis=0)
    occurs = counts > 0
    return {
        "right": _percent(named.sum(), counts.sum()),
        "right_without_people": _percent(named[others].sum(), counts[others].sum()),
        "class_mean": float(100 * (named[occurs] / counts[occurs]).mean()) if occurs.any() else 0.0,
    }


def _percent(part: int, whole: int) -> float:
    return 100 * float(part) / float(whole) if whole else 0.0
