"""The tasks of workers. Inputs and answers go through a pipe: plain values, bytes and errors.

A `photo` is its bytes, or the id of one in the index.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from regiontalk.captioners.loading import load_any
from regiontalk.errors import IndexProblem, InputError, UsageError
from regiontalk.images.limits import Limits
from regiontalk.images.moments import file_of, in_file, moment_of
from regiontalk.images.photo import Photo, encode
from regiontalk.inference.teaching import ToTeach, learn
from regiontalk.model import Model
from regiontalk.models.loading import load
from regiontalk.models.packaged import FAST
from regiontalk.results import Hit, Hits, ImageRegions, IndexedPhoto, Shown
from regiontalk.search.build import digest_of
from regiontalk.search.index import Index
from regiontalk.serve.corrections import pixels_of
from regiontalk.serve.settings import Settings

JPEG_QUALITY = 85
LIVE_OPTIONS = {"size": 320, "proposals": 50}  # of pictures of the camera: see benchmarks/live.py
MOST_CAPTIONS = 5  # of a photo in a list

Answer = dict[str, Any]


class NotFound(InputError):
    """There is no photo with this id."""

    http_status = 404


@dataclass(frozen=True)
class Desk:
    """The state of a worker."""

    model: Model
    index: Index | None
    live_model: Path | None = None
    """The model for pictures of the camera; None: `model`."""
    words_book: Path | bool = True

    @classmethod
    def of(cls, settings: Settings) -> Desk:
        model = replace(
            load_any(settings.model, words_book=settings.words_book),
            limits=Limits(settings.megapixels, settings.megabytes),
        )
        live_model = FAST if settings.model is None else None
        index = None
        if settings.folder is not None:
            place = settings.place
            store = settings.store
            index = Index.open(settings.folder, model=model, place=place, store=store)
        return cls(model, index, live_model, settings.words_book)

    @cached_property
    def quick_model(self) -> Model:
        """The model for pictures of the camera; the package's fast one is loaded when it is first
        needed."""
        if self.live_model is None:
            return self.model.own
        loaded = load(self.live_model, words_book=self.words_book)
        return replace(loaded, limits=self.model.limits)

    def searched(self) -> Index:
        if self.index is None:
            raise NotFound(
                "the server was started without a folder", hint="regiontalk serve FOLDER"
            )
        return self.index

    def photo(self, id: str) -> IndexedPhoto:
        indexed = self.searched().photo(id)
        if indexed is None:
            raise NotFound("no photo has this id")
        return indexed

    def open(self, photo: bytes | str) -> bytes | Path:
        """The photo as an input of the model."""
        return photo if isinstance(photo, bytes) else self.file(self.photo(photo))

    def file(self, photo: IndexedPhoto) -> Path:
        """Tells where a photo is. A link that leads out of the folder is not followed."""
        file = Path(file_of(photo.path)).resolve()
        root = self.searched().folder.resolve()
        if not (file.is_relative_to(root) and file.is_file()):
            raise NotFound("this photo is no longer in the folder")
        return Path(in_file(photo.path, str(file)))

    def relative(self, path: str) -> str:
        """The path in answers, which do not reveal where the folder is."""
        return path if self.index is None else path.removeprefix(f"{self.index.folder}/")


def about(desk: Desk) -> Answer:
    """What does not change while the server runs; makes an index if there is none, unless other
    processes make it."""
    photos = 0 if desk.index is None else _count(desk.index)
    shown = {"threshold": Shown.threshold, "confidence": desk.model.likely}
    info = desk.model.runtime.info
    terms = None if info.terms is None else info.terms.summary
    return {"model": desk.model.model_name, "terms": terms, "photos": photos, **shown}


def _count(index: Index) -> int:
    """An index that cannot be written, or that another process is writing, is searched as it is."""
    if index.address is not None:
        return len(index)
    try:
        index.make()
    except IndexProblem as problem:
        with suppress(IndexProblem):
            return len(index)
        raise problem
    return len(index)


def _asking(
    ask: Callable[..., Any], choose: Callable[[Desk], Model] = lambda desk: desk.model
) -> Callable[..., Answer]:
    """A task that runs a model on a photo."""

    def look(desk: Desk, photo: bytes | str, **options: Any) -> Answer:
        path = desk.relative(desk.photo(photo).path) if isinstance(photo, str) else ""
        result = ask(choose(desk), desk.open(photo), **options)
        answer = {**result.to_dict(), "path": path}
        return answer | {"regions": _regions(result)} if type(result) is ImageRegions else answer

    return look


def _ask_own(method: str) -> Callable[..., Any]:
    """Asks the model of this package: others only caption (`captioners`)."""
    return lambda model, photo, **options: getattr(model.own, method)(photo, **options)


def identify(desk: Desk, photo: bytes | str) -> tuple[str, tuple[int, int], str]:
    """What a correction belongs to: the digest of the photo's bytes, its width and height, and the
    digest of its pixels."""
    source = desk.open(photo)
    limits = desk.model.limits
    return _digest(desk, source), Photo(source, limits).size, pixels_of(source, limits)


def _digest(desk: Desk, source: bytes | Path) -> str:
    if isinstance(source, Path) and moment_of(source):
        return digest_of(Path(file_of(str(source)))).hex()
    return digest_of(source, desk.model.limits.file_bytes).hex()


def like(desk: Desk, photo: bytes | str, xyxy: list[float], **limits: Any) -> Answer:
    return _hits(desk, desk.searched().like(desk.open(photo), xyxy, **limits))


def search(desk: Desk, query: str, **limits: Any) -> Answer:
    return _hits(desk, desk.searched().search(query, **limits))


def _hits(desk: Desk, hits: Hits) -> Answer:
    answer = hits.to_dict()
    for hit, plain in zip(hits, answer["hits"], strict=True):
        plain.update(_place(desk, hit))
        for region, plain_region in zip(hit.regions, plain["regions"], strict=True):
            plain_region["sure"] = hit.is_sure(region)
    return {**answer, "none_fit": not hits.likely}


def captions(desk: Desk, top: int) -> Answer:
    """The most common captions: each is a search that has likely hits."""
    common = desk.searched().captions(top=top)
    return {"captions": [caption.to_dict() for caption in common]}


def photos(desk: Desk, offset: int, limit: int, **filters: str) -> Answer:
    index = desk.searched()
    listed = [
        {**_place(desk, photo), "taken": photo.taken, **_captions(_only_captioned(photo))}
        for photo in index.photos(offset=offset, limit=limit, **filters)
    ]
    return {"total": index.count(**filters), "photos": listed}


def _captions(photo: IndexedPhoto) -> Answer:
    """What a photo shows, in a few words; `sure`: whether the model is sure of that."""
    likely = photo.likely[:MOST_CAPTIONS]
    captions = list(dict.fromkeys(region.caption for region in likely))
    return {"captions": captions, "sure": all(map(photo.is_sure, likely))}


def _only_captioned(photo: IndexedPhoto) -> IndexedPhoto:
    """Leaves out the region of the whole photo, which has no caption."""
    return replace(photo, regions=tuple(region for region in photo.regions if region.caption))


def photo(desk: Desk, id: str) -> Answer:
    """An indexed photo with the digest of its bytes as they are now, None if they cannot be
    read."""
    indexed = desk.photo(id)
    digest = None
    with suppress(InputError):
        digest = _digest(desk, desk.file(indexed))
    regions = _regions(_only_captioned(indexed))
    return {**_place(desk, indexed), "digest": digest, "taken": indexed.taken, "regions": regions}


def _regions(photo: ImageRegions) -> list[Answer]:
    """The regions as in JSON, and whether the model is sure of each."""
    regions: list[Answer] = photo.to_dict()["regions"]
    return [
        {**plain, "sure": photo.is_sure(region)}
        for plain, region in zip(regions, photo.regions, strict=True)
    ]


def original(desk: Desk, id: str) -> str:
    """Tells where the file of a photo is; of a frame, the video."""
    return file_of(str(desk.file(desk.photo(id))))


def video(desk: Desk, id: str) -> str:
    """Where the video of a frame is."""
    path = str(desk.file(desk.photo(id)))
    if moment_of(path) is None:
        raise NotFound("this is a photo, not a frame of a video")
    return file_of(path)


def _place(desk: Desk, photo: IndexedPhoto | Hit) -> Answer:
    return {
        "id": photo.id,
        "path": desk.relative(photo.path),
        **({} if photo.time is None else {"time": photo.time}),
        "width": photo.width,
        "height": photo.height,
    }


def picture(desk: Desk, id: str, size: int) -> bytes:
    """A JPEG of a photo, its long side at most `size`: upright and without metadata."""
    return encode(
        Photo(desk.open(id), desk.model.limits).preview(size).image, "JPEG", quality=JPEG_QUALITY
    )


def teach(
    desk: Desk, photo: bytes | str, word: str, xyxy: list[float], shows: str = "yes"
) -> Answer:
    """Adds a box of a photo to the word book."""
    wanted = ToTeach(word, desk.open(photo), xyxy, shows == "yes")
    (lesson,), _ = learn(desk.model.own, [wanted])
    return lesson.to_dict()


def words(desk: Desk) -> Answer:
    return {"words": [report.to_dict() for report in desk.model.taught_words()]}


def forget(desk: Desk, word: str) -> Answer:
    desk.model.forget(word)
    return words(desk)


def unsure(desk: Desk, top: int = 20, folder: str = "") -> Answer:
    """The regions of the folder that would teach the most."""
    if desk.model.taught is None:
        raise UsageError("the server runs without a word book")
    regions = desk.searched().least_sure(top=top, folder=folder)
    return {
        "regions": [{**region.to_dict(), "path": desk.relative(region.path)} for region in regions]
    }


TASKS: dict[str, Callable[..., Any]] = {
    "caption": _asking(Model.__call__),
    **{name: _asking(_ask_own(name)) for name in ("describe", "align", "find")},
    "live": _asking(partial(Model.__call__, **LIVE_OPTIONS), lambda desk: desk.quick_model),
    **{
        task.__name__: task
        for task in (
            about,
            identify,
            like,
            search,
            captions,
            photos,
            photo,
            picture,
            original,
            video,
        )
    },
    **{task.__name__: task for task in (teach, words, forget, unsure)},
}
