"""Checks of every request, and headers of every answer."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regiontalk.errors import RegionTalkError
from regiontalk.serve.answers import Refused, error_response
from regiontalk.serve.metrics import Metrics
from regiontalk.serve.workers import Busy, OwnFault

POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
VIDEO = re.compile(r"/api/photos/[^/]+/video")
ONE_RANGE = re.compile(rb"bytes=\d{1,18}-(\d{1,18})?")
READING = ("GET", "HEAD")
PAGE = "/"
DRAIN_SECONDS, DRAIN_BYTES = (
    5.0,
    1 << 27,
)  # limits for reading a rejected body, so that its sender sees the answer
LAST_DRAIN_SECONDS = 0.5  # the same when the server shuts down
MAX_DRAINS = 4  # at a time; the others wait, so that the health call is answered quickly


class Guards:
    """An ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], metrics: Metrics) -> None:
        self._app = app
        self._hosts = hosts
        self._metrics = metrics
        self._draining = asyncio.Semaphore(MAX_DRAINS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._draining)
        began = time.monotonic()
        exchange.may_be_part = _may_be_part(scope)

        async def refuse(error: RegionTalkError) -> None:
            await error_response(error)(scope, exchange.receive, exchange.send)

        try:
            self._check(scope["method"], scope["path"], Headers(scope=scope))
            scope["headers"] = _without_range(scope)
            await self._app(scope, exchange.receive, exchange.send)
        except RegionTalkError as error:
            await refuse(error)
        except asyncio.CancelledError:  # only by uvicorn, when the server shuts down
            exchange.drain_seconds = LAST_DRAIN_SECONDS
            if not exchange.status:
                await refuse(Busy("the server is shutting down"))
        except Exception:
            logging.getLogger("uvicorn.error").exception("an internal error")
            await refuse(OwnFault("an internal error; see the log of the server"))
        finally:
            self._metrics.add(scope.get("call", "other"), exchange.status, time.monotonic() - began)

    def _check(self, method: str, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if _without_port(host) not in self._hosts:
            hint = "regiontalk serve --allow-host NAME adds a name"
            raise Refused(400, f"this server is not called {host[:100]!r}", hint=hint)
        if method in READING and path == PAGE:  # a link on another site may lead to it
            return
        is_foreign = any(_host_of(origin) != host.lower() for origin in headers.getlist("origin"))
        if is_foreign or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Refused(403, "requests from another site are not allowed")


def _may_be_part(scope: Scope) -> bool:
    """Videos alone are so large that parts of them are of use."""
    return bool(VIDEO.fullmatch(scope["path"]))


def _without_range(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The headers of a request for a whole file, or for one part of a video. Other ranges are not
    passed on: starlette's errors about them are no JSON."""
    return [
        (name, value)
        for name, value in scope["headers"]
        if name != b"range" or (_may_be_part(scope) and ONE_RANGE.fullmatch(value))
    ]


def _host_of(origin: str) -> str | None:
    """Host and port of an Origin header; None if it is not a valid address, such as `http://[`."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


class _Exchange:
    """Adds the headers, and reads the rest of the request's body before the answer ends.

    Otherwise the connection would be reset while the sender still writes, and the answer would be
    lost.
    """

    def __init__(self, receive: Receive, send: Send, draining: asyncio.Semaphore) -> None:
        self._receive = receive
        self._send = send
        self._draining = draining
        self.status = 0
        self.drain_seconds = DRAIN_SECONDS
        self._whole = False
        self.may_be_part = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if "accept-ranges" in headers and not self.may_be_part:
                del headers["accept-ranges"]
            headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
        if (
            message["type"] == "http.response.body"
            and not message.get("more_body")
            and not self._whole
        ):
            await self._send({**message, "more_body": True})
            try:
                await self._drain()
            finally:
                await self._send({"type": "http.response.body"})
        else:
            await self._send(message)

    async def _drain(self) -> None:
        left = DRAIN_BYTES
        with suppress(TimeoutError):
            async with self._draining, asyncio.timeout(self.drain_seconds):
                while not self._whole and left > 0:
                    left -= len((await self.receive()).get("body", b""))
