"""Choosing the score rule, suppression and number of proposals on dev photos.

The net runs once; what it says of every proposal is kept (`save_described`), and each setting only ranks
that anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regiontalk.data.records import Dataset, Record
from regiontalk.errors import DataError
from regiontalk.evaluation.dense_ap import DenseResult, evaluate_dense
from regiontalk.evaluation.language import SentenceScorer
from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.prediction import Described
from regiontalk.training.predictions import DescribedPhoto, ranked_regions
from regiontalk.vocabulary import Vocabulary

SCORES = ("final", "product")
FINAL_NMS = (0.3, 0.4, 0.5, 0.6)
PROPOSALS = (100, 300)
CAPTION_WEIGHTS = (0.0, 0.5, 1.0)

Conversion = Callable[[NDArray[Any]], NDArray[Any]]
_HALF: tuple[Conversion, Conversion] = (lambda a: a.astype(np.float16), lambda a: a.astype(np.float32))
# How each field is written and read: boxes to an eighth of a pixel, numbers in half precision.
STORED: dict[str, tuple[Conversion, Conversion]] = {
    "boxes_xyxy": (lambda a: np.round(a * 8).astype(np.uint16), lambda a: a.astype(np.float32) / 8),
    "logits": _HALF,
    "proposal_logits": _HALF,
    "tokens": (lambda a: a.astype(np.int16), lambda a: a.astype(np.int64)),
    "logprobs": _HALF,
    "counts": (lambda a: a, lambda a: a),
}


def save_described(path: Path, photos: Iterable[DescribedPhoto]) -> None:
    """One compressed file: an array per field, a row per photo (all photos have equally many proposals or fewer)."""
    listed = list(photos)
    most = max(photo.described.logits.shape[1] for photo in listed)
    arrays = {item.name: np.stack([_padded(photo, item.name, most) for photo in listed]) for item in fields(Described)}
    arrays = {name: STORED[name][0](array) for name, array in arrays.items()}
    names = np.array([photo.record.image for photo in listed])
    scales = np.array([photo.scale for photo in listed])
    np.savez_compressed(path, names=names, scales=scales, **arrays)  # type: ignore[arg-type]


def load_described(path: Path, dataset: Dataset) -> list[DescribedPhoto]:
    records = {record.image: record for record in dataset}
    with np.load(path) as arrays:
        columns = {item.name: torch.from_numpy(STORED[item.name][1](arrays[item.name])) for item in fields(Described)}
        names, scales = arrays["names"].tolist(), arrays["scales"].tolist()
    if missing := [name for name in names if name not in records]:
        raise DataError(f"{path}: {missing[0]} is not in {dataset.folder}")
    return [
        DescribedPhoto(
            records[name],
            (scales[n][0], scales[n][1]),
            Described(**{key: column[n : n + 1] for key, column in columns.items()}),
        )
        for n, name in enumerate(names)
    ]


def settings(base: PredictionConfig) -> Iterator[PredictionConfig]:
    """The settings to try."""
    for score, nms, proposals, weight in itertools.product(SCORES, FINAL_NMS, PROPOSALS, CAPTION_WEIGHTS):
        yield replace(base, score=score, final_nms=nms, proposals=proposals, caption_weight=weight)


def tune(
    photos: Sequence[DescribedPhoto],
    words: Vocabulary,
    configs: Iterable[PredictionConfig],
    scorer: SentenceScorer,
) -> list[tuple[PredictionConfig, DenseResult]]:
    """Every setting with its result, best dense mAP first."""
    truth: list[Record] = [photo.record for photo in photos]
    results = []
    for config in configs:
        found = [ranked_regions(photo, words, config) for photo in photos]
        results.append((config, evaluate_dense(truth, found, scorer)))
    return sorted(results, key=lambda pair: -pair[1].map)


def _padded(photo: DescribedPhoto, name: str, most: int) -> np.ndarray:
    value = getattr(photo.described, name)[0].numpy()
    if name == "counts":
        return value
    space = [(0, most - value.shape[0])] + [(0, 0)] * (value.ndim - 1)
    return np.pad(value, space)
