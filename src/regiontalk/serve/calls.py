"""The calls of the API: one table of them, which the routes and the OpenAPI description are made
from."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

import regiontalk
from regiontalk.errors import ImageError, UsageError
from regiontalk.io.files import parse_json
from regiontalk.lab.data.records import Record
from regiontalk.results import Shown
from regiontalk.search.index import Index
from regiontalk.serve import inputs
from regiontalk.serve.answers import Refused, json_response
from regiontalk.serve.corrections import Correction, Corrections, PhotoFacts
from regiontalk.serve.indexing import Indexing
from regiontalk.serve.inputs import ADDRESS, Schemas, Upload
from regiontalk.serve.settings import Settings
from regiontalk.serve.tasks import NotFound
from regiontalk.serve.workers import Workers

MOST_UPLOADS = 8  # requests with a body at a time: they are held in memory
LARGEST_CACHE = 64_000_000  # bytes of pictures
MAX_CAPTIONS = 20  # of an answer, unless more are wanted
THUMBNAIL = 400  # pixels of the long side

VIDEO = "/api/photos/{id}/video"
PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
COUNT = {"type": "integer", "minimum": 1, "maximum": 1000}
TEXT = {"type": "string", "minLength": 1, "maxLength": 1000, "required": True}
ID = {
    "type": "string",
    "maxLength": 64,
    "description": "The id of a photo of the index, instead of a file.",
}
BOX = {
    "type": "string",
    "maxLength": 200,
    "required": True,
    "description": "left,top,right,bottom in pixels",
}
DATE = {
    "type": "string",
    "pattern": r"^(\d{4}(-\d\d(-\d\d)?)?)?$",
    "description": "A year, month or day: 2021, 2021-05, 2021-05-30",
}
AS_TYPED = {
    "type": "boolean",
    "description": "Correct no typing mistakes, and take no synonyms.",
}
FILTERS: Schemas = {
    "folder": {"type": "string", "maxLength": 1000},
    "after": DATE,
    "before": DATE,
}
CAPTION_FILTER = {
    "type": "string",
    "maxLength": 1000,
    "description": "Only photos that show this caption.",
}
STARTING = {"model": None, "terms": None, "threshold": Shown.threshold, "confidence": 0.0}
"""What the health call says about a model that is not loaded yet."""
NAMES = {"q": "query", "after": "since", "before": "until"}
"""Names of values that tasks call differently."""


class Pictures:
    """A cache of the most recent JPEGs."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, id: str, size: int) -> bytes | None:
        if (id, size) in self._kept:
            self._kept.move_to_end((id, size))
        return self._kept.get((id, size))

    def put(self, id: str, size: int, picture: bytes) -> None:
        self._bytes += len(picture) - len(self._kept.pop((id, size), b""))
        self._kept[id, size] = picture
        while self._bytes > LARGEST_CACHE:
            self._bytes -= len(self._kept.popitem(last=False)[1])


@dataclass
class Server:
    """The state that handlers share. `about`: what the first worker reports about the model; None
    while it starts."""

    settings: Settings
    workers: Workers
    indexing: Indexing
    about: dict[str, Any] | None = None
    pictures: Pictures = field(default_factory=Pictures)
    uploads: int = 0

    def __post_init__(self) -> None:
        folder = self.settings.folder
        place = self.settings.place
        self.corrections = (
            None if folder is None else Corrections.of(Index.open(folder, place=place))
        )

    @asynccontextmanager
    async def upload(self) -> AsyncIterator[None]:
        """Holds a slot for a request with a body, from before it is read until it is answered."""
        if self.uploads >= MOST_UPLOADS:
            raise self.workers.refusal()
        self.uploads += 1
        try:
            yield
        finally:
            self.uploads -= 1

    def saved(self) -> Corrections:
        if self.corrections is None:
            raise NotFound("there is no folder to save it in", hint="regiontalk serve FOLDER")
        return self.corrections


Handler = Callable[[Server, Request, dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Call:
    """One call: what it does, the name of its answer's schema, and the values that it takes."""

    method: str
    path: str
    does: str
    answer: str
    handler: Handler
    query: Schemas = field(default_factory=dict)
    form: Schemas | None = None
    """The other fields of a call that takes a photo."""

    async def respond(self, server: Server, request: Request) -> Response:
        request.scope["call"] = self.path
        values = inputs.read_values(
            request.query_params, self.query if self.form is None else _either(self)
        )
        answer = await self.handler(server, request, values)
        return answer if isinstance(answer, Response) else json_response(answer)


def _either(call: Call) -> Schemas:
    """Values can be given in the form or in the query."""
    fields = {name: {**schema, "required": False} for name, schema in (call.form or {}).items()}
    return {**call.query, **fields, "id": ID}


async def health(server: Server, _: Request, __: object) -> Any:
    folder = server.settings.folder
    indexing = server.indexing
    return {
        "status": "starting" if server.about is None else "ok",
        "version": regiontalk.__version__,
        **(server.about or STARTING),
        "folder": None if folder is None else str(folder),
        "photos": indexing.photos,
        "indexing": indexing.progress,
        "updates": indexing.updates,
        "problem": indexing.problem or None,
    }


@asynccontextmanager
async def _given(
    server: Server, request: Request, call: Call
) -> AsyncIterator[tuple[Upload | str, dict[str, Any]]]:
    """The photo of a request, uploaded or by its id, and the other values of query and form."""
    async with server.upload():
        form = await inputs.read_form(request, server.settings)
        fields = {**request.query_params, **form}
        schemas = {**call.query, **(call.form or {})}
        id = fields.get("id")
        if isinstance(id, str) and ADDRESS.match(id):
            raise ImageError(
                "id: an address, not a photo; addresses are not fetched",
                hint="upload the photo itself",
            )
        if "photo" in fields and "id" in fields:
            raise UsageError("give a photo or an id, not both")
        photo = id if isinstance(id, str) else await inputs.read_upload(form)
        yield photo, inputs.read_values(fields, schemas, ("photo", "id"))


def _looking(task: str, does: str, answer: str, query: Schemas, form: Schemas) -> Call:
    """A call that runs a task on a photo."""

    async def look(server: Server, request: Request, _: object) -> Any:
        async with _given(server, request, call) as (photo, values):
            if "xyxy" in values:
                values["xyxy"] = inputs.read_box(values["xyxy"])
            options = {NAMES.get(name, name): value for name, value in values.items()}
            source = photo.data if isinstance(photo, Upload) else photo
            answer = await server.workers.ask(
                task, request.is_disconnected, photo=source, **options
            )
        return (
            {**answer, "path": photo.name}
            if isinstance(photo, Upload) and "path" in answer
            else answer
        )

    call = Call("POST", f"/api/{task}", does, answer, look, query, form)
    return call


async def search(server: Server, _: Request, values: dict[str, Any]) -> Any:
    return await server.workers.ask(
        "search", **{NAMES.get(name, name): value for name, value in values.items()}
    )


async def photos(server: Server, _: Request, values: dict[str, Any]) -> Any:
    options = {NAMES.get(name, name): value for name, value in values.items()}
    answer = await server.workers.ask("photos", **{"offset": 0, "limit": 50, **options})
    if not values.keys() & {*FILTERS, "caption"}:
        server.indexing.photos = answer["total"]  # other processes may write the index
    return answer


async def captions(server: Server, _: Request, values: dict[str, Any]) -> Any:
    return await server.workers.ask("captions", **{"top": MAX_CAPTIONS, **values})


async def photo(server: Server, request: Request, _: object) -> Any:
    answer, facts = await _found_and_facts(server, request.path_params["id"])
    record, is_replaced = await asyncio.to_thread(server.saved().read, facts)
    if record is not None:
        return _corrected(answer, record)
    return {**answer, "corrected": False, "replaced": is_replaced}


async def _found_and_facts(server: Server, id: str) -> tuple[dict[str, Any], PhotoFacts]:
    """A photo of the index, and what its correction belongs to."""
    answer = await server.workers.ask("photo", id=id)
    facts = _facts(server, answer)
    _, is_replaced = await asyncio.to_thread(server.saved().read, facts)
    if is_replaced and facts.digest is not None:  # perhaps only its metadata have changed
        _, facts = await _indexed(server, id)
    return answer, facts


def _facts(server: Server, answer: dict[str, Any]) -> PhotoFacts:
    """What the corrections need of an indexed photo. Its digest is not sent to the client."""
    size = (answer["width"], answer["height"])
    return PhotoFacts(_name_in_records(server, answer), answer.pop("digest"), size)


def _name_in_records(server: Server, answer: dict[str, Any]) -> str:
    assert server.settings.folder is not None
    return server.saved().name_of(server.settings.folder / answer["path"])


async def _indexed(server: Server, id: str) -> tuple[dict[str, Any], PhotoFacts]:
    """A photo of the index and its bytes of now, which somebody saw and corrects."""
    answer = await server.workers.ask("photo", id=id)
    digest, (width, height), pixels = await server.workers.ask("identify", photo=id)
    facts = PhotoFacts(_name_in_records(server, answer), digest, (width, height), pixels)
    del answer["digest"]
    return {**answer, "width": width, "height": height}, facts


def _corrected(answer: dict[str, Any], record: Record) -> dict[str, Any]:
    regions = [
        {"id": number, "xyxy": list(region.xyxy), "caption": region.phrase}
        for number, region in enumerate(record.regions)
    ]
    return {**answer, "regions": regions, "corrected": True, "replaced": False}


async def correct(server: Server, request: Request, _: object) -> Any:
    async with server.upload():
        body = await inputs.read_regions(request, server.settings)
        correction = await asyncio.to_thread(lambda: Correction.of(parse_json(body, "the request")))
        answer, facts = await _indexed(server, request.path_params["id"])
        record = await asyncio.to_thread(server.saved().save, facts, correction)
    return _corrected(answer, record)


async def forget(server: Server, request: Request, _: object) -> Any:
    answer, facts = await _found_and_facts(server, request.path_params["id"])
    await asyncio.to_thread(server.saved().delete, facts)
    return {**answer, "corrected": False, "replaced": False}


async def original(server: Server, request: Request, _: object) -> Response:
    path = await server.workers.ask("original", id=request.path_params["id"])
    name = os.fsencode(os.path.basename(path)).decode(errors="replace")  # noqa: PTH119
    return FileResponse(path, filename=name, media_type="application/octet-stream")


async def video(server: Server, request: Request, _: object) -> Response:
    path = await server.workers.ask("video", id=request.path_params["id"])
    begin, _, end = request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
    size = Path(path).stat().st_size
    if int(begin) >= size or int(end or size) < int(begin):  # `Guards` lets nothing else through
        raise Refused(416, f"the video has {size} bytes")
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return FileResponse(path, media_type=kind)


async def keep(server: Server, request: Request, _: object) -> Any:
    """Does what `correct` does for a photo that was dropped on the page; a copy of it is saved."""
    saved = server.saved()
    async with _given(server, request, KEEP) as (photo, values):
        text = values["regions"].encode(errors="replace")
        correction = await asyncio.to_thread(
            lambda: Correction.of({"regions": parse_json(text, "regions")})
        )
        if isinstance(photo, str):
            answer, facts = await _indexed(server, photo)
        else:
            digest, size, pixels = await server.workers.ask("identify", photo=photo.data)
            answer = {"id": None, "path": photo.name, "width": size[0], "height": size[1]}
            image = await asyncio.to_thread(saved.keep, photo.data)
            facts = PhotoFacts(image, digest, size, pixels)
        record = await asyncio.to_thread(saved.save, facts, correction)
    return _corrected(answer, record)


async def image(server: Server, request: Request, values: dict[str, Any]) -> Response:
    id = request.path_params["id"]
    size = values.get("size", 1600)
    picture = server.pictures.get(id, size)
    if picture is None:
        picture = await server.workers.ask("picture", id=id, size=size)
        server.pictures.put(id, size, picture)
    return Response(
        picture,
        media_type="image/jpeg",
        headers={"Cache-Control": "private, max-age=86400, immutable"},
    )


async def thumbnail(server: Server, request: Request, _: object) -> Response:
    return await image(server, request, {"size": THUMBNAIL})


async def words(server: Server, _: Request, __: object) -> Any:
    return await server.workers.ask("words")


async def forget_word(server: Server, _: Request, values: dict[str, Any]) -> Any:
    return await server.workers.ask("forget", **values)


async def unsure(server: Server, _: Request, values: dict[str, Any]) -> Any:
    return await server.workers.ask("unsure", **values)


WORD = {**TEXT, "maxLength": 1000}
SHOWS = {
    "type": "string",
    "pattern": "^(yes|no)$",
    "description": "yes; or no: the box does not show what the word means",
}
CAPTION = {
    "threshold": PROBABILITY,
    "top": COUNT,
    "words": {**COUNT, "maximum": 100},
    "confidence": PROBABILITY,
}
FIND = {"threshold": PROBABILITY, "top": COUNT}
DESCRIBE = {"alternatives": {**COUNT, "minimum": 0, "maximum": 20}}
PAGES = {"offset": {**COUNT, "minimum": 0, "maximum": 10**9}, "limit": {**COUNT, "maximum": 500}}
KEEP = Call(
    *("POST", "/api/records", "Save a dropped photo with corrected regions.", "Photo", keep),
    form={
        "regions": {
            **TEXT,
            "maxLength": inputs.LARGEST_FIELD,
            "description": "JSON: a list of Marked",
        }
    },
)
CALLS = (
    Call("GET", "/api/health", "State of the server; answers at once.", "Health", health),
    _looking("caption", "The regions of a photo, with captions.", "Regions", CAPTION, {}),
    _looking(
        "live",
        "The shown regions of a camera's picture: by the fast model, at a small size.",
        "Regions",
        {},
        {},
    ),
    _looking("describe", "One sentence for a photo.", "Description", DESCRIBE, {}),
    _looking(
        "align",
        "Which words of a sentence belong to which region.",
        "Alignment",
        {},
        {"sentence": TEXT},
    ),
    _looking(
        "find", "The regions that show what a phrase says.", "Finding", FIND, {"phrase": TEXT}
    ),
    _looking(
        "like",
        "Photos with a region similar to a box of this photo.",
        "Hits",
        {},
        {"xyxy": BOX, "top": COUNT, **FILTERS},
    ),
    Call(
        "GET",
        "/api/search",
        "Photos that show what a phrase says.",
        "Hits",
        search,
        {"q": TEXT, "top": COUNT, **FILTERS, "as_typed": AS_TYPED},
    ),
    Call(
        "GET",
        "/api/captions",
        "The captions that most photos show.",
        "Captions",
        captions,
        {"top": COUNT},
    ),
    Call(
        *("GET", "/api/photos", "The photos of the index, newest first.", "Photos", photos),
        {**PAGES, "caption": CAPTION_FILTER, **FILTERS},
    ),
    Call("GET", "/api/photos/{id}", "A photo of the index.", "Photo", photo),
    Call("PUT", "/api/photos/{id}/regions", "Save corrected regions of a photo.", "Photo", correct),
    Call(
        *("DELETE", "/api/photos/{id}/correction", "Delete the correction of a photo."),
        *("Photo", forget),
    ),
    Call(
        *("GET", "/api/photos/{id}/file", "The photo's file, as it is."),
        *("application/octet-stream", original),
    ),
    Call(
        *("GET", VIDEO, "The video that a frame is from; parts of it, too (Range)."),
        *("application/octet-stream", video),
    ),
    Call(
        *("GET", "/api/photos/{id}/image", "The photo, without its metadata.", "image/jpeg", image),
        {"size": {**COUNT, "minimum": 16, "maximum": 4096}},
    ),
    Call("GET", "/api/photos/{id}/thumbnail", "A thumbnail of the photo.", "image/jpeg", thumbnail),
    KEEP,
    _looking(
        "teach",
        "Teach a word with a box of a photo; it is used from then on.",
        "Lesson",
        {},
        {"word": WORD, "xyxy": BOX, "shows": SHOWS},
    ),
    Call("GET", "/api/words", "The taught words, weak ones first.", "Words", words),
    Call("DELETE", "/api/word", "Forget a taught word.", "Words", forget_word, {"word": WORD}),
    Call(
        *("GET", "/api/unsure", "The regions that would teach the most.", "Unsure", unsure),
        {"top": {**COUNT, "maximum": 100}, "folder": FILTERS["folder"]},
    ),
)
