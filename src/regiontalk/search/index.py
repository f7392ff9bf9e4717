"""`Index`: search of the photos of a folder by their content."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from regiontalk.errors import IndexProblem, InputError, MissingExtra, UsageError, check_range
from regiontalk.images.moments import file_of
from regiontalk.images.photo import Photo, PhotoSource
from regiontalk.inference.alignment import region_vectors
from regiontalk.inference.rank import without_repeats
from regiontalk.model import Model
from regiontalk.models import loading, packaged
from regiontalk.results import (
    CaptionCount,
    Finding,
    Hit,
    Hits,
    IndexedPhoto,
    UnsureRegion,
    likeliest_first,
)
from regiontalk.search import build
from regiontalk.search.build import SeeAll, Update, Watch
from regiontalk.search.find import find_in
from regiontalk.search.query import Searcher
from regiontalk.search.sqlite import database
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import IndexedModel, PhotoFile, Scored, Store, StoredPhoto, Where
from regiontalk.search.taught import (
    find_taught,
    least_sure,
    search_taught,
    taught_phrases,
    with_taught_words,
)

MAX_CAPTIONED = 2_000  # photos whose captions are counted
DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")


@dataclass
class Index:
    """Photos below `root`; the index itself is in the folder `place`, or in a database. Its files
    are opened when they are first needed. Several threads may use it, and it notices what other
    processes write."""

    root: Path
    place: Path
    model: Model | None = None
    address: str | None = None
    """The address of the database."""
    below: str = ""
    """The folder in `root` that it covers; a database may also hold photos of other folders."""
    words_book: str | Path | bool = True
    """The word book of the model that it loads; see `regiontalk.load`."""
    _store: Store | None = field(default=None, repr=False)
    _file: tuple[int, int] | None = field(default=None, repr=False)
    """Device and inode of the opened index, if it is in a folder."""

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        model: Model | None = None,
        place: str | Path | None = None,
        store: str | None = None,
    ) -> Index:
        """The index of a folder; `update` makes it if there is none.

        `model`: the model for photos and queries (default: the package's own; to search, the one of
        the package's models that made the index). `place`: the folder of the index (default:
        `.regiontalk` in the folder of the photos). `store`: the address of a PostgreSQL database
        that holds the index instead, for example "postgresql://user@host/photos". It may hold many
        folders; "/" means all of them. `folder` may then also be an indexed address, such as
        "s3://bucket/photos".
        """
        root = Path(folder).expanduser()
        index_folder = root / database.FOLDER if place is None else Path(place).expanduser()
        if store is None:
            return cls(root, index_folder, model)
        if "://" in str(folder):
            return cls(Path("/"), index_folder, model, store, str(folder).rstrip("/"))
        whole = root.resolve()
        return cls(
            Path(whole.anchor), index_folder, model, store, _inside(whole, Path(whole.anchor))
        )

    @classmethod
    def around(cls, folder: str | Path, *, model: Model | None = None) -> tuple[Index, str]:
        """The index of a folder or of its nearest parent that has one, and the folder's path
        relative to that."""
        start = Path(folder).expanduser()
        for levels, above in enumerate((start.resolve(), *start.resolve().parents)):
            if (above / database.FOLDER / database.NAME).exists():
                root = Path(os.path.normpath(start.joinpath(*[".."] * levels))) if levels else start
                return cls.open(root, model=model), _inside(start.resolve(), above)
        return cls.open(start, model=model), ""

    @property
    def folder(self) -> Path:
        """The folder of the photos that it covers."""
        return self.root / self.below

    def update(
        self,
        model: Model | None = None,
        *,
        workers: int = 1,
        prune: bool = False,
        rebuild: bool = False,
        watch: Watch = lambda _: None,
        see_all: SeeAll | None = None,
    ) -> Update:
        """Processes new and changed photos, and records moved and deleted ones.

        `workers`: photos at a time. `prune`: drop deleted photos even if they are more than half of
        the index. `rebuild`: start from scratch. `watch(progress)` is called with the progress:
        `done`, `total`, `skipped`, `seconds_left`.
        `see_all` processes the photos (default: threads of this process). A run that was stopped
        continues where it stopped. Meanwhile the index can be searched, also by this object in
        another thread.
        """
        self.model = model or self._model()
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: no such folder")
        if rebuild:
            self.close()
        with self.writing(rebuild) as store:
            see_all = see_all or build.see_here(self.model, workers)
            limits = self.model.limits
            return build.update(store, self.root, self.below, see_all, prune, watch, limits)

    def check_free(self) -> None:
        """Raises `IndexProblem` if another process is writing the index. Called before a model is
        loaded, to fail early."""
        if self.address is None and self.place.is_dir():
            with database.explaining(self.place):
                database.take_lock(self.place).close()

    def make(self) -> None:
        """Makes an empty index if there is none, so that it can be searched while `update` fills
        it."""
        with self.writing():
            pass

    @contextmanager
    def writing(self, rebuild: bool = False) -> Iterator[Store]:
        """The store, open within the block."""
        store = self._open(build.identify(self._model()), rebuild)
        try:
            self._check(store, to_write=True)
            yield store
        finally:
            store.close()

    def search(
        self,
        query: str,
        *,
        top: int = 10,
        threshold: float | None = None,
        folder: str = "",
        since: str = "",
        until: str = "",
        as_typed: bool = False,
    ) -> Hits:
        """The photos that show what `query` says, best first: `a dog; a red ball -beach` (see
        `search.query`).

        Hits with `likely` come first. `top`: at most this many photos. `threshold`: leave out
        photos with a lower probability. `folder`: only photos below it, relative to the index's
        folder. `since`, `until`: only photos taken in that time, "2021", "2021-05" or "2021-05-30".
        `as_typed`: correct no typing mistakes, and take no synonyms; `notes` of the result says
        what was done.
        """
        check_range(0, 1, threshold=threshold)
        where = self._where(top, folder, since, until)
        searcher = Searcher(self._opened(), self._model().runtime)
        taught = self._model().taught
        if taught is None or not any(taught_phrases(query, taught)):
            return self._placed(searcher.search(query, top, threshold, where, as_typed))

        def search_rest(phrases: str, count: int) -> Hits:
            return searcher.search(phrases, count, None, where, as_typed)

        store = self._opened()
        hits = search_taught(store, taught, query, search_rest, top, threshold, where)
        return self._placed(hits)

    @overload
    def find(self, phrase: str, **options: Any) -> list[Finding]: ...

    @overload
    def find(self, phrase: Sequence[str], **options: Any) -> list[tuple[Finding, ...]]: ...

    def find(  # type: ignore[misc]  # the overloads only tell one phrase from several
        self,
        phrase: str | Sequence[str],
        *,
        threshold: float | None = None,
        top: int | None = None,
        folder: str = "",
    ) -> list[Finding] | list[tuple[Finding, ...]]:
        """Like `Model.find` for all photos, from the stored vectors and without likelihoods; the
        likeliest photos come first. Several phrases give a tuple for each photo, with a finding for
        each phrase. Photos that have changed since the last update are left out."""
        check_range(0, 1, threshold=threshold)
        check_range(1, top=top)
        if isinstance(phrase, str):
            return [only for (only,) in self._find([phrase], threshold, top, folder)]
        return self._find(phrase, threshold, top, folder)

    def _find(
        self, phrases: Sequence[str], threshold: float | None, top: int | None, folder: str
    ) -> list[tuple[Finding, ...]]:
        where = self._where(folder=folder)
        store = self._opened()
        every_photo = []
        model = self._model()
        for file, findings in self._find_all(store, where, phrases, threshold, top):
            path = self.root / file.path
            if _is_as_it_was(path, file):
                opens = Photo(str(path), model.limits)
                shown = model.shown()
                placed = tuple(
                    replace(finding, path=str(path), photo=opens, shown=shown)
                    for finding in findings
                )
                every_photo.append(placed)
        return sorted(every_photo, key=likeliest_first)

    def _find_all(
        self,
        store: Store,
        where: Where,
        phrases: Sequence[str],
        threshold: float | None,
        top: int | None,
    ) -> Iterator[tuple[PhotoFile, tuple[Finding, ...]]]:
        """The findings of every photo, one for each phrase, taught words among them."""
        model = self._model()
        others = list(phrases)
        of_taught: dict[str, dict[PhotoFile, Finding]] = {}
        if model.taught is not None and model.taught.by_vector is not None:
            others = [text for text in phrases if model.taught.word_in(text) is None]
            name = model.runtime.info.name
            for text in set(phrases) - set(others):
                pairs = find_taught(store, model.taught, where, text, name, threshold, top)
                of_taught[text] = dict(pairs)
        if not of_taught:
            yield from find_in(store, where, model.runtime, phrases, threshold, top)
            return
        of_others = dict(find_in(store, where, model.runtime, others, threshold, top))
        for file in next(iter(of_taught.values())):
            if others and file not in of_others:
                continue
            others_findings = iter(of_others.get(file, ()))
            yield (
                file,
                tuple(
                    of_taught[text][file] if text in of_taught else next(others_findings)
                    for text in phrases
                ),
            )

    def least_sure(self, *, top: int = 20, folder: str = "") -> list[UnsureRegion]:
        """The regions of which it is least sure whether they show a word that the model was taught:
        the examples that would help it most."""
        model = self._model()
        where = self._where(top, folder)
        if model.taught is None:
            return []
        known_examples = {(example.word, example.photo) for example in model.taught.book.examples}
        unsure_regions = least_sure(
            self._opened(), model.taught, where, top, self.root, known_examples
        )
        return [
            UnsureRegion(
                unsure.photo.key,
                self._path(unsure.photo.path),
                unsure.photo.size,
                unsure.photo.regions[unsure.row].xyxy,
                unsure.word,
                unsure.probability,
            )
            for unsure in unsure_regions
        ]

    def like(
        self,
        photo: PhotoSource,
        box_xyxy: ArrayLike | None = None,
        *,
        top: int = 10,
        folder: str = "",
        since: str = "",
        until: str = "",
    ) -> Hits:
        """The photos with a region most like a box of a photo (default: like the whole photo), by
        cosine; they are likely from 0.6 on. The photo itself is left out. Options as in
        `search`."""
        where = self._where(top, folder, since, until)
        store = self._opened()
        model = self._model()
        boxes = np.zeros((0, 4)) if box_xyxy is None else np.asarray(box_xyxy)[None]
        look = model.own.look(photo, boxes=boxes)
        vectors = region_vectors(model.runtime, model.codes(look).codes)
        hits = self._placed(Searcher(store, model.runtime).like(vectors[-1], top + 1, where))
        others = tuple(hit for hit in hits if not _same_file(hit, photo))
        closest = max((hit.score for hit in others), default=None)
        return replace(hits, hits=others[:top], closest=closest)

    def __len__(self) -> int:
        return self._opened().count(self.below)

    def photos(
        self,
        *,
        offset: int = 0,
        limit: int = 50,
        folder: str = "",
        since: str = "",
        until: str = "",
        caption: str = "",
    ) -> list[IndexedPhoto]:
        """Photos with their regions, the newest first: `limit` of them, after the first `offset`.
        `caption`: only photos that show this caption. Other options as in `search`."""
        where = self._where(limit, folder, since, until)
        store = self._opened()
        with store.reading():
            if caption:
                captioned = self._captioned(store, caption, where)
                return captioned[offset : offset + limit]
            return [
                self._photo(stored)
                for stored in store.read(store.newest(where, offset, limit).tolist())
            ]

    def count(
        self, *, folder: str = "", since: str = "", until: str = "", caption: str = ""
    ) -> int:
        """How many photos `photos` has with these options."""
        where = self._where(1, folder, since, until)
        store = self._opened()
        with store.reading():
            if caption:
                return len(self._captioned(store, caption, where))
            return len(store.newest(where, 0, store.count() + 1))

    def captions(
        self, *, top: int = 20, folder: str = "", since: str = "", until: str = ""
    ) -> list[CaptionCount]:
        """The captions that most photos show, the most common one first; of the newest
        `MAX_CAPTIONED` photos. A search for one of them has likely hits. Options as in `search`."""
        where = self._where(top, folder, since, until)
        store = self._opened()
        with store.reading():
            photos = store.read(store.newest(where, 0, MAX_CAPTIONED).tolist())
        captions = (_shown_captions(self._photo(stored)) for stored in photos)
        counts = Counter(chain.from_iterable(captions))
        common = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return [CaptionCount(caption, count) for caption, count in common[:top]]

    def _captioned(self, store: Store, caption: str, where: Where) -> list[IndexedPhoto]:
        """Lists all photos that show a caption, the newest first."""
        ids = store.newest(where, 0, store.count() + 1)
        for word in re.findall(r"[^\W_]+", caption):
            nothing = np.zeros((len(ids), 0), np.float32)
            ids = ids[store.said([word], Scored(ids, nothing, len(ids)))]
        photos = [self._photo(stored) for stored in store.read(ids.tolist())]
        return [photo for photo in photos if caption in _shown_captions(photo)]

    def photo(self, id: str) -> IndexedPhoto | None:
        """The photo with an id from `photos` or from a hit; None if there is none."""
        store = self._opened()
        with store.reading():
            number = store.find_key(id)
            photo = None if number is None else self._photo(store.read([number])[0])
            return photo if photo is not None and self._is_below(photo.path) else None

    def digests(self) -> dict[Path, bytes]:
        """The digest of the bytes of each photo, as they were when it was indexed."""
        files = self._opened().files(self.below)
        return {self.root / path: stored.digest for path, stored in files.items()}

    def _photo(self, stored: StoredPhoto) -> IndexedPhoto:
        boxes = [region.xyxy for region in stored.regions]
        captions = [region.caption for region in stored.regions]
        regions = with_taught_words(self._opened(), self._model().taught, stored)
        different = [regions[row] for row in without_repeats(np.array(boxes), captions).tolist()]
        different.sort(key=lambda region: -region.score)
        model = self._model()
        path = self._path(stored.path)
        place = (path, *stored.size, model.runtime.info.name)
        shown = model.shown()
        return IndexedPhoto(
            *place,
            tuple(different),
            shown,
            stored.key,
            stored.taken,
            photo=Photo(path, model.limits),
        )

    def close(self) -> None:
        """Closes the files of the index, or the connection to its database."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _model(self) -> Model:
        self.model = self.model or loading.load(lazily=True, words_book=self.words_book)
        return self.model

    def _opened(self) -> Store:
        """The store, opened again if another one has taken its place: a folder that was mounted
        again, or an index that another process has made from scratch."""
        file = _identity(self.place / database.NAME) if self.address is None else None
        if self._store is not None and file not in (None, self._file):
            self.close()
        if self._store is None:
            self._file = file
            store = self._open()
            try:
                self._check(store)
            except IndexProblem:
                store.close()
                raise
            self._store = store
        return self._store

    def _open(self, model: IndexedModel | None = None, rebuild: bool = False) -> Store:
        """Opens the store; with `model`, for writing."""
        if self.address is None:
            if rebuild:
                _remove(self.place)
            return SqliteStore(self.place, model)
        try:
            from regiontalk.search.postgres.store import PostgresStore
        except ImportError as error:
            raise MissingExtra(
                f"an index in PostgreSQL needs {error.name}", extra="postgres"
            ) from error
        return PostgresStore(self.address, model, rebuild=rebuild)

    def _check(self, store: Store, to_write: bool = False) -> None:
        """Raises an error if the model does not fit. To be searched, the vectors count; new photos
        must also get their captions from the same model."""
        made_with = packaged.named(store.model.vectors_by)
        book = self.words_book
        self.model = self.model or loading.load(made_with, lazily=True, words_book=book)
        wanted = build.identify(self.model)
        if store.model != wanted and (to_write or not store.model.has_vectors_of(wanted)):
            is_ours = made_with and store.model.vectors_by == store.model.name
            other = f"--model {made_with} is" if is_ours else "--model names"
            raise IndexProblem(
                f"{store.name}: made with another model, {store.model.name!r}; this is "
                f"{wanted.name!r}",
                hint=f"{other} the other one; regiontalk index with --rebuild makes a new index",
            )

    def _where(self, top: int = 1, folder: str = "", since: str = "", until: str = "") -> Where:
        check_range(1, top=top)
        for date in (since, until):
            if date and not _is_date(date):
                raise UsageError(
                    f"{date!r} is not a date",
                    hint="a year, month or day: 2021, 2021-05, 2021-05-30",
                )
        return Where("/".join(filter(None, (self.below, folder.strip("/")))), since, until)

    def _is_below(self, path: str) -> bool:
        return not self.below or path.startswith(f"{self._path(self.below)}/")

    def _path(self, stored: str) -> str:
        return stored if "://" in stored else str(self.root / stored)

    def _placed(self, hits: Hits) -> Hits:
        """Gives hits paths that can be opened."""
        placed = []
        model = self._model()
        for hit in hits:
            path = self._path(hit.path)
            photo = Photo(path, model.limits)
            placed.append(replace(hit, path=path, photo=photo, shown=model.shown()))
        return replace(hits, hits=tuple(placed))


def _is_date(text: str) -> bool:
    """Whether it is a year, month or day of the calendar."""
    try:
        datetime.fromisoformat(f"{text}-01-01"[:10])
    except ValueError:
        return False
    return bool(DATE.fullmatch(text))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:  # it is not there, or cannot be read at the moment
        return None
    return status.st_dev, status.st_ino


def _shown_captions(photo: IndexedPhoto) -> frozenset[str]:
    shown = photo.shown.choose(photo.regions)
    return frozenset(region.caption for region in shown if region.caption)


def _inside(folder: Path, above: Path) -> str:
    return "" if folder == above else folder.relative_to(above).as_posix()


def _is_as_it_was(path: Path, file: PhotoFile) -> bool:
    try:
        status = Path(file_of(str(path))).stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.size, file.modified)


def _same_file(hit: Hit, photo: object) -> bool:
    if not isinstance(photo, str | Path):
        return False
    return hit.path == str(photo) or (Path(hit.path).exists() and Path(hit.path).samefile(photo))


def _remove(place: Path) -> None:
    """Removes all files of an index, while nobody writes it."""
    if not place.is_dir():
        return
    with database.explaining(place):
        lock = database.take_lock(place)
        try:
            for pattern in database.FILES:
                for path in place.glob(pattern):
                    path.unlink()
        finally:
            lock.close()
