"""Computes the region codes of a data set's photos once, so that heads train in minutes.

While a file of codes is being made, finished parts lie in a folder beside it (`FILE.parts`), so that a run that was
killed continues where it was.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.codes.store import CodedPhotos
from regiontalk.data.dataset_model import DatasetModel
from regiontalk.data.merged_truth import true_boxes
from regiontalk.data.records import Dataset
from regiontalk.errors import DataError, RegionTalkError, UsageError
from regiontalk.files import replacing
from regiontalk.model import BEST_REGIONS, Codes, Model
from regiontalk.model_folder import detector_fingerprint, read_model_folder
from regiontalk.runtime.onnx import OnnxRuntime

ROWS = 1 + BEST_REGIONS
PART = 32  # photos in a part

Track = Callable[[Iterable[int], int], Iterable[int]]
"""Looks on as numbers of photos are done, of so many."""

_of_this_worker: list[Looking] = []  # one, once a worker process has started


class Origin(NamedTuple):
    """What codes are made from."""

    model: Path
    dataset: Path
    split: str | None = None
    surroundings: bool = False
    on_truths: bool = False
    """Of the data set's own boxes instead of the best regions."""
    size: int | None = None
    """The long side, in pixels, that photos are resized to; None: the model's."""


@dataclass(frozen=True)
class Looking:
    """What is looked at, with what."""

    photos: DatasetModel
    origin: Origin

    @cached_property
    def rows(self) -> int:
        """Of every photo: the whole photo and its regions."""
        if not self.origin.on_truths:
            return ROWS
        return 1 + max(len(true_boxes(record)) for record in self.photos.dataset)

    def codes(self, number: int) -> Codes:
        look = self.photos.look(self.photos.dataset[number], self.origin.on_truths, self.origin.size)
        return self.photos.model.codes(look, self.origin.surroundings)


def compute_codes(origin: Origin, out: Path, workers: int, track: Track) -> CodedPhotos:
    """Looks at every photo of a data set and saves what was seen; parts that are there already are taken over."""
    if out.suffix != ".npz":
        raise UsageError(f"{out}: the name must end in .npz")
    detector = detector_fingerprint(read_model_folder(origin.model).graphs)
    dataset = Dataset(origin.dataset, origin.split)
    if not len(dataset):
        raise DataError(f"{origin.dataset}: no photo" + (f" in split {origin.split}" if origin.split else ""))
    names = [record.image for record in dataset]
    if len(set(names)) < len(names):
        raise DataError(f"{origin.dataset}: two photos of one name, which codes are found by")
    asked = {name: getattr(origin, name) for name in ("surroundings", "on_truths", "size")}
    parts = _open_parts(out, {"detector": detector, "photos": _digest(dataset), **asked})
    shares = [range(start, min(start + PART, len(names))) for start in range(0, len(names), PART)]
    missing = [share for share in shares if not (parts / _part_name(share)).exists()]
    numbers = _count(parts, missing, origin, len(names), workers)
    for _ in track(numbers, len(names)):
        pass
    coded = _join([parts / _part_name(share) for share in shares], names, detector)
    coded.save(out)
    shutil.rmtree(parts)
    return coded


def _digest(dataset: Dataset) -> str:
    """Of what decides which photos are looked at, in which order."""
    lines = (f"{record.shard}\t{record.image}\t{record.width}\t{record.height}\n" for record in dataset)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _open_parts(out: Path, made_from: dict[str, Any]) -> Path:
    """The folder of parts; what lies there of another model or data set goes."""
    parts = out.with_name(out.name + ".parts")
    label = parts / "made-from.json"
    text = json.dumps(made_from)
    if parts.is_dir() and not (label.is_file() and label.read_text(encoding="utf-8") == text):
        shutil.rmtree(parts)
    try:
        parts.mkdir(parents=True, exist_ok=True)
        label.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{parts}: cannot be made: {error.strerror or error}") from error
    return parts


def _part_name(share: range) -> str:
    return f"part-{share.start:08d}.npz"


def _count(parts: Path, missing: Sequence[range], made_from: Origin, total: int, workers: int) -> Iterator[int]:
    """Yields once for every photo, those of parts that are there first."""
    yield from range(total - sum(map(len, missing)))
    for share in _make_parts(parts, missing, made_from, workers):
        yield from share


def _make_parts(parts: Path, missing: Sequence[range], made_from: Origin, workers: int) -> Iterator[range]:
    """The shares of photos as they are finished."""
    jobs = [(parts / _part_name(share), share) for share in missing]
    if workers < 2:
        _start_worker(made_from, None)
        try:
            yield from map(_raised, map(_make_part, jobs))
        finally:
            _of_this_worker.clear()
        return
    # Not forked: the progress bar has a thread, and a fork would copy its locks as they are.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker, initargs=(made_from, 1))
    try:
        yield from map(_raised, pool.map(_make_part, jobs))
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(made_from: Origin, threads: int | None) -> None:
    if threads is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    model, dataset = Model(OnnxRuntime(made_from.model, threads)), Dataset(made_from.dataset, made_from.split)
    _of_this_worker.append(Looking(DatasetModel(model, dataset), made_from))


def _make_part(job: tuple[Path, range]) -> range | RegionTalkError:
    """Looks at a share of the photos and saves what was seen."""
    path, share = job
    try:
        looking = _of_this_worker[0]
        photos = [_to_arrays(looking.codes(number), looking.rows) for number in share]
    except RegionTalkError as error:
        return error  # raised in the parent: an error's keywords do not survive the way between processes
    arrays = {name: np.stack([photo[name] for photo in photos]) for name in photos[0]}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return share


def _to_arrays(found: Codes, rows: int) -> dict[str, NDArray[Any]]:
    """The arrays of `CodedPhotos` for one photo, filled up to `rows` with zeros."""
    count, size = found.codes.shape
    coded: dict[str, NDArray[Any]] = {
        "counts": np.array(count),
        "boxes_xyxy": np.zeros((rows, 4), dtype=np.float32),
        "scores": np.zeros(rows, dtype=np.float32),
        "codes": np.zeros((rows, size), dtype=np.float16),
    }
    coded["boxes_xyxy"][:count], coded["scores"][:count] = found.boxes_xyxy, found.scores
    coded["codes"][:count] = found.codes
    if found.surroundings is not None:
        coded["surroundings"] = np.zeros_like(coded["codes"])
        coded["surroundings"][:count] = found.surroundings
    return coded


def _raised(outcome: range | RegionTalkError) -> range:
    if isinstance(outcome, RegionTalkError):
        raise outcome
    return outcome


def _join(parts: Sequence[Path], names: Sequence[str], detector: str) -> CodedPhotos:
    loaded = []
    for part in parts:
        with np.load(part, allow_pickle=False) as stored:
            loaded.append({name: stored[name] for name in stored.files})
    arrays = {name: np.concatenate([part[name] for part in loaded]) for name in loaded[0]}
    return CodedPhotos(tuple(names), detector=detector, **arrays)
