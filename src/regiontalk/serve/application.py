"""The page and the API as an ASGI application."""

from __future__ import annotations

import functools
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from regiontalk.serve import openapi
from regiontalk.serve.answers import json_response
from regiontalk.serve.calls import CALLS, Server
from regiontalk.serve.guards import Guards
from regiontalk.serve.metrics import Metrics

PAGE = Path(__file__).parent / "page"
SHARED = ("regiontalk.show", "shared")  # scripts and styles that the written page has too


def build(server: Server) -> Starlette:
    metrics = Metrics()
    description = openapi.describe(CALLS)

    async def show_metrics(_: Request) -> Response:
        return Response(metrics.text(server), media_type="text/plain; version=0.0.4")

    async def show_description(_: Request) -> Response:
        return json_response(description)

    routes = [
        Route(call.path, functools.partial(call.respond, server), methods=[call.method])
        for call in CALLS
    ]
    application = Starlette(
        routes=[
            Route("/", _page),
            Route("/live", _live),
            Mount("/page", StaticFiles(directory=PAGE, packages=[SHARED])),
            Route("/openapi.json", show_description),
            Route("/metrics", show_metrics),
            *routes,
        ],
        middleware=[Middleware(Guards, hosts=server.settings.hosts, metrics=metrics)],
        exception_handlers={HTTPException: _theirs},
    )
    application.router.redirect_slashes = False
    return application


async def _page(_: Request) -> Response:
    return FileResponse(PAGE / "index.html")


async def _live(_: Request) -> Response:
    return FileResponse(PAGE / "live.html")


async def _theirs(_: Request, error: Exception) -> Response:
    """Errors of starlette: unknown addresses and methods. `Guards` answers our own."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return json_response({"error": error.detail, "hint": None}, error.status_code, headers)
