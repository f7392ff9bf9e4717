"""Region codes of the true boxes of a data set's photos, from which a language model learns without
its backbone (`lab.training.language`).

Each photo is seen once, as it is or shrunk to a random longest side: where all data sets are shrunk
to the same range, sharpness says nothing about the words. The codes are in a folder, a part of the
photos in a file, so that a run that was killed continues where it stopped.

Shapes: P photos, R boxes of them, D the size of a code of the recognition network, A of an
appearance, E of the language model's region input.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.images.paths import in_order
from regiontalk.io.files import read_json, replacing, writing
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, open_split
from regiontalk.model import Model
from regiontalk.models.folder import read_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime

PHOTOS_PER_PART = 50
MADE_FROM = "made-from.json"
ARRAYS = ("images", "sides", "photo_codes", "photos", "boxes_xyxy", "codes", "inputs")

Track = Callable[[Iterable[int], int], Iterable[int]]
"""Reports progress: takes the numbers of photos and how many there are; yields the numbers."""


class BoxesOrigin(NamedTuple):
    """The photos and options that codes are computed from."""

    model: Path
    dataset: Path
    split: str
    photos: int | None = None
    """How many photos are drawn at random, at most; None: all are used."""
    sides: tuple[int, int] | None = None
    """Range of the random longest side, in pixels, that larger photos are shrunk to; None: photos
    as they are."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class CodedBoxes:
    """P photos with their true boxes, R in all."""

    images: NDArray[np.str_]
    """(P,) names of the photos."""
    sides: NDArray[np.int64]
    """(P,) the longest side, in pixels, that each photo was seen with."""
    photo_codes: NDArray[np.float16]
    """(P, D + A) the codes of the whole photos."""
    photos: NDArray[np.int64]
    """(R,) the photo of each box, in order."""
    boxes_xyxy: NDArray[np.float64]
    """(R, 4) in pixels of the record."""
    codes: NDArray[np.float16]
    """(R, D + A) the codes of the boxes."""
    inputs: NDArray[np.float16]
    """(R, E) the language model's input for the box."""
    detector: str = ""
    """`folder.detector_fingerprint` of the network that made them."""

    def __len__(self) -> int:
        return len(self.images)


def true_box_codes(
    origin: BoxesOrigin, out: Path, workers: int = 1, track: Track = lambda numbers, _: numbers
) -> CodedBoxes:
    """Computes the missing parts of the folder `out`, and reads all."""
    dataset = open_split(origin.dataset, origin.split)
    random = np.random.default_rng(origin.seed)
    numbers = random.permutation(len(dataset))[: origin.photos].tolist()
    _open_folder(out, origin, dataset)
    shares = {
        out / f"part-{start:06d}.npz": numbers[start : start + PHOTOS_PER_PART]
        for start in range(0, len(numbers), PHOTOS_PER_PART)
    }
    for _ in track(_make_missing(shares, origin, dataset, workers), len(numbers)):
        pass
    return read_coded_boxes(out)


def read_coded_boxes(folder: Path) -> CodedBoxes:
    """The finished parts of a folder."""
    parts = sorted(folder.glob("part-*.npz"))
    if not parts:
        raise DataError(
            f"{folder}: no codes of true boxes", hint="regiontalk data box-codes computes them"
        )
    detector = str(read_json(folder / MADE_FROM)["detector"])
    return replace(join([_read_part(path) for path in parts]), detector=detector)


def join(parts: Sequence[CodedBoxes]) -> CodedBoxes:
    """The photos of all parts, one after another."""
    firsts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    shifted = [
        replace(part, photos=part.photos + first)
        for part, first in zip(parts, firsts.tolist(), strict=True)
    ]
    arrays = {}
    for name in ARRAYS:
        arrays[name] = np.concatenate([getattr(part, name) for part in shifted])
    return CodedBoxes(**arrays, detector=parts[0].detector)


def distinct_boxes(record: Record) -> NDArray[np.float64]:
    """(B, 4) the boxes of a record's regions, each once, clipped to the photo; those without area
    are left out."""
    every = np.array([region.xyxy for region in record.regions], dtype=np.float64).reshape(-1, 4)
    clipped = geometry.clip(every, record.width, record.height).astype(np.float64)
    distinct = np.unique(clipped, axis=0)
    sides = distinct[:, 2:] - distinct[:, :2]
    return distinct[(sides >= 1).all(axis=1)]


def _make_missing(
    shares: dict[Path, list[int]], origin: BoxesOrigin, dataset: Dataset, workers: int
) -> Iterator[int]:
    """Computes the missing parts. Yields the number of every photo, those of finished parts
    first."""
    missing = {path: share for path, share in shares.items() if not path.exists()}
    for path, share in shares.items():
        if path not in missing:
            yield from share
    model = Model(OnnxRuntime(origin.model, 1 if workers > 1 else None))
    photos = DatasetModel(model, dataset)
    numbers = chain.from_iterable(missing.values())
    coded = in_order(lambda number: _code_photo(photos, dataset[number], origin), numbers, workers)
    for path, share in missing.items():
        parts = []
        for number in share:
            parts.append(next(coded))
            yield number
        _save_part(path, join(parts))


def _code_photo(photos: DatasetModel, record: Record, origin: BoxesOrigin) -> CodedBoxes:
    longest = max(record.width, record.height)
    side = min(longest, _random_side(record, origin))
    boxes_xyxy = distinct_boxes(record)
    resized = replace(photos, longest_side=side if side < longest else None)
    regions = resized.coded_boxes(record, boxes_xyxy)
    codes = regions.codes.astype(np.float16)
    return CodedBoxes(
        images=np.array([record.image]),
        sides=np.array([side]),
        photo_codes=codes[:1],
        photos=np.zeros(len(boxes_xyxy), dtype=np.int64),
        boxes_xyxy=boxes_xyxy,
        codes=codes[1:],
        inputs=regions.state[2][1:].astype(np.float16),
    )


def _random_side(record: Record, origin: BoxesOrigin) -> int:
    """A side whose logarithm is uniform in the range, from the seed and the photo's name alone."""
    if origin.sides is None:
        return max(record.width, record.height)
    random = np.random.default_rng([origin.seed, zlib.crc32(record.image.encode())])
    shortest, longest = np.log(origin.sides)
    return round(float(np.exp(random.uniform(shortest, longest))))


def _open_folder(out: Path, origin: BoxesOrigin, dataset: Dataset) -> None:
    """The folder of parts, which must be of the same photos and options."""
    lines = "".join(f"{record.image}\t{record.width}\t{record.height}\n" for record in dataset)
    made_from: dict[str, Any] = {
        **origin._asdict(),
        "model": origin.model.name,
        "detector": read_model_folder(origin.model).detector,
        "dataset": str(origin.dataset),
        "images": hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest(),
    }
    text = json.dumps(made_from)
    label = out / MADE_FROM
    if label.is_file() and label.read_text(encoding="utf-8") != text:
        raise DataError(f"{out}: codes of other photos or options", hint="give another folder")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        label.write_text(text, encoding="utf-8")


def _save_part(path: Path, coded: CodedBoxes) -> None:
    arrays = {name: getattr(coded, name) for name in ARRAYS}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def _read_part(path: Path) -> CodedBoxes:
    with np.load(path, allow_pickle=False) as stored:
        return CodedBoxes(**{name: stored[name] for name in ARRAYS})
