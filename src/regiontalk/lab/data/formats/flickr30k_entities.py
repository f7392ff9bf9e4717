"""Flickr30k Entities (Plummer et al. 2015): `Annotations/*.xml`, `Sentences/*.txt`,
`{train,val,test}.txt`.

A sentence marks its phrases as `[/EN#283585/people A child]`: the number of an entity and its type.
The XML gives entities their boxes: one entity may have several (a plural phrase), and one box
several entities. Phrases without a box (scenes, things not visible) are in the sentences only. A
phrase that several sentences use for the same entity (case ignored) is one region; its `sentences`
are their numbers, from 0.

The boxes count pixels from 1 and include the last one: xmin = 1, xmax = width is the whole width.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from regiontalk.errors import DataError
from regiontalk.io.files import read_file
from regiontalk.lab.data.formats.fields import as_size, reading
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_lines, read_split_lists
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.data.region_boxes import union
from regiontalk.results import BoxXYXY

PHOTO_FOLDERS = ("", "flickr30k-images", "flickr30k_images", "images")
_PHRASE = re.compile(r"\[/EN#(?P<entity>\d+)/(?P<type>[^\s\[\]]+)\s(?P<phrase>[^\[\]]+)\]")


def read(source: Source) -> Iterator[Item]:
    annotations = source.folder / "Annotations"
    if not annotations.is_dir():
        raise DataError(
            f"{annotations}: no such folder", hint="SOURCE holds Annotations/ and Sentences/"
        )
    lists = {"train": "train.txt", "dev": "val.txt", "test": "test.txt"}
    source = source.with_lists(
        read_split_lists({split: source.folder / name for split, name in lists.items()})
    )
    for path in sorted(annotations.glob("*.xml")):
        split = source.split_for(path.stem, f"{path.stem}.jpg", default="train")
        yield _item(path, source.folder / "Sentences" / f"{path.stem}.txt", split)


FORMAT = Format(read, PHOTO_FOLDERS)


def _item(path: Path, sentence_path: Path, split: str) -> Item:
    root = _parse(path)
    marked = _read_sentences(sentence_path)
    with reading(str(path)):
        size = root.find("size")
        width, height = (
            (0, 0) if size is None else as_size(size.findtext("width"), size.findtext("height"))
        )
        sentences = tuple(plain_sentence(line) for line in marked)
        record = Record(
            root.findtext("filename") or f"{path.stem}.jpg",
            width,
            height,
            split,
            sentences=sentences,
            regions=tuple(_regions(marked, _entity_boxes(root))),
            id=path.stem,
            entity_sentences=sentences,
        )
        return Item(str(path), record)


def plain_sentence(marked: str) -> str:
    """A sentence without the marks of its phrases."""
    return _PHRASE.sub(lambda match: match["phrase"].strip(), marked)


def _regions(
    marked_sentences: list[str], boxes: Mapping[str, list[BoxXYXY]]
) -> Iterator[TrueRegion]:
    """A region per entity and phrase, in the order (and the spelling) of their first mention."""
    first: dict[tuple[str, str], re.Match[str]] = {}
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, sentence in enumerate(marked_sentences):
        for match in _PHRASE.finditer(sentence):
            key = match["entity"], match["phrase"].strip().lower()
            if match["entity"] in boxes:
                first.setdefault(key, match)
                numbers.setdefault(key, []).append(number)
    for key, match in first.items():
        entity_boxes = boxes[match["entity"]]
        yield TrueRegion(
            union(entity_boxes),
            match["phrase"].strip(),
            match["type"],
            tuple(entity_boxes) if len(entity_boxes) > 1 else (),
            entity=match["entity"],
            sentences=tuple(dict.fromkeys(numbers[key])),
        )


def _read_sentences(path: Path) -> list[str]:
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        if "[/EN#" in plain_sentence(line):
            raise DataError(
                f"{path}, line {number}: a phrase that does not read [/EN#number/type words]"
            )
    return lines


def _entity_boxes(root: ElementTree.Element) -> dict[str, list[BoxXYXY]]:
    boxes: dict[str, list[BoxXYXY]] = {}
    for thing in root.findall("object"):
        bounds = thing.find("bndbox")
        if bounds is None:
            continue  # <nobndbox> or <scene>
        x0, y0, x1, y1 = (_number(bounds, name) for name in ("xmin", "ymin", "xmax", "ymax"))
        for name in thing.findall("name"):
            boxes.setdefault((name.text or "").strip(), []).append((x0 - 1, y0 - 1, x1, y1))
    return boxes


def _number(bounds: ElementTree.Element, name: str) -> float:
    text = bounds.findtext(name)
    if text is None:
        raise ValueError(f"a bndbox without {name}")
    return float(text)


def _parse(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(read_file(path))
    except (
        ElementTree.ParseError,
        LookupError,
        ValueError,
    ) as error:  # of the text, or of an encoding it names
        raise DataError(f"{path}: wrong XML: {error}") from error
