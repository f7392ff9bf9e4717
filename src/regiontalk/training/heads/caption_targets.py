"""What a sentence is said of: a whole photo or a region of it, as rows of the photo's codes, and the texts.

A file of snippets is JSON lines: {"image": "a.jpg", "snippets": [{"row": 3, "text": "a brown dog", "weight": 1.0}]}.
`row` counts the rows of the photo's codes; `weight` says how much the snippet counts in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regiontalk import boxes as geometry
from regiontalk.codes.build import CodedPhotos
from regiontalk.data.records import Record
from regiontalk.errors import DataError
from regiontalk.files import json_line, read_json_lines, replacing, to_dataclass
from regiontalk.vocabulary import UNKNOWN, Vocabulary

WHOLE_PHOTO = 0  # the row of it


@dataclass(frozen=True)
class Text:
    words: str
    weight: float = 1.0


@dataclass(frozen=True)
class Subject:
    """A whole photo or a region of it, and what is said of it."""

    photo: int
    """Its place among the coded photos."""
    row: int
    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Snippet:
    """What is said of a row of a photo's codes."""

    row: int
    text: Text


def whole_photos(records: Iterable[Record], coded: CodedPhotos, place: str) -> list[Subject]:
    """Every photo that has sentences."""
    told = [record for record in records if record.sentences]
    numbers = coded.find(told, place)
    return [
        Subject(int(number), WHOLE_PHOTO, tuple(map(Text, record.sentences)))
        for number, record in zip(numbers, told, strict=True)
    ]


def regions(
    records: Iterable[Record], snippets: Mapping[str, Sequence[Snippet]], coded: CodedPhotos, place: str
) -> list[Subject]:
    """Every region that a snippet was found for."""
    told = [record for record in records if snippets.get(record.image)]
    subjects = []
    for number, record in zip(coded.find(told, place).tolist(), told, strict=True):
        by_row: dict[int, list[Text]] = {}
        for snippet in snippets[record.image]:
            by_row.setdefault(snippet.row, []).append(snippet.text)
        if max(by_row) >= coded.counts[number]:
            raise DataError(f"{place}: {record.image}: no region {max(by_row)}", hint="the snippets are of other codes")
        subjects += [Subject(number, row, tuple(texts)) for row, texts in sorted(by_row.items())]
    return subjects


def shown(coded: CodedPhotos, subjects: Sequence[Subject], views: int) -> tuple[Tensor, Tensor, Tensor]:
    """What `MultimodalRNN.look` takes: views (S, N, D), regions (S, K, D), places (S, K, 5)."""
    photos = np.array([subject.photo for subject in subjects])
    rows = np.array([subject.row for subject in subjects])
    nested = [coded.codes[photos, rows]]
    if views > 1:
        if coded.surroundings is None:
            raise DataError("these codes are without surroundings", hint="regiontalk data codes --surroundings")
        nested += [coded.surroundings[photos, rows], coded.codes[photos, WHOLE_PHOTO]]
    boxes = coded.boxes_xyxy[photos]
    arrays = (np.stack(nested, axis=1), coded.codes[photos], geometry.places(boxes, boxes[:, WHOLE_PHOTO, 2:]))
    codes_of_views, all_codes, places = (torch.from_numpy(array.astype(np.float32)) for array in arrays)
    return codes_of_views, all_codes, places


def read_snippets(path: Path) -> dict[str, list[Snippet]]:
    """Snippets by photo."""
    found: dict[str, list[Snippet]] = {}
    try:
        for place, data in read_json_lines(path):
            photo = to_dataclass(_PhotoInFile, data, place)
            found[photo.image] = [Snippet(one.row, Text(one.text, one.weight)) for one in photo.snippets]
    except DataError as error:
        raise DataError(error.message, hint="regiontalk data snippets makes one") from error
    return found


@dataclass(frozen=True)
class _SnippetInFile:
    row: int
    text: str
    weight: float


@dataclass(frozen=True)
class _PhotoInFile:
    image: str
    snippets: tuple[_SnippetInFile, ...]


def write_snippets(path: Path, photos: Iterable[tuple[str, Sequence[Snippet]]]) -> int:
    """How many were written."""
    count = 0
    with replacing(path) as temporary, temporary.open("wb") as file:
        for image, snippets in photos:
            count += len(snippets)
            file.write(json_line({"image": image, "snippets": [_to_dict(one) for one in snippets]}))
    return count


def _to_dict(snippet: Snippet) -> dict[str, Any]:
    return {"row": snippet.row, "text": snippet.text.words, "weight": round(snippet.text.weight, 4)}


def all_texts(subjects: Iterable[Subject]) -> Iterator[str]:
    for subject in subjects:
        for text in subject.texts:
            yield text.words


def known_tokens(text: str, words: Vocabulary) -> list[int]:
    """The text's words that the vocabulary knows; rare ones are dropped (K&FF section 4: "we filter words")."""
    return [token for token in words.encode(words.clean(text) or ()) if token != UNKNOWN]
