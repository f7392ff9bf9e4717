"""Whether captions of true boxes name the objects in them. The names are listed in
`language/object_names.toml`.

What a caption names is its head noun, found without a parser: the caption ends at the first word
that opens something about the noun ("with", "on", "holding a"), and the longest name that ends
where it ends counts. So "an orange shirt" names no orange, and "a hot dog on a plate" neither a dog
nor a plate.

A caption is right about a true region, whatever its phrase, where both have the same head noun or
name a class in common, and not a man where the other names a woman.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.matching import boxes_of, captions_at
from regiontalk.language.object_names import object_names, singulars
from regiontalk.language.vocabulary import PREPOSITIONS, clean_karpathy, word_set
from regiontalk.results import ImageRegions

PEOPLE = "person"

_PARTICIPLES = word_set(
    "made seen shown held cut set lit spread taken worn driven ridden hung built"
)
_DETERMINERS = word_set("a an the his her its their this that some another two three four several")
_AFTER_NOUNS = word_set(
    "outdoors indoors together asleep alone nearby ahead away there here it him them"
)
_MALE = word_set("man boy guy gentleman male father dad son brother")
_FEMALE = word_set("woman girl lady female mother mom daughter sister")
# "A group of people" names people, "a bowl of soup" a bowl.
_GROUPS = word_set(
    "group couple pair bunch herd flock team piece slice row stack pile crowd number set lot lots"
)


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
    if word in PREPOSITIONS or word in _AFTER_NOUNS:
        return True
    named = words[place - 1] != "orange" and bool(object_names().classes_of(words[start:place]))
    if word == "and" or word.endswith("ed") or word in _PARTICIPLES:
        return (
            named  # "a man and a dog"; not "a black and white dog", nor "an orange and white cat"
        )
    following = words[place + 1] if place + 1 < len(words) else ""
    return word.endswith("ing") and (
        named or following in _DETERMINERS or following in PREPOSITIONS
    )


def named_classes(caption: str) -> tuple[str, ...]:
    """The object classes that a caption names."""
    return object_names().classes_of(head_words(caption))


def is_right(caption: str, truths: Iterable[TrueRegion]) -> bool:
    """Whether a caption names what one of the true regions is."""
    return any(_same_thing(caption, phrase) for truth in truths for phrase in truth.references)


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
    return [[record.regions[place] for place in row.nonzero()[0]] for row in near]


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
    asked: DatasetModel, records: Iterable[Record], smallest: float = 0.0
) -> Iterator[ImageRegions]:
    """A model's captions of the objects' boxes, exactly as `caption --boxes` makes them."""
    for record in records:
        boxes_xyxy = boxes_of(objects_of(record, smallest))
        if len(boxes_xyxy):
            yield asked.captions(record, boxes_xyxy)


def evaluate_names(
    records: Iterable[Record], photos: Iterable[ImageRegions], smallest: float = 0.0
) -> dict[str, Any]:
    """Captions of `photos` against the objects of `records` that lie on the same boxes (IoU ≥ 0.9).

    An object without a caption (`missing`) counts as named wrongly. Shares are in percent.
    """
    truths = {one.image: objects_of(one, smallest) for one in records}
    objects = Counter(region.phrase for regions in truths.values() for region in regions)
    if not objects:
        raise DataError(
            "no object to name", hint="regions of type 'object' with a class name as their phrase"
        )
    right: Counter[str] = Counter()
    captioned = 0
    for photo in photos:
        own = truths[photo.path]
        for truth, caption in zip(own, captions_at(boxes_of(own), photo.regions), strict=True):
            captioned += caption is not None
            right[truth.phrase] += truth.phrase in named_classes(caption or "")
    total, others = objects.total(), objects.total() - objects[PEOPLE]
    shares = {name: 100 * right[name] / count for name, count in sorted(objects.items())}
    return {
        "right": 100 * right.total() / total,
        "right_without_people": 100 * (right.total() - right[PEOPLE]) / others if others else 0.0,
        "class_mean": sum(shares.values()) / len(shares),
        "objects": total,
        "missing": total - captioned,
        "classes": {
            name: {"right": share, "objects": objects[name]} for name, share in shares.items()
        },
    }
