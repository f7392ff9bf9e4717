"""Computes the region codes of a data set's photos once, so that heads train in minutes.

While a file of codes is being made, finished parts are in a folder next to it (`FILE.parts`), so
that a run that was killed continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError, UsageError
from regiontalk.images.paths import in_order
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.regions import RegionTable
from regiontalk.io.files import replacing, writing
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.merged_truth import true_boxes
from regiontalk.lab.data.records import Dataset, open_split
from regiontalk.model import Model
from regiontalk.models.folder import detector_fingerprint, read_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime

MAX_ROWS = 1 + BEST_REGIONS
PHOTOS_PER_PART = 32  # photos in a part

Track = Callable[[Iterable[int], int], Iterable[int]]
"""Reports progress: takes the numbers of photos and how many there are; yields the numbers."""


class Origin(NamedTuple):
    """The data set and options that codes are computed from."""

    model: Path
    dataset: Path
    split: str | None = None
    surroundings: bool = False
    on_truths: bool = False
    """Compute codes of the data set's own boxes instead of the best regions."""
    size: int | None = None
    """The long side, in pixels, that photos are resized to; None: the model's."""


def compute_codes(origin: Origin, out: Path, workers: int, track: Track) -> CodedPhotos:
    """Computes and saves the codes of every photo of a data set; finished parts of an earlier run
    are used."""
    if out.suffix != ".npz":
        raise UsageError(f"{out}: the name must end in .npz")
    detector = detector_fingerprint(read_model_folder(origin.model).graphs)
    dataset = open_split(origin.dataset, origin.split)
    names = [record.image for record in dataset]
    if len(set(names)) < len(names):
        raise DataError(
            f"{origin.dataset}: two photos with the same name; codes are looked up by name"
        )
    settings = {name: getattr(origin, name) for name in ("surroundings", "on_truths", "size")}
    folder = _open_parts(out, {"detector": detector, "photos": _digest(dataset), **settings})
    shares = [
        range(start, min(start + PHOTOS_PER_PART, len(names)))
        for start in range(0, len(names), PHOTOS_PER_PART)
    ]
    parts = {folder / f"part-{share.start:08d}.npz": share for share in shares}
    for _ in track(_make_missing(parts, origin, dataset, workers), len(names)):
        pass
    coded = CodedPhotos(tuple(names), detector=detector, **_join(parts))
    coded.save(out)
    shutil.rmtree(folder)
    return coded


def _make_missing(
    parts: dict[Path, range], origin: Origin, dataset: Dataset, workers: int
) -> Iterator[int]:
    """Computes the missing parts. Yields the number of every photo, those of finished parts first;
    the last photo of a part is yielded after the part is saved."""
    missing = {path: share for path, share in parts.items() if not path.exists()}
    for share in (parts[path] for path in parts if path not in missing):
        yield from share
    photos = DatasetModel(Model(OnnxRuntime(origin.model, 1 if workers > 1 else None)), dataset)
    rows = 1 + max(len(true_boxes(record)) for record in dataset) if origin.on_truths else MAX_ROWS

    def compute(number: int) -> RegionTable:
        look = photos.look(dataset[number], origin.on_truths, origin.size)
        return photos.model.codes(look, origin.surroundings)

    numbers = list(chain.from_iterable(missing.values()))
    coded = in_order(compute, numbers, workers)
    for path, share in missing.items():
        arrays = []
        for number in share:
            arrays.append(_to_arrays(next(coded), rows))
            if number + 1 == share.stop:
                _save_part(path, arrays)
            yield number


def _save_part(path: Path, photos: Sequence[dict[str, NDArray[Any]]]) -> None:
    arrays = {}
    for name in photos[0]:
        arrays[name] = np.stack([photo[name] for photo in photos])
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _digest(dataset: Dataset) -> str:
    """A hash of what determines the photos and their order."""
    lines = (
        f"{record.shard}\t{record.image}\t{record.width}\t{record.height}\n" for record in dataset
    )
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _open_parts(out: Path, made_from: dict[str, Any]) -> Path:
    """The folder of parts; parts of another model or data set are deleted."""
    parts = out.with_name(out.name + ".parts")
    label = parts / "made-from.json"
    text = json.dumps(made_from)
    if parts.is_dir() and not (label.is_file() and label.read_text(encoding="utf-8") == text):
        shutil.rmtree(parts)
    with writing(parts):
        parts.mkdir(parents=True, exist_ok=True)
        label.write_text(text, encoding="utf-8")
    return parts


def _to_arrays(regions: RegionTable, rows: int) -> dict[str, NDArray[Any]]:
    """The arrays of `CodedPhotos` for one photo, padded to `rows` with zeros."""
    count, size = regions.codes.shape
    coded: dict[str, NDArray[Any]] = {
        "counts": np.array(count),
        "boxes_xyxy": np.zeros((rows, 4), dtype=np.float32),
        "scores": np.zeros(rows, dtype=np.float32),
        "codes": np.zeros((rows, size), dtype=np.float16),
    }
    coded["boxes_xyxy"][:count] = regions.boxes_xyxy
    coded["scores"][:count] = regions.scores
    coded["codes"][:count] = regions.codes
    if regions.surroundings is not None:
        coded["surroundings"] = np.zeros_like(coded["codes"])
        coded["surroundings"][:count] = regions.surroundings
    return coded


def _join(parts: Iterable[Path]) -> dict[str, NDArray[Any]]:
    loaded = []
    for part in parts:
        with np.load(part, allow_pickle=False) as stored:
            loaded.append({name: stored[name] for name in stored.files})
    joined = {}
    for name in loaded[0]:
        joined[name] = np.concatenate([part[name] for part in loaded])
    return joined
