"""Ranking images by sentences and sentences by images (K&FF table 1): R@1/5/10 and median rank.

A model is a matrix of image–sentence scores, one row an image, one column a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from regiontalk.boxes import Floats, Integers
from regiontalk.errors import DataError
from regiontalk.io.files import open_file, read_json_lines
from regiontalk.io.typed import WithMore, to_dataclass
from regiontalk.lab.evaluation.intervals import bootstrap_photos

RECALL_RANKS = (1, 5, 10)
Ranks = NDArray[np.number]  # from 1; infinite where nothing was found

ROWS_AT_ONCE = 256
LARGEST_ARRAYS = 1 << 32  # bytes: 100,000 images × 10,000 sentences in float32


@dataclass(frozen=True)
class ScoreMatrix:
    """`scores` (images, sentences); `owners` (sentences) says which image each sentence belongs
    to."""

    scores: Floats
    owners: Integers

    def first(self, images: int) -> ScoreMatrix:
        """The first images and their sentences alone."""
        columns = np.flatnonzero(self.owners < images)
        return ScoreMatrix(self.scores[:images, columns], self.owners[columns])


def recalls(ranks: Ranks) -> dict[str, float]:
    """Recall in percent at 1, 5 and 10, and the median rank (1 is best)."""
    return {f"r{cut}": 100 * float((ranks <= cut).mean()) for cut in RECALL_RANKS} | {
        "median_rank": float(np.median(ranks))
    }


def recall_intervals(
    models: Sequence[Ranks], owners: Sequence[int] | Integers
) -> dict[str, list[float]]:
    """95 % intervals of the mean of several models' `recalls`, over images.

    `owners`: the image of each rank, the same for all models.
    """

    def figures_of(times: Integers) -> dict[str, float]:
        return _means([recalls(np.repeat(ranks, times)) for ranks in models])

    return bootstrap_photos(list(owners), figures_of)


def evaluate_ranking(models: Iterable[ScoreMatrix], intervals: bool = False) -> dict[str, Any]:
    """Both directions; over several models the mean of their figures, as K&FF print it.

    `intervals`: with 95 % intervals over images. The ranks stay those among all images.
    """
    ranks = []
    owners = np.empty(0, dtype=np.intp)
    for model in models:
        ranks.append((_ranks_of_sentences(model), _ranks_of_images(model)))
        owners = model.owners
    if not ranks:
        raise DataError("no scores to evaluate")
    of_sentences, of_images = zip(*ranks, strict=True)
    figures = {
        "image_to_text": _means([recalls(ranks_of_model) for ranks_of_model in of_sentences]),
        "text_to_image": _means([recalls(ranks_of_model) for ranks_of_model in of_images]),
        "images": len(of_sentences[0]),
        "sentences": len(of_images[0]),
        "models": len(ranks),
    }
    if intervals:
        figures["intervals"] = {
            "image_to_text": recall_intervals(of_sentences, range(len(of_sentences[0]))),
            "text_to_image": recall_intervals(of_images, owners),
        }
    return figures


def _means(models: Sequence[Mapping[str, float]]) -> dict[str, float]:
    means = {}
    for name in models[0]:
        means[name] = float(np.mean([figures[name] for figures in models]))
    return means


def _ranks_of_sentences(model: ScoreMatrix) -> Integers:
    """The rank of each image's best own sentence. A tie with another's sentence counts against
    it."""
    ranks = []
    for start in range(0, len(model.scores), ROWS_AT_ONCE):
        scores = np.asarray(model.scores[start : start + ROWS_AT_ONCE])
        is_own = model.owners[None, :] == np.arange(start, start + len(scores))[:, None]
        best = np.where(is_own, scores, -np.inf).max(axis=1, keepdims=True)
        ranks.append(1 + ((scores >= best) & ~is_own).sum(axis=1))
    return np.concatenate(ranks)


def _ranks_of_images(model: ScoreMatrix) -> Integers:
    """The rank of each sentence's image. A tie with another image counts against it."""
    own_scores = np.asarray(model.scores[model.owners, np.arange(len(model.owners))])
    ranks = np.zeros(len(own_scores), dtype=np.intp)
    for start in range(0, len(model.scores), ROWS_AT_ONCE):
        ranks += (np.asarray(model.scores[start : start + ROWS_AT_ONCE]) >= own_scores).sum(axis=0)
    return ranks


def load_scores(path: Path) -> ScoreMatrix:
    """A matrix from .npy, .npz (`scores`, `owners`) or JSON lines (`scores`, own `sentences`)."""
    if path.suffix in (".npy", ".npz"):
        scores, owners = _load_arrays(path)
    else:
        scores, owners = _load_lines(path)
    if scores.ndim != 2 or scores.dtype.kind not in "fiu" or not scores.size:
        raise DataError(f"{path}: scores must be a matrix of numbers, images by sentences")
    for start in range(0, len(scores), ROWS_AT_ONCE):
        bad = np.argwhere(~np.isfinite(scores[start : start + ROWS_AT_ONCE]))
        if len(bad):
            row, column = bad[0] + (start, 0)
            raise DataError(f"{path}: the score of image {row} and sentence {column} is not finite")
    return ScoreMatrix(scores, _checked_owners(owners, scores.shape, path))


def _checked_owners(owners: Integers | None, shape: tuple[int, ...], path: Path) -> Integers:
    images, sentences = shape
    if owners is None:
        if sentences % images:
            raise DataError(
                f"{path}: {sentences} sentences cannot be shared evenly by {images} images",
                hint="say whose they are: 'owners' in an .npz, 'sentences' in JSON lines",
            )
        return np.arange(sentences) // (sentences // images)
    missing = np.setdiff1d(np.arange(images), owners)
    if len(missing):
        raise DataError(f"{path}: image {missing[0]} has no sentence of its own")
    if owners.shape != (sentences,) or owners.min() < 0 or owners.max() >= images:
        raise DataError(
            f"{path}: owners must name one of {images} images for each of {sentences} sentences"
        )
    return owners


def _load_arrays(path: Path) -> tuple[Floats, Integers | None]:
    try:
        with open_file(path) as file:
            if path.suffix == ".npy":
                return np.load(path, mmap_mode="r", allow_pickle=False), None
            if sum(entry.file_size for entry in ZipFile(file).infolist()) > LARGEST_ARRAYS:
                raise DataError(f"{path}: more than {LARGEST_ARRAYS >> 30} GiB unpacked")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return arrays["scores"], arrays["owners"].astype(
                    np.intp
                ) if "owners" in arrays else None
    except KeyError as error:
        raise DataError(f"{path}: no array 'scores'") from error
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise DataError(f"{path}: cannot be read as numpy arrays: {error}") from error


@dataclass(frozen=True)
class _ImageInFile(WithMore):
    scores: tuple[float, ...]
    sentences: tuple[int, ...] = ()


def _load_lines(path: Path) -> tuple[Floats, Integers | None]:
    """One image a line. A broken line is an error: leaving an image out would make the rest
    easier."""
    rows: list[Floats] = []
    sentence_numbers: list[tuple[int, ...]] = []
    for place, data in read_json_lines(path):
        line = to_dataclass(_ImageInFile, data, place)
        rows.append(np.array(line.scores))
        sentence_numbers.append(line.sentences)
        if rows[-1].size != rows[0].size:
            raise DataError(f"{place}: {rows[-1].size} scores, {rows[0].size} in the first line")
    if not rows:
        raise DataError(f"{path}: empty")
    if not any(sentence_numbers):
        return np.stack(rows), None
    owners = np.full(rows[0].size, -1, dtype=np.intp)
    for image, numbers in enumerate(sentence_numbers):
        owners[[number for number in numbers if 0 <= number < owners.size]] = image
    return np.stack(rows), owners
