"""Updates an index: processes new and changed photos of its folder, and records moved and deleted
ones.

Photos are stored in small batches, one transaction each. A run that was stopped continues where it
stopped.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.errors import IndexProblem, InputError, RegionTalkError
from regiontalk.images import video
from regiontalk.images.limits import Limits
from regiontalk.images.moments import file_of, in_file, is_video, moment_of, path_at
from regiontalk.images.paths import WITH_VIDEOS, attempts, find_photos
from regiontalk.images.photo import Photo
from regiontalk.inference.alignment import ALIGNMENT_HEAD, region_vectors
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.regions import Look, RegionTable
from regiontalk.inference.sentences import SENTENCE_HEAD, SentenceHead
from regiontalk.io.files import open_file
from regiontalk.model import Model
from regiontalk.models.folder import Head
from regiontalk.results import Region
from regiontalk.search.store import (
    CAPTIONED_BY,
    Entry,
    IndexedModel,
    PhotoFile,
    Store,
    Stored,
    Touched,
)

PHOTOS_PER_TRANSACTION = 16  # photos in a transaction
STORE_SECONDS = 1.0  # after which photos are stored though they are fewer, so that they are found

LARGEST_TIME = (1 << 63) - 1  # nanoseconds that a database takes: a clock may be anywhere

Seen = Entry | Touched | Stored | RegionTalkError
"""A processed photo, one whose bytes have not changed, one that another process has processed and
stored, or the error that prevents it."""


class Job(NamedTuple):
    """A photo to process."""

    file: PhotoFile
    digest: bytes | None
    """The digest of the indexed bytes; None if the photo is new."""
    digest_now: bytes | None = None
    """The digest of the video's bytes, if it is a frame of one; computed once for all frames."""


See = Callable[[Model, Job], Entry | Touched]
SeeAll = Callable[[See, Sequence[Job]], Iterator[tuple[str, Seen]]]
"""Processes photos, several at a time, in any order; yields the path and the result of each."""


class Progress(NamedTuple):
    """Progress of an update, in numbers of photos to process."""

    done: int
    total: int
    skipped: int
    """How many of those that are done were skipped."""
    seconds_left: float | None
    """None as long as it is unknown."""


Watch = Callable[[Progress], None]
"""Called when an update starts to process photos, and after each photo."""


@dataclass
class Update:
    """What an update did, in numbers of photos; each indexed frame of a video counts as one."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    hidden: int = 0
    """Photos whose names start with a dot; they are not indexed."""
    outside: int = 0
    """Links to photos and folders outside of the folder; they are not indexed, because `serve`
    serves nothing outside of it."""
    skipped: list[str] = field(default_factory=list)
    """One line for each photo or folder that could not be read."""


@dataclass
class Plan:
    """The work of an update."""

    look: dict[str, PhotoFile] = field(default_factory=dict)
    """New or changed photos."""
    videos: dict[str, PhotoFile] = field(default_factory=dict)
    """New or changed videos, and those of which frames are missing."""
    moved: dict[str, PhotoFile] = field(default_factory=dict)
    gone: dict[str, Stored] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    """Indexed photos behind links that lead out of the folder, as earlier versions indexed them."""


def identify(model: Model) -> IndexedModel:
    """The model as an index records it; the fingerprint covers everything that its vectors depend
    on. The name also has the model of the captions, if that is another one."""
    head = model.runtime.head(ALIGNMENT_HEAD)
    info = model.runtime.info
    parts: tuple[object, ...] = (
        *(head.info.detector, info.input_size, head.info.net, head.info.training),
        _digests(head),
    )
    regions = 1 + BEST_REGIONS
    state = 0
    if SENTENCE_HEAD in model.runtime.heads:
        parts += (
            model.runtime.head(SENTENCE_HEAD).info.training,
            _digests(model.runtime.head(SENTENCE_HEAD)),
        )
        state = SentenceHead(model.runtime).scene_size(regions)
    fingerprint = hashlib.sha256(repr(parts).encode()).hexdigest()
    name = info.name if model.own is model else f"{info.name}{CAPTIONED_BY}{model.model_name}"
    return IndexedModel(name, fingerprint, regions, int(head.info.net["size"]), state)


def _digests(head: Head) -> tuple[str, ...]:
    return tuple(hashlib.sha256(head.graphs[name]).hexdigest() for name in sorted(head.graphs))


def see_here(model: Model, workers: int) -> SeeAll:
    """Processes photos in threads of this process, and yields them in order."""

    def see_all(see: See, jobs: Sequence[Job]) -> Iterator[tuple[str, Seen]]:
        seen = attempts(partial(see, model), jobs, workers)
        return zip((job.file.path for job in jobs), seen, strict=True)

    return see_all


def update(
    store: Store,
    root: Path,
    below: str,
    see_all: SeeAll,
    prune: bool,
    watch: Watch,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
) -> Update:
    """Processes new and changed photos and videos in the folder `below` of `root`. Fails if more
    than half of the photos are gone, unless `prune`."""
    known = store.files(below)
    done = Update()
    folder = root / below
    plan = make_plan(known, root, below, done)
    if 2 * len(plan.gone) > len(known) and not prune:
        raise IndexProblem(
            f"{folder}: {len(plan.gone)} of {len(known)} photos are gone; the index was not "
            "changed",
            hint="is a disk missing? If not, --prune drops them",
        )
    if not known and not plan.look and not plan.videos:
        raise InputError(
            next(iter(done.skipped), f"{folder}: no photo there"), hint="a folder with photos"
        )
    store.rename(plan.moved)
    store.forget([*plan.gone, *plan.outside])
    done.moved = len(plan.moved)
    done.removed = len(plan.gone) + len(plan.outside)
    jobs = [
        Job(file, known[path].digest if path in known else None) for path, file in plan.look.items()
    ]
    watching = _Watching(watch, len(jobs) + len(plan.videos))
    see_below = partial(see, root)
    _store_all(store, watching.follow(see_all(see_below, jobs)), known, done)
    for file in plan.videos.values():
        frames = {path: stored for path, stored in known.items() if file_of(path) == file.path}
        jobs = _plan_video(store, root, file, limits, frames, done)
        watching.total += len(jobs) - 1
        for some in (jobs[1:], jobs[:1]):  # with its first frame, a video is complete
            _store_all(store, watching.follow(see_all(see_below, some)), known, done)
    store.compact()
    return done


class _Watching:
    """Passes processed photos on, and tells `watch` of the progress."""

    def __init__(self, watch: Watch, total: int) -> None:
        self.total = total
        self._watch = watch
        self._done = self._skipped = 0
        self._began = time.monotonic()
        watch(Progress(0, total, 0, None))

    def follow(self, seen: Iterable[tuple[str, Seen]]) -> Iterator[tuple[str, Seen]]:
        for path, result in seen:
            yield path, result
            self._done += 1
            self._skipped += isinstance(result, RegionTalkError)
            seconds_each = (time.monotonic() - self._began) / self._done
            left = seconds_each * (self.total - self._done)
            self._watch(Progress(self._done, self.total, self._skipped, left))


def _plan_video(
    store: Store,
    root: Path,
    file: PhotoFile,
    limits: Limits,
    known: Mapping[str, Stored],
    done: Update,
) -> list[Job]:
    """The frames to process, the first one first; drops `known` frames of what the video was
    before."""
    place = root / file.path
    before = {path: stored for path, stored in known.items() if not _is_state_of(stored.file, file)}
    try:
        digest = digest_of(place)
        if path_at(file.path, 0) in known and all(
            stored.digest == digest for stored in known.values()
        ):
            taken = _to_date(file.modified)
            store.date(dict.fromkeys(known, taken))
            store.rename({path: file._replace(path=path) for path in known})
            done.unchanged += len(known)
            return []
        frames = [in_file(path, file.path) for path in video.key_frames(place, limits)]
    except InputError as problem:
        store.forget(known)
        done.skipped.append(problem.message + (f"  ({problem.hint})" if problem.hint else ""))
        return []
    store.forget(before)
    done.removed += len(before.keys() - set(frames))
    done.unchanged += len(known) - len(before)
    missing = [path for path in frames if path not in known or path in before]
    return [Job(file._replace(path=path), None, digest) for path in missing]


def _is_state_of(frame: PhotoFile, file: PhotoFile) -> bool:
    """Whether a frame was indexed from the file as it is now."""
    return frame._replace(path=file.path) == file


def _store_all(
    store: Store, seen: Iterable[tuple[str, Seen]], known: Mapping[str, Stored], done: Update
) -> None:
    """A few photos in each transaction."""
    waiting: list[Entry] = []
    stored_at = time.monotonic()
    for path, result in seen:
        if isinstance(result, Entry | Stored):
            waiting += [result] if isinstance(result, Entry) else []
            done.changed += path in known
            done.added += path not in known
        elif isinstance(result, Touched):
            store.date({path: result.taken})
            store.rename({path: result.file})  # last: a run that is killed before does it again
            done.unchanged += 1
        else:
            store.forget([path])
            done.skipped.append(result.message + (f"  ({result.hint})" if result.hint else ""))
        is_late = time.monotonic() - stored_at > STORE_SECONDS
        if len(waiting) == PHOTOS_PER_TRANSACTION or (waiting and is_late):
            store.put(waiting)
            waiting = []
            stored_at = time.monotonic()
    if waiting:
        store.put(waiting)


def make_plan(known: Mapping[str, Stored], root: Path, below: str, done: Update) -> Plan:
    """Compares the index with the folder; counts unchanged photos."""
    photos = find_photos([str(root / below)], suffixes=WITH_VIDEOS, inside=root / below)
    done.skipped += photos.skipped
    done.hidden = len(photos.hidden)
    done.outside = len(photos.outside)
    left_out = tuple(_relative(path, root) for path in photos.outside)
    plan = Plan()
    there = set[str]()
    known_files = _by_file(known)
    for path in photos.paths:
        try:
            status = os.stat(path)  # noqa: PTH116  (many of them)
        except OSError as error:
            done.skipped.append(f"{path}: {error.strerror or error}")
            continue
        modified = max(-LARGEST_TIME, min(status.st_mtime_ns, LARGEST_TIME))
        file = PhotoFile(_relative(path, root), status.st_size, modified)
        there.add(file.path)
        frames = known_files.get(file.path, {})
        if is_video(file.path):
            if _is_complete(frames, file):
                done.unchanged += len(frames)
            else:
                plan.videos[file.path] = file
        elif file.path in known and known[file.path].file == file:
            done.unchanged += 1
        else:
            plan.look[file.path] = file
    missing = {path: stored for path, stored in known.items() if file_of(path) not in there}
    plan.outside = [path for path in missing if _is_below(file_of(path), left_out)]
    for path in plan.outside:
        del missing[path]
    plan.gone = {path: stored for path, stored in missing.items() if _is_gone(root / file_of(path))}
    done.unchanged += len(missing) - len(plan.gone)
    _find_moved(plan, known_files, root)
    if plan.videos and not video.is_installed():
        done.skipped.append(video.left_out(len(plan.videos)))
        done.unchanged += sum(len(known_files.get(path, {})) for path in plan.videos)
        plan.videos.clear()
    return plan


def _by_file(known: Mapping[str, Stored]) -> dict[str, dict[str, Stored]]:
    """The photo or the frames of each file."""
    files: dict[str, dict[str, Stored]] = {}
    for path, stored in known.items():
        files.setdefault(file_of(path), {})[path] = stored
    return files


def _is_complete(frames: Mapping[str, Stored], file: PhotoFile) -> bool:
    """Whether all frames of a video were indexed from the file as it is now. Its first frame is
    stored last."""
    return path_at(file.path, 0) in frames and all(
        _is_state_of(stored.file, file) for stored in frames.values()
    )


def _find_moved(plan: Plan, known_files: Mapping[str, object], root: Path) -> None:
    """A new file with the bytes of a missing one is that photo or video, moved."""
    gone_files = _by_file(plan.gone)
    gone = {(stored.file.size, stored.digest): file_of(path) for path, stored in plan.gone.items()}
    sizes = {size for size, _ in gone}
    new = [*plan.look.values(), *plan.videos.values()]
    for file in [file for file in new if file.size in sizes and file.path not in known_files]:
        with suppress(InputError):  # reported when it is processed
            before = gone.pop((file.size, digest_of(root / file.path)), None)
            if before is None or is_video(before) != is_video(file.path):
                continue
            for path in gone_files[before]:
                plan.moved[path] = file._replace(path=in_file(path, file.path))
                del plan.gone[path]
            plan.look.pop(file.path, None)
            plan.videos.pop(file.path, None)


def _is_below(path: str, places: Sequence[str]) -> bool:
    """Whether it is one of these files, or in one of these folders."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _relative(path: str, root: Path) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _is_gone(path: Path) -> bool:
    """False if its folder cannot be read at the moment."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True


def digest_of(photo: Path | bytes, largest: float | None = None) -> bytes:
    """A digest of the bytes of a photo, which recognises it under another name."""
    if isinstance(photo, bytes):
        return hashlib.blake2b(photo).digest()[:16]
    with open_file(photo, None if largest is None else int(largest)) as file:
        return hashlib.file_digest(file, "blake2b").digest()[:16]


def see(root: Path, model: Model, job: Job) -> Entry | Touched:
    place = root / job.file.path
    digest = job.digest_now or digest_of(place, model.limits.file_bytes)
    if digest == job.digest:
        return Touched(job.file, _taken(Photo(place, model.limits), job.file))
    return to_entry(model, model.look(place), job.file, digest)


def _taken(photo: Photo, file: PhotoFile) -> str:
    """When the photo was taken, by the camera, or else the time of its file."""
    if moment_of(file.path) is not None:
        return _to_date(file.modified)
    return photo.taken or _to_date(file.modified)


def _to_date(nanoseconds: int) -> str:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a year that no calendar has
        return (datetime.max if nanoseconds > 0 else datetime.min).isoformat(timespec="seconds")


def to_entry(model: Model, look: Look, file: PhotoFile, digest: bytes) -> Entry:
    """A processed photo, as it is stored: without taught words, which searches add by its
    vectors."""
    model = replace(model, taught=None)
    coded = model.codes(look)
    regions = tuple(stored_regions(coded, model.regions(look)))
    words = [
        region.caption
        for region in regions
        if region.confidence is None or region.confidence >= model.likely
    ]
    taken = _taken(look.photo, file)
    vectors = region_vectors(model.runtime, coded.codes)
    state = np.zeros(0, np.float32)
    if SENTENCE_HEAD in model.runtime.heads:
        state = SentenceHead(model.runtime).scene(coded.codes, coded.boxes_xyxy, 1 + BEST_REGIONS)
    photo = (taken, look.frame.photo_size, regions, tuple(coded.scores.tolist()))
    return Entry(file, digest, *photo, tuple(words), vectors, state)


def stored_regions(coded: RegionTable, captioned: Sequence[Region]) -> Iterator[Region]:
    """The regions that have vectors, each with score and caption of the captioned region that it
    overlaps most: itself, unless it was dropped as a repeat of another. The whole photo has no
    caption."""
    whole, *boxes = coded.boxes_xyxy.tolist()
    whole_score, *scores = coded.scores.tolist()
    yield Region(tuple(whole), whole_score, "")
    captioned_xyxy = np.array([region.xyxy for region in captioned]).reshape(-1, 4)
    overlaps = geometry.iou(coded.boxes_xyxy[1:], captioned_xyxy)
    for box, score, row in zip(boxes, scores, overlaps, strict=True):
        if row.max(initial=0) > 0:
            yield replace(captioned[int(row.argmax())], xyxy=tuple(box))
        else:
            yield Region(tuple(box), score, "")
