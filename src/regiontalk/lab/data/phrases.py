"""Phrases of several lengths from a photo's sentences, placed on its boxes.

If regions have entity chains (Flickr30k Entities), a phrase gets the box of the words that it
contains. Otherwise it gets the box of an object, if its noun names the object and only one box can
be meant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regiontalk import boxes
from regiontalk.errors import DataError
from regiontalk.lab.data.merging import in_place
from regiontalk.lab.data.noun_phrases import (
    MOST_WORDS,
    NounPhrase,
    noun_phrase_between,
    noun_phrases,
)
from regiontalk.lab.data.parse_tree import PARSER, Parser, Sentence, Token, Tree
from regiontalk.lab.data.records import Record, TrueRegion, stream_records
from regiontalk.lab.data.writing import Counts, write_dataset
from regiontalk.language.articles import indefinite_article
from regiontalk.language.object_names import object_names

DERIVED = "derived"
MUCH_LARGER = (
    3.0  # the largest of several boxes is meant if its area is this many times the next one's
)
PLURAL_PAIRS = frozenset(("skis", "scissors"))  # plural words for one thing
UNCOUNTABLE = frozenset(("broccoli", "luggage", "cattle", "people"))
LONGEST_SENTENCE = (
    1000  # characters; longer texts are not sentences, and the parser needs much memory for them
)
RECORDS_AT_ONCE = 2000  # whose sentences are parsed together


def add_phrases(
    folder: Path,
    out: Path,
    parser: Parser,
    splits: Sequence[str] = ("train",),
    keep_paths: bool = False,
    force: bool = False,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> dict[str, Any]:
    """Writes the data set `out` with phrases added to the regions of `splits`; returns its
    description.

    `keep_paths`: relative paths of photos are kept, for an `out` in the same folder as `folder`.
    """
    counts: Counter[str] = Counter()
    lengths: Counter[int] = Counter()  # words of the added phrases

    def with_phrases(_: Path) -> Iterator[Record]:
        for record, trees in _parsed(track(stream_records(folder)), parser, splits):
            derived = place_phrases(record, trees) if trees else []
            counts.update(sentences=len(trees), photos=bool(derived))
            lengths.update(len(region.phrase.split()) for region in derived)
            named = record if keep_paths else in_place(record, folder)
            yield replace(named, regions=(*record.regions, *derived))
        if not counts["sentences"]:
            raise DataError(f"{folder}: no record of split {' or '.join(splits)} has sentences")

    def results(_: Counts) -> dict[str, Any]:
        of_words = {str(words): lengths[words] for words in sorted(lengths)}
        return {
            "derived": lengths.total(),
            "photos_with_derived": counts["photos"],
            "derived_of_words": of_words,
        }

    how = {"source": "phrases", "settings": {"splits": list(splits), "parser": PARSER}}
    return write_dataset(out, force, folder, how, with_phrases, results)


def _parsed(
    records: Iterable[Record], parser: Parser, splits: Sequence[str]
) -> Iterator[tuple[Record, list[Tree]]]:
    """Every record with the parses of its sentences, of those in `splits`; many are parsed at
    once."""
    rest = iter(records)
    while some := list(islice(rest, RECORDS_AT_ONCE)):
        sentences = [sentences_of(record) if record.split in splits else [] for record in some]
        trees = parser(list(chain.from_iterable(sentences)))
        for record, record_sentences in zip(some, sentences, strict=True):
            yield record, [next(trees) for _ in record_sentences]


def sentences_of(record: Record) -> list[Sentence]:
    """The texts to parse: the words of `entity_sentences`, which chains refer to, else the
    sentences."""
    if record.entity_sentences:
        return [_of_length(sentence.lower()).split() for sentence in record.entity_sentences]
    return [_of_length(sentence.lower().strip()) for sentence in record.sentences]


def _of_length(sentence: str) -> str:
    return sentence if len(sentence) <= LONGEST_SENTENCE else ""


def place_phrases(record: Record, trees: Sequence[Tree]) -> list[TrueRegion]:
    """New regions with the phrases of a record's parsed sentences, each once, without those that it
    already has."""
    place = _by_entities if record.entity_sentences else _by_objects
    seen = {(region.xyxy, region.phrase.lower()) for region in record.regions}
    derived: list[TrueRegion] = []
    for region in place(record, trees):
        if (region.xyxy, region.phrase) not in seen:
            seen.add((region.xyxy, region.phrase))
            derived.append(region)
    return derived


def _by_entities(record: Record, trees: Sequence[Tree]) -> Iterator[TrueRegion]:
    for region in record.regions:
        for number in region.sentences:
            if not 0 <= number < len(trees):
                raise DataError(
                    f"{record.image}: {region.phrase!r} is in sentence {number} of {len(trees)}"
                )
            noun = _entity_phrase(region, trees[number])
            if noun is not None and (
                noun.plural or not region.boxes_xyxy
            ):  # "a dog" on two boxes is a mistake
                for text in _texts(noun, trees[number]):
                    yield replace(region, phrase=text, type=DERIVED, sentences=(), more={})


def _entity_phrase(region: TrueRegion, tree: Tree) -> NounPhrase | None:
    """The noun phrase of a region's phrase in a sentence; None if it occurs twice, or has no
    noun."""
    words = region.phrase.lower().split()
    sentence = [token.text for token in tree.tokens]
    starts = [
        start for start in range(len(sentence)) if sentence[start : start + len(words)] == words
    ]
    if len(starts) != 1:
        return None
    return noun_phrase_between(tree, starts[0], starts[0] + len(words) - 1)


@dataclass(frozen=True)
class Mention:
    """Objects of the photo that a noun of a sentence may mean; `several`: more than one at a
    time."""

    labels: tuple[str, ...]
    several: bool
    texts: tuple[str, ...]


def _by_objects(record: Record, trees: Sequence[Tree]) -> Iterator[TrueRegion]:
    objects = _objects(record)
    sentences = [list(_mentions(tree, objects)) for tree in trees]
    plurals = [mention for mention in chain(*sentences) if mention.several]
    several = set(chain.from_iterable(mention.labels for mention in plurals))
    for mentions in sentences:
        counts = Counter(chain.from_iterable(mention.labels for mention in mentions))
        for mention in mentions:
            labels = mention.labels
            if several.isdisjoint(labels) and all(counts[label] == 1 for label in labels):
                meant = _the_one(list(chain.from_iterable(objects[label] for label in labels)))
                if meant is not None:
                    more = {"object": meant.phrase}
                    yield from (
                        TrueRegion(meant.xyxy, text, DERIVED, more=more) for text in mention.texts
                    )


def _objects(record: Record) -> dict[str, list[TrueRegion]]:
    """The objects of a photo by their label: regions of type "object", or without a type."""
    objects: dict[str, list[TrueRegion]] = defaultdict(list)
    for region in record.regions:
        if region.type in ("object", None):
            objects[region.phrase.lower()].append(region)
    return dict(objects)


def _mentions(tree: Tree, objects: Mapping[str, Sequence[TrueRegion]]) -> Iterator[Mention]:
    names = object_names()
    for noun in noun_phrases(tree):
        words = tree.words(noun.start, noun.head)
        labels = tuple(label for label in names.classes_of(words, objects) if label in objects)
        if not labels or (words[-1] in names.family and not names.animals.isdisjoint(objects)):
            continue
        if tree.words(noun.head, noun.head + 1) in (
            ["couple", "of"],
            ["crowd", "of"],
            ["family", "of"],
        ):
            continue  # "a couple of dogs" are no people
        if "sports ball" in labels and not _determined(tree.tokens[noun.start]):
            continue  # "playing baseball" is no ball
        yield Mention(
            labels, noun.plural and not PLURAL_PAIRS.issuperset(labels), _texts(noun, tree)
        )


def _texts(noun: NounPhrase, tree: Tree) -> tuple[str, ...]:
    """The phrase's texts; "man on a horse" becomes "a man on a horse" where the noun is known to be
    countable."""
    if noun.plural or _determined(tree.tokens[noun.start]):
        return noun.texts
    words = tree.words(noun.start, noun.head)
    if words[-1] in UNCOUNTABLE or not object_names().classes_of(words):
        return tuple(text for text in noun.texts if text != noun.short)
    short = [text for text in noun.texts if len(text.split()) < MOST_WORDS]
    return tuple(f"{indefinite_article(text)} {text}" for text in short)


def _determined(first: Token) -> bool:
    return first.dep in ("det", "nummod", "poss", "quantmod")


def _the_one(regions: Sequence[TrueRegion]) -> TrueRegion | None:
    """The region that a singular noun means: the only one, or one that is much larger than all
    others."""
    areas = boxes.area([region.xyxy for region in regions])
    largest, *others = sorted(range(len(regions)), key=lambda number: -areas[number])
    if others and areas[largest] < MUCH_LARGER * areas[others[0]]:
        return None
    return regions[largest]
