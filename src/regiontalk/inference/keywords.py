"""Keywords for photo managers: the nouns of the captions that the model is sure of, and the names
that it is sure of.

A caption and a sure name of the same region may contradict each other ("a dog", "cat"). Then the
name counts: of 32 such regions on 341 dev photos of COCO, the photo has what the name says in 24,
and what the caption says in 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from regiontalk.language.head_nouns import head_noun, kinds_of
from regiontalk.language.object_names import object_names, plain_name
from regiontalk.models.name_table import NameTable
from regiontalk.results import Region, Shown, Tag, reaches

MIN_NAME_PROB = 0.8


def choose_tags(
    regions: Iterable[Region], shown: Shown, names: NameTable | None
) -> tuple[Tag, ...]:
    """The keywords of a photo's regions that the model is sure of, in the order of the regions,
    each once."""
    everyday = {} if names is None else dict(zip(names.names, names.coarse, strict=True))
    by_word: dict[str, Tag] = {}
    for region in filter(shown.is_sure, regions):
        for tag in _tags_of(region, everyday.get(region.name or "")):
            by_word.setdefault(tag.word, tag)
    wider = set(chain.from_iterable(tag.kinds for tag in by_word.values()))
    return tuple(tag for tag in by_word.values() if tag.word not in wider)


def listed_tags(regions: Iterable[Region], shown: Shown) -> tuple[Tag, ...]:
    """The keywords of regions that are called by one's own list of names: these names alone."""
    names = [region.name for region in filter(shown.is_sure, regions)]
    return tuple(Tag(name) for name in dict.fromkeys(names) if name is not None)


def _tags_of(region: Region, everyday: str | None) -> Iterator[Tag]:
    """`everyday` is the word of everyday language for the region's name, if it has one."""
    if region.taught and region.name is not None:
        yield Tag(region.name, ())
        return
    noun = head_noun(region.caption)
    if region.name is None or everyday is None or not _is_sure_name(region):
        if noun:
            yield Tag(noun, kinds_of(noun))
        return
    noun_classes = _classes_of(noun)
    name_classes = _classes_of(everyday)
    are_same = not noun_classes.isdisjoint(name_classes)
    if noun and (are_same or not noun_classes or not name_classes):
        yield Tag(noun, kinds_of(noun))
    if region.name != everyday or not are_same:  # "a man" is not called "a person", too
        word = plain_name(region.name)
        kinds = (*kinds_of(everyday), everyday)
        yield Tag(word, tuple(kind for kind in kinds if kind != word))


def _is_sure_name(region: Region) -> bool:
    return region.name_confidence is not None and reaches(region.name_confidence, MIN_NAME_PROB)


def _classes_of(noun: str) -> set[str]:
    return set(object_names().classes_of(noun.split())) if noun else set()
