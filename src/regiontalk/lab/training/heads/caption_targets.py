"""What the multimodal RNN learns to caption: whole photos with sentences, or regions with snippets.

A file of snippets is JSON lines: {"image": "a.jpg", "snippets": [{"row": 3, "text": "a brown dog",
"weight": 1.0}]}. `row` counts the rows of the photo's codes; `weight` is the snippet's weight in
the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regiontalk.errors import DataError
from regiontalk.io.files import read_json_lines, write_json_lines
from regiontalk.io.typed import to_dataclass
from regiontalk.lab.codes.sentences import WHOLE_PHOTO, CodedTarget, sentence_inputs
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.language.vocabulary import END, UNKNOWN, Vocabulary


@dataclass(frozen=True)
class Snippet:
    """A text about a row of a photo's codes."""

    row: int
    text: str
    weight: float = 1.0


@dataclass(frozen=True)
class CaptionTarget(CodedTarget):
    """A whole photo or a region of it, and its texts."""

    texts: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    """Weights of the texts in the loss."""


def photo_targets(records: Iterable[Record], coded: CodedPhotos, place: str) -> list[CaptionTarget]:
    """Every photo that has sentences."""
    described = [record for record in records if record.sentences]
    return [
        CaptionTarget(
            int(number), WHOLE_PHOTO, tuple(record.sentences), (1.0,) * len(record.sentences)
        )
        for number, record in zip(coded.find(described, place), described, strict=True)
    ]


def region_targets(
    records: Iterable[Record],
    snippets: Mapping[str, Sequence[Snippet]],
    coded: CodedPhotos,
    place: str,
) -> list[CaptionTarget]:
    """Every region that has snippets."""
    described = [record for record in records if snippets.get(record.image)]
    targets = []
    for number, record in zip(coded.find(described, place).tolist(), described, strict=True):
        by_row = sorted(snippets[record.image], key=lambda snippet: snippet.row)
        if (last := by_row[-1].row) >= coded.counts[number]:
            raise DataError(
                f"{place}: {record.image}: no region {last}",
                hint="the snippets were made from other codes",
            )
        for row, row_snippets in groupby(by_row, key=lambda snippet: snippet.row):
            texts, weights = zip(
                *((snippet.text, snippet.weight) for snippet in row_snippets), strict=True
            )
            targets.append(CaptionTarget(number, row, texts, weights))
    return targets


def stack_codes(
    coded: CodedPhotos, targets: Sequence[CaptionTarget], views: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What `MultimodalRNN.look` takes: views (S, N, D), regions (S, K, D), places (S, K, 5)."""
    inputs = sentence_inputs(coded, targets, views)
    return (
        torch.from_numpy(inputs.views),
        torch.from_numpy(inputs.codes),
        torch.from_numpy(inputs.places),
    )


def known_tokens(text: str, words: Vocabulary) -> list[int]:
    """The text's words that the vocabulary has; rare ones are dropped (K&FF section 4: "we filter
    words")."""
    return [token for token in words.encode(words.clean(text) or ()) if token != UNKNOWN]


def pad_texts(texts: Sequence[Sequence[int]], start: int) -> tuple[Tensor, Tensor, Tensor]:
    """Token lists, longest first -> START and words (R, T), words and END (R, T), lengths with END
    (R,)."""
    words = torch.full((len(texts), len(texts[0]) + 1), END)
    for row, tokens in zip(words, texts, strict=True):
        row[: len(tokens)] = torch.tensor(tokens, dtype=torch.long)
    fed = torch.cat([torch.full((len(texts), 1), start), words[:, :-1]], dim=1)
    return fed, words, torch.tensor([len(tokens) + 1 for tokens in texts])


def read_snippets(path: Path) -> dict[str, list[Snippet]]:
    """Snippets by photo."""
    by_image: dict[str, list[Snippet]] = {}
    try:
        for place, data in read_json_lines(path):
            photo = to_dataclass(_PhotoInFile, data, place)
            by_image[photo.image] = list(photo.snippets)
    except DataError as error:
        raise DataError(error.message, hint="regiontalk data snippets makes one") from error
    return by_image


@dataclass(frozen=True)
class _PhotoInFile:
    image: str
    snippets: tuple[Snippet, ...]


def write_snippets(path: Path, photos: Iterable[tuple[str, Sequence[Snippet]]]) -> int:
    """Writes the snippets of photos; returns how many."""
    count = 0

    def lines() -> Iterator[dict[str, Any]]:
        nonlocal count
        for image, snippets in photos:
            count += len(snippets)
            plain = [asdict(snippet) | {"weight": round(snippet.weight, 4)} for snippet in snippets]
            yield {"image": image, "snippets": plain}

    write_json_lines(path, lines())
    return count
