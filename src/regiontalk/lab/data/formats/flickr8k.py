"""Flickr8k (Hodosh et al. 2013): `Flickr8k.token.txt` and the lists
`Flickr_8k.{train,dev,test}Images.txt`.

Without the lists every photo is a training photo; with them the 92 photos in no list are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_split_lists, read_text
from regiontalk.lab.data.records import SPLITS, Record

TOKENS = "Flickr8k.token.txt"
PHOTO_FOLDERS = (
    "",
    "Flicker8k_Dataset",
    "Flickr8k_Dataset",
    "Flickr8k_Dataset/Flicker8k_Dataset",
    "images",
)

# One photo stands in the token file as 2258277193_586949ec62.jpg.1
_LINE = re.compile(r"(?P<image>[^#\t]+?\.jpg)(?:\.\d+)?#(?P<number>\d+)\t(?P<sentence>.*)")


def read(source: Source) -> Iterator[Item]:
    places = (source.path / "Flickr8k_text" / TOKENS, source.path / TOKENS)
    path = source.path if source.path.is_file() else next(filter(Path.exists, places), places[-1])
    lists = {split: path.with_name(f"Flickr_8k.{split}Images.txt") for split in SPLITS}
    source = source.with_lists(read_split_lists(lists))
    for image, (line, sentences) in _read_tokens(path).items():
        split = source.split_for(image, Path(image).stem, default="train")
        record = Record(image, 0, 0, split, sentences=sentences, id=flickr_id(image))
        yield Item(f"{path}, line {line}", record)


FORMAT = Format(read, PHOTO_FOLDERS)


def flickr_id(image: str) -> str:
    """Flickr's number of a photo: 1000268201_693b08cb0e.jpg is 1000268201.jpg in Flickr30k."""
    return Path(image).stem.partition("_")[0]


def _read_tokens(path: Path) -> dict[str, tuple[int, tuple[str, ...]]]:
    """The line of its first sentence and the sentences of every photo, in the order of their
    numbers."""
    photos: dict[str, tuple[int, dict[int, str]]] = {}
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        match = _LINE.fullmatch(text.rstrip("\r"))
        if match is None:
            raise DataError(
                f"{path}, line {line}: not `photo.jpg#number<tab>sentence`: {text[:60]!r}"
            )
        _, sentences = photos.setdefault(match["image"], (line, {}))
        sentences[int(match["number"])] = match["sentence"].strip()
    return {image: (line, _by_number(sentences)) for image, (line, sentences) in photos.items()}


def _by_number(sentences: dict[int, str]) -> tuple[str, ...]:
    """The sentences in the order of their numbers, without empty ones."""
    return tuple(sentences[number] for number in sorted(sentences) if sentences[number])
