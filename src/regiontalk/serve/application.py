"""The calls of the API and the page, as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import regiontalk
from regiontalk.errors import RegionTalkError
from regiontalk.serve import inputs
from regiontalk.serve.guards import Guards, error_response
from regiontalk.serve.inputs import Schemas
from regiontalk.serve.settings import Settings
from regiontalk.serve.workers import Busy, Workers

PAGE = Path(__file__).parent / "page"
MOST_UPLOADS = 8  # requests with a body that are under way: so much memory is taken at most

PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
COUNT = {"type": "integer", "minimum": 1, "maximum": 1000}
SENTENCE = {"type": "string", "minLength": 1, "maxLength": 10_000, "required": True}

Handler = Callable[["Server", Request], Awaitable[Any]]


@dataclass(frozen=True)
class Call:
    """One call of the API: what the OpenAPI description says of it, and what is checked."""

    method: str
    path: str
    does: str
    handler: Handler
    query: Schemas
    form: Schemas


class Server:
    """What handlers share."""

    def __init__(self, settings: Settings, workers: Workers, about: dict[str, Any]) -> None:
        self.settings, self.workers, self.about = settings, workers, about
        self._uploads = 0

    @asynccontextmanager
    async def upload(self) -> AsyncIterator[None]:
        if self._uploads >= MOST_UPLOADS:
            self.workers.counts.refused += 1
            raise Busy("too many photos at a time", hint="try again in a moment")
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1


async def health(server: Server, _: Request) -> Any:
    folder = server.settings.folder
    return {
        "status": "ok",
        "version": regiontalk.__version__,
        "model": server.about["model"],
        "folder": None if folder is None else str(folder),
        "photos": 0,
        "indexing": None,
    }


def looking(task: str, query: Schemas, form: Schemas) -> Handler:
    """A handler that has a worker look at the photo of the request."""

    async def look(server: Server, request: Request) -> Any:
        options = inputs.read_values(request.query_params, query)
        async with server.upload():
            fields = await inputs.read_form(request, server.settings)
            options |= inputs.read_values(fields, form)
            upload = await inputs.read_upload(fields)
            answer = await server.workers.ask(task, photo=upload.data, **options)
        return {**answer, "path": upload.name}

    return look


def _looking(task: str, does: str, query: Schemas, form: Schemas) -> Call:
    return Call("POST", f"/api/{task}", does, looking(task, query, form), query, form)


CAPTION = {"threshold": PROBABILITY, "top": COUNT, "words": {**COUNT, "maximum": 100}, "confidence": PROBABILITY}
CALLS = (
    Call("GET", "/api/health", "How the server is; never waits.", health, {}, {}),
    _looking("caption", "The regions of a photo, with captions.", CAPTION, {}),
    _looking("describe", "One sentence for a photo.", {"alternatives": {**COUNT, "minimum": 0, "maximum": 20}}, {}),
    _looking("align", "Which words of a sentence belong to which region.", {}, {"sentence": SENTENCE}),
)


def build(settings: Settings, server: Server) -> Starlette:
    def endpoint(call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            found = await call.handler(server, request)
            return found if isinstance(found, Response) else JSONResponse(found)

        return answer

    async def index(_: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    routes = [Route(call.path, endpoint(call), methods=[call.method]) for call in CALLS]
    return Starlette(
        routes=[Route("/", index), Mount("/page", StaticFiles(directory=PAGE)), *routes],
        middleware=[Middleware(Guards, hosts=settings.hosts)],
        exception_handlers={RegionTalkError: _ours, HTTPException: _theirs, Exception: _unexpected},
    )


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, RegionTalkError)
    return error_response(error)


async def _theirs(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail, "hint": None}, error.status_code, error.headers)


async def _unexpected(_: Request, error: Exception) -> Response:  # noqa: ARG001  (uvicorn logs it)
    return JSONResponse({"error": "an error of the server's own; its log says more", "hint": None}, 500)
