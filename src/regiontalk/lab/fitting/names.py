"""Fits the names that a model knows things by: softmax regression over region codes
(`models.name_table`).

Names are the phrases of named regions, and the head nouns of people's phrases: shirts, fields and
hands have no object classes. Without these, a table would call them something else.

Every photo is looked at as it is and, if it is much larger, shrunk to `SMALL_SIDE` pixels, so that
sharpness says nothing about a name. The temperature is chosen on photos that were held out of a
first fit; a second one uses all photos.

Shapes: E examples, N names, D the size of a code with the appearance appended, B examples of a
step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.language.head_nouns import head_noun
from regiontalk.language.object_names import object_names, word_forms
from regiontalk.language.vocabulary import word_set
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Floats

NAMED_TYPES = ("object", "whole")
"""Regions whose phrase is a name: of the thing in the box, or of the whole photo."""
REFERRING = "referring"
"""Regions whose phrase tells one thing from others, with typing mistakes: not used."""
MIN_NOUN_EXAMPLES = 15  # of a noun of phrases
NOUN_SHARE = 0.25  # how often an example with a noun of phrases is drawn; one with a name: 1
NO_NAMES = word_set(
    """black white red blue green yellow orange pink purple brown gray grey tan blond blonde
    blondhair someone something anything others other one ones object objects thing things item
    items stuff area edge side back end middle center front open view lot group set pair part
    piece line closeup distance background foreground picture photo camera surface body course
    race"""
)
"""Head nouns of phrases that say nothing of what a thing is."""
SMALL_SIDE = 240  # pixels
MIN_SHRINKING = 1.25  # a photo that is hardly larger looks the same when it is shrunk
MAX_BOXES = 25  # of one photo: a crowd teaches little
HELD_OUT = 10  # one of so many photos chooses the temperature
TEMPERATURES = np.geomspace(0.2, 2.0, 47)

STEPS = 3000
BATCH = 256
RATE = 2e-3
WEIGHT_DECAY = 0.05
DROPOUT = 0.5
LABEL_SMOOTHING = 0.1
MOMENTS = (0.9, 0.999)  # Adam's β₁ and β₂


@dataclass(frozen=True)
class NamedCodes:
    """Named regions of one photo with their codes."""

    photo: str
    names: tuple[str, ...]
    coarse: tuple[str, ...]
    is_noun: tuple[bool, ...]
    """Whether each name is the head noun of a phrase."""
    codes: Floats
    """(R, D)"""

    def take(self, rows: Sequence[int]) -> NamedCodes:
        """These regions."""
        return replace(
            self,
            names=tuple(self.names[row] for row in rows),
            coarse=tuple(self.coarse[row] for row in rows),
            is_noun=tuple(self.is_noun[row] for row in rows),
            codes=self.codes[list(rows)],
        )


class RegionName(NamedTuple):
    """What a true region is called."""

    name: str
    coarse: str
    is_noun: bool


def name_of(region: TrueRegion) -> RegionName | None:
    """The name of a true region; None if its phrase says no name."""
    if not region.phrase or region.type == REFERRING:
        return None
    if region.type in NAMED_TYPES:
        name = region.phrase.lower()
        return RegionName(name, (region.coarse or name).lower(), False)
    noun = head_noun(region.phrase.lower())
    if not noun or noun in NO_NAMES:
        return None
    classes = object_names().classes_of(noun.split())
    return RegionName(noun, classes[0] if len(classes) == 1 else noun, True)


def look_at_names(dataset_model: DatasetModel, record: Record) -> list[NamedCodes]:
    """The named regions of a photo, as it is and shrunk."""
    named = [(region, name_of(region)) for region in record.regions]
    regions = [region for region, name in named if name is not None][:MAX_BOXES]
    if not regions:
        return []
    region_names = [name for _, name in named if name is not None][:MAX_BOXES]
    names, coarse, is_noun = zip(*region_names, strict=True)
    is_large = max(record.width, record.height) > MIN_SHRINKING * SMALL_SIDE
    sides = [None, SMALL_SIDE] if is_large else [None]
    return [
        NamedCodes(
            record.image,
            names,
            coarse,
            is_noun,
            replace(dataset_model, longest_side=side).codes_at(record, boxes_of(regions)),
        )
        for side in sides
    ]


def fit(
    photos: Sequence[NamedCodes], detector: str, seed: int = 0
) -> tuple[NameTable, dict[str, Any]]:
    """The table of names, and how well it names held-out photos."""
    photos = _without_rare_nouns(photos)
    places = {
        photo: number for number, photo in enumerate(dict.fromkeys(coded.photo for coded in photos))
    }
    taught = [coded for coded in photos if places[coded.photo] % HELD_OUT]
    held_out = [coded for coded in photos if not places[coded.photo] % HELD_OUT]
    if len(set(chain.from_iterable(coded.names for coded in taught))) < 2 or not held_out:
        raise DataError(
            "too few names to fit",
            hint="regions of type 'object' or 'whole' with a name as their phrase",
        )
    trial = _fit_table(taught, detector, seed)
    temperature, report = _choose_temperature(trial, held_out)
    table = _fit_table(photos, detector, seed)
    scaled = replace(
        table,
        weights=(table.weights / temperature).astype(np.float32),
        biases=(table.biases / temperature).astype(np.float32),
    )
    counts = {
        "names": len(table.names),
        "photos": len(places),
        "examples": sum(len(coded.names) for coded in photos),
    }
    return scaled, counts | report


def _without_rare_nouns(photos: Sequence[NamedCodes]) -> list[NamedCodes]:
    """The photos without regions whose name is a noun of phrases that is rare, or no noun: rules
    find it."""
    photos = _in_the_singular(photos)
    counts = Counter(chain.from_iterable(photo.names for photo in photos))
    kept = []
    for photo in photos:
        rows = [
            row
            for row, (name, is_noun) in enumerate(zip(photo.names, photo.is_noun, strict=True))
            if not is_noun or counts[name] >= MIN_NOUN_EXAMPLES
        ]
        if rows:
            kept.append(photo.take(rows))
    return kept


def _in_the_singular(photos: Sequence[NamedCodes]) -> list[NamedCodes]:
    """The photos with plural nouns of phrases as their more frequent singulars: "trees" as
    "tree"."""
    counts = Counter(chain.from_iterable(photo.names for photo in photos))
    singular = {name: max(sorted(word_forms(name)), key=counts.__getitem__) for name in counts}

    def rename(names: Sequence[str], photo: NamedCodes) -> tuple[str, ...]:
        return tuple(
            singular.get(name, name) if is_noun else name
            for name, is_noun in zip(names, photo.is_noun, strict=True)
        )

    return [
        replace(photo, names=rename(photo.names, photo), coarse=rename(photo.coarse, photo))
        for photo in photos
    ]


def _fit_table(photos: Sequence[NamedCodes], detector: str, seed: int) -> NameTable:
    """Softmax regression on standardised codes; mean and standard deviation end up in W and b.

    An example counts 1/√(examples of its name), so that frequent names do not win every time.
    """
    everyday = {
        name: word for photo in photos for name, word in zip(photo.names, photo.coarse, strict=True)
    }
    names = sorted(everyday)
    numbers = {name: number for number, name in enumerate(names)}
    every_name = chain.from_iterable(photo.names for photo in photos)
    targets = np.array([numbers[name] for name in every_name])
    codes = np.concatenate([photo.codes for photo in photos]).astype(np.float32)  # (E, D)
    mean = codes.mean(axis=0)
    std = codes.std(axis=0) + 1e-3
    codes -= mean
    codes /= std
    is_noun = np.array(list(chain.from_iterable(photo.is_noun for photo in photos)))
    shares = np.where(is_noun, NOUN_SHARE, 1.0) / np.sqrt(np.bincount(targets))[targets]
    weights, biases = _softmax_regression(codes, targets, shares / shares.sum(), seed)
    weights = weights / std
    biases = biases - weights @ mean
    coarse = tuple(everyday[name] for name in names)
    return NameTable(
        detector, tuple(names), coarse, weights.astype(np.float32), biases.astype(np.float32)
    )


def _softmax_regression(
    codes: Floats, targets: NDArray[np.intp], shares: NDArray[np.float64], seed: int
) -> tuple[Floats, Floats]:
    """Standardised codes (E, D) and targets (E,) -> W (N, D) and b (N,); AdamW with a cosine
    schedule. `shares` (E,): the probabilities with which examples are drawn."""
    random = np.random.default_rng(seed)
    drawn = random.choice(len(targets), size=(STEPS, BATCH), p=shares)
    parameters = np.zeros((int(targets.max()) + 1, codes.shape[1] + 1), dtype=np.float32)
    first = np.zeros_like(parameters)
    second = np.zeros_like(parameters)
    for step, rows in enumerate(drawn, start=1):
        kept = random.random((BATCH, codes.shape[1]), dtype=np.float32) >= DROPOUT
        inputs = np.ones((BATCH, codes.shape[1] + 1), dtype=np.float32)  # (B, D + 1), 1 for b
        inputs[:, :-1] = codes[rows] * kept / (1 - DROPOUT)
        gradient = _softmax_gradient(inputs @ parameters.T, targets[rows]).T @ inputs
        first += (1 - MOMENTS[0]) * (gradient - first)
        second += (1 - MOMENTS[1]) * (gradient**2 - second)
        rate = RATE * (1 + np.cos(np.pi * (step - 1) / STEPS)) / 2
        parameters *= 1 - rate * WEIGHT_DECAY
        root = np.sqrt(second / (1 - MOMENTS[1] ** step)) + 1e-8
        parameters -= rate * (first / (1 - MOMENTS[0] ** step)) / root
    return parameters[:, :-1], parameters[:, -1]


def _softmax_gradient(logits: Floats, targets: NDArray[np.intp]) -> Floats:
    """(B, N) of the mean cross-entropy with label smoothing, with respect to the logits (B, N)."""
    gradient = np.exp(logits - logits.max(axis=1, keepdims=True))
    gradient /= gradient.sum(axis=1, keepdims=True)
    gradient -= LABEL_SMOOTHING / logits.shape[1]
    gradient[np.arange(len(targets)), targets] -= 1 - LABEL_SMOOTHING
    mean: Floats = gradient / np.float32(len(targets))
    return mean


class _Choice(NamedTuple):
    temperature: float
    report: dict[str, Any]


def _choose_temperature(table: NameTable, photos: Sequence[NamedCodes]) -> _Choice:
    """The temperature with the highest likelihood of the held-out names that the table has."""
    numbers = {name: number for number, name in enumerate(table.names)}
    codes = np.concatenate([photo.codes for photo in photos]).astype(np.float32)
    every_name = chain.from_iterable(photo.names for photo in photos)
    targets = np.array([numbers.get(name, -1) for name in every_name])
    logits = codes @ table.weights.T + table.biases
    known = np.flatnonzero(targets >= 0)
    losses = [
        _mean_loss(logits[known] / temperature, targets[known]) for temperature in TEMPERATURES
    ]
    temperature = float(TEMPERATURES[int(np.argmin(losses))])
    best_five = np.argsort(-logits, axis=1)[:, :5]
    return _Choice(
        temperature,
        {
            "temperature": temperature,
            "held_out": len(targets),
            "right": 100 * float((best_five[:, 0] == targets).mean()),
            "among_five": 100 * float((best_five == targets[:, None]).any(axis=1).mean()),
        },
    )


def _mean_loss(logits: Floats, targets: NDArray[np.intp]) -> float:
    shifted = (logits - logits.max(axis=1, keepdims=True)).astype(np.float64)
    normalizers = np.log(np.exp(shifted).sum(axis=1))
    return float((normalizers - shifted[np.arange(len(targets)), targets]).mean())
