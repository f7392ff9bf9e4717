"""Do captions of true boxes name the objects in them? The table of names that count is `data/object_names.toml`.

What a caption names is its head noun, found without a parser: the caption ends at the first word that opens something
about the noun ("with", "on", "holding a"), and the longest name that ends where it ends counts. So "an orange shirt"
names no orange, and "a hot dog on a plate" neither a dog nor a plate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.data.object_names import object_names, word_set
from regiontalk.data.records import Record, TrueRegion
from regiontalk.errors import DataError
from regiontalk.types import BoxXYXY, ImageRegions
from regiontalk.vocabulary import clean_karpathy

SAME_BOX = 0.9
PEOPLE = "person"

# Words after which nothing is the noun that a caption is about.
_PREPOSITIONS = word_set(
    """in on at with of to from by near next behind under over above below beside between against along across around
    through into onto inside outside for up down off without toward towards like during while as that who which whose
    is are was has have out about underneath beneath among front upon holding wearing"""
)
_PARTICIPLES = word_set("made seen shown held cut set lit spread taken worn driven ridden hung built")
_DETERMINERS = word_set("a an the his her its their this that some another two three four several")
_AFTER_NOUNS = word_set("outdoors indoors together asleep alone nearby ahead away there here it him them")
# "A group of people" names people, "a bowl of soup" a bowl.
_GROUPS = word_set("group couple pair bunch herd flock team piece slice row stack pile crowd number set lot lots")


def head_words(caption: str) -> list[str]:
    """The words of a caption up to and with its head noun."""
    words = clean_karpathy(caption)
    start = 0
    for place, word in enumerate(words):
        if word == "of" and place and words[place - 1] in _GROUPS:
            start = place + 1
        elif place > start and _ends_noun(words, start, place):
            return words[start:place]
    return words[start:]


def _ends_noun(words: Sequence[str], start: int, place: int) -> bool:
    """Whether the noun has come before the word at `place`."""
    word = words[place]
    if word in _PREPOSITIONS or word in _AFTER_NOUNS:
        return True
    named = words[place - 1] != "orange" and bool(object_names().classes_of(words[start:place]))
    if word == "and" or word.endswith("ed") or word in _PARTICIPLES:
        return named  # "a man and a dog"; not "a black and white dog", nor "an orange and white cat"
    following = words[place + 1] if place + 1 < len(words) else ""
    return word.endswith("ing") and (named or following in _DETERMINERS or following in _PREPOSITIONS)


def named_classes(caption: str) -> tuple[str, ...]:
    """The object classes that a caption names."""
    return object_names().classes_of(head_words(caption))


def objects_of(record: Record, smallest: float = 0.0) -> tuple[TrueRegion, ...]:
    """The regions of a record that are objects, of at least `smallest` × `smallest` pixels of area.

    Pixels are those of the original photo where the record knows its size, else of the stored one.
    """
    scale = _original_area(record) / (record.width * record.height)
    return tuple(
        region
        for region in record.regions
        if region.type == "object" and geometry.area([region.xyxy])[0] * scale >= smallest**2
    )


def photos_with_objects(records: Iterable[Record], smallest: float = 0.0) -> Iterator[tuple[Record, list[BoxXYXY]]]:
    """The records that have objects, and the boxes to caption for `evaluate_names`."""
    for record in records:
        boxes_xyxy = [region.xyxy for region in objects_of(record, smallest)]
        if boxes_xyxy:
            yield record, boxes_xyxy


def _original_area(record: Record) -> float:
    return float((record.original_width or record.width) * (record.original_height or record.height))


@dataclass
class Names:
    """Counts of objects by class: in all, named rightly, and without a caption."""

    objects: Counter[str]
    right: Counter[str]
    missing: int = 0

    def to_dict(self) -> dict[str, Any]:
        people = self.objects[PEOPLE]
        others = self.objects.total() - people
        shares = {name: self.right[name] / count for name, count in sorted(self.objects.items())}
        return {
            "right": self.right.total() / self.objects.total(),
            "right_without_people": (self.right.total() - self.right[PEOPLE]) / others if others else 0.0,
            "class_mean": sum(shares.values()) / len(shares),
            "objects": self.objects.total(),
            "missing": self.missing,
            "classes": {name: {"right": share, "objects": self.objects[name]} for name, share in shares.items()},
        }


def evaluate_names(records: Iterable[Record], photos: Iterable[ImageRegions], smallest: float = 0.0) -> Names:
    """Captions of `photos` against the objects of `records` that lie on the same boxes (IoU ≥ 0.9).

    An object without a caption counts as named wrongly.
    """
    truths: Mapping[str, tuple[TrueRegion, ...]] = {one.image: objects_of(one, smallest) for one in records}
    objects = Counter(region.phrase for regions in truths.values() for region in regions)
    if not objects:
        raise DataError("no object to name", hint="regions of type 'object' with a class name as their phrase")
    result = Names(objects, Counter(), objects.total())
    for photo in photos:
        for truth, caption in _captions(truths[photo.path], photo):
            result.missing -= 1
            result.right[truth.phrase] += truth.phrase in named_classes(caption)
    return result


def _captions(truths: Sequence[TrueRegion], photo: ImageRegions) -> Iterator[tuple[TrueRegion, str]]:
    if not truths or not photo.regions:
        return
    overlaps = geometry.iou(
        np.array([truth.xyxy for truth in truths]), np.array([region.xyxy for region in photo.regions])
    )
    for truth, own in zip(truths, overlaps, strict=True):
        best = int(own.argmax())
        if own[best] >= SAME_BOX:
            yield truth, photo.regions[best].caption
