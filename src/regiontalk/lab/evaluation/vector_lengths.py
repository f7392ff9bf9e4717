"""Lengths of word and region vectors: which of them tell photos apart (K&FF's analysis of
magnitudes).

In the score of eq. 8 a longer vector counts for more: words that fit many photos, such as "a", have
short ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk.boxes import area
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.alignment import AlignedPhotos

WORDS_SHOWN = 20  # words at either end of the table
MAX_LABELS = 60  # words named in the picture
WIDTH = 720
HEIGHT = 420
MARGIN = 46
LENGTH_BANDS = 5
MIN_OCCURRENCES = 10  # of a word for its mean length to say something


def word_lengths(head: AlignmentHead, records: Iterable[Record]) -> dict[str, list[float]]:
    """Word -> the lengths of its vectors wherever it occurs; only words that occur often enough."""
    lengths: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for sentence, vectors in zip(record.sentences, head.vectors(record.sentences), strict=True):
            words = head.words.clean(sentence) or ()
            for word, vector in zip(words, vectors, strict=True):
                lengths[word].append(float(np.linalg.norm(vector)))
    return {word: values for word, values in lengths.items() if len(values) >= MIN_OCCURRENCES}


def region_lengths(photos: AlignedPhotos, records: Iterable[Record]) -> NDArray[np.float64]:
    """(N, 3): the length of each region's vector, its score, and its share of the photo's area."""
    rows = []
    for record in records:
        regions = photos.regions(record)
        lengths = np.linalg.norm(np.asarray(regions.vectors), axis=1)
        shares = area(regions.boxes_xyxy) / (record.width * record.height)
        rows.append(np.stack([lengths, regions.scores, shares], axis=1)[1:])
    return np.concatenate(rows)


def vector_lengths(
    words: Mapping[str, Sequence[float]], regions: NDArray[np.float64]
) -> dict[str, Any]:
    """The words with the longest and shortest vectors, and the regions' mean length by score and by
    area.

    `regions` is (N, 3): length, score, share of the photo.
    """
    means = ((word, float(np.mean(lengths)), len(lengths)) for word, lengths in words.items())
    rows = sorted(means, key=lambda row: -row[1])
    entries = [
        {"word": word, "length": round(length, 3), "times": times} for word, length, times in rows
    ]
    return {
        "words": len(rows),
        "longest": entries[:WORDS_SHOWN],
        "shortest": entries[::-1][:WORDS_SHOWN],
        "regions_by_score": _bands(regions[:, 1], regions[:, 0]),
        "regions_by_area": _bands(regions[:, 2], regions[:, 0]),
    }


def _bands(by: NDArray[np.float64], lengths: NDArray[np.float64]) -> list[dict[str, float]]:
    """Mean length in bands with the same number of regions, by rising `by`."""
    parts = np.array_split(np.argsort(by, kind="stable"), LENGTH_BANDS)
    return [
        {"from": round(float(by[part].min()), 4), "length": round(float(lengths[part].mean()), 3)}
        for part in parts
        if len(part)
    ]


def draw_word_lengths(words: Mapping[str, Sequence[float]]) -> str:
    """An SVG: x is how often a word occurs (logarithmic), y the mean length of its vector."""
    means = ((word, len(lengths), float(np.mean(lengths))) for word, lengths in words.items())
    points = sorted(means, key=lambda point: point[2])
    times = np.log10([count for _, count, _ in points])
    lengths = np.array([length for _, _, length in points])
    x = MARGIN + (WIDTH - 2 * MARGIN) * (times - times.min()) / max(np.ptp(times), 1e-9)
    y = (
        HEIGHT
        - MARGIN
        - (HEIGHT - 2 * MARGIN) * (lengths - lengths.min()) / max(np.ptp(lengths), 1e-9)
    )
    named = {
        int(number) for number in np.linspace(0, len(points) - 1, min(len(points), MAX_LABELS))
    }
    marks = []
    for number, (word, _, _) in enumerate(points):
        marks.append(
            f'<circle cx="{x[number]:.1f}" cy="{y[number]:.1f}" r="1.5" '
            'fill="#36c" fill-opacity=".5"/>'
        )
        if number in named:
            marks.append(
                f'<text x="{x[number] + 3:.1f}" y="{y[number] + 3:.1f}">{escape(word)}</text>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="9">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        + "".join(marks)
        + f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle" font-size="11">'
        "how often the word occurs: "
        f"{10 ** times.min():.0f} to {10 ** times.max():.0f} times, logarithmic</text>"
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle" '
        'font-size="11">'
        f"mean length of its vector: {lengths.min():.2f} to {lengths.max():.2f}</text></svg>\n"
    )
