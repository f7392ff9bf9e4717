"""Who may call the server, and what its answers carry (row 17 of what it survives)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import MutableMapping
from typing import Any

import pytest
from hostile_files import encode
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from conftest import draw_scene
from http_server import FORM, RunningServer, multipart
from regiontalk.serve.guards import Guards
from regiontalk.serve.metrics import Metrics

FORM_OF_SCENE = multipart(encode(draw_scene(), "JPEG"))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"]
)
@pytest.mark.parametrize("path", ["/", "/api/health", "/page/app.js", "/nothing"])
def test_a_foreign_host_is_refused(server: RunningServer, host: str, path: str) -> None:
    answer = server.get(path, Host=host)
    assert answer.status == 400
    assert "not called" in answer.error


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1234", "LOCALHOST", "[::1]:80"])
def test_its_own_names_are_fine(server: RunningServer, host: str) -> None:
    assert server.get("/api/health", Host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(
    server: RunningServer, headers: dict[str, str]
) -> None:
    posted = server.ask("POST", "/api/caption", FORM_OF_SCENE, {"Content-Type": FORM, **headers})
    put = server.put("/api/photos/1/regions", {"regions": []}, **headers)
    assert [posted.status, put.status] == [403, 403]
    assert "another site" in posted.error


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "http://["}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_a_page_of_another_site_asks_nothing(
    server: RunningServer, headers: dict[str, str]
) -> None:
    """It could not read the answers, but its questions would keep the workers busy."""
    for path in ("/api/health", "/api/search?q=circle", "/api/photos", "/metrics", "/page/app.js"):
        assert server.get(path, **headers).status == 403
    assert server.get("/", **headers).status == 200, "a link to the page is fine"


def test_one_of_several_origins_is_enough(server: RunningServer) -> None:
    head = "GET /api/photos HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(f"{head}Origin: http://evil.example\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("path", ["/", "/page/app.js"])
@pytest.mark.parametrize("part", ["bytes=abc", "bytes=9999999-", "bytes=0-1,0-1", "bytes=5-9"])
def test_files_are_sent_whole(server: RunningServer, path: str, part: str) -> None:
    answer, whole = server.get(path, Range=part), server.get(path)
    assert (answer.status, answer.body) == (200, whole.body)
    assert "accept-ranges" not in answer.headers


METHODS = ("HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_every_address_is_answered_in_json(
    server: RunningServer, method: str
) -> None:
    calls = server.get("/openapi.json").json["paths"]
    pages = ("/", "/page/app.js", "/page/", "/page", "/metrics", "/openapi.json", "/nothing")
    for path in (*calls, *pages):
        answer = server.ask(method, path.replace("{id}", "guessed"))
        assert answer.status < 500
        if answer.status >= 400 and method != "HEAD":
            assert answer.error


def test_the_own_page_may(server: RunningServer) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert (
        server.ask("POST", "/api/caption", FORM_OF_SCENE, {"Content-Type": FORM, **own}).status
        == 200
    )


@pytest.mark.parametrize("path", ["/", "/api/health", "/openapi.json", "/nothing", "/page/app.js"])
def test_every_answer_carries_the_policy_and_no_cors(server: RunningServer, path: str) -> None:
    headers = server.get(path, Origin="http://evil.example").headers
    assert headers["content-security-policy"].startswith(
        "default-src 'self'; img-src 'self' blob: data:"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


def test_cors_is_not_offered(server: RunningServer) -> None:
    answer = server.ask("OPTIONS", "/api/caption", headers={"Origin": "http://evil.example"})
    assert answer.status == 403


def test_what_is_no_http_is_refused(server: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\x02\0\x01\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert server.get("/api/health").status == 200


@pytest.mark.parametrize("answers_first", [False, True])
def test_what_the_end_of_the_server_cuts_off_is_answered(answers_first: bool) -> None:
    """The rest of an upload is read: otherwise its connection is reset, and the answer lost."""
    arriving: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: list[dict[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if answers_first:
            await Response(status_code=422)(scope, receive, send)
        while True:
            await receive()

    async def cut_off() -> None:
        guards = Guards(app, frozenset(["localhost"]), Metrics())
        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/api/caption", "headers": headers}
        request = asyncio.create_task(guards(scope, arriving.get, send))
        arriving.put_nowait({"type": "http.request", "body": b"a", "more_body": True})
        while not arriving.empty():
            await asyncio.sleep(0)
        request.cancel()
        for more in (True, False):
            arriving.put_nowait({"type": "http.request", "body": b"b", "more_body": more})
        await request

    asyncio.run(cut_off())
    assert sent[0]["status"] == (422 if answers_first else 503)
    assert not sent[-1].get("more_body")
    assert arriving.empty() is not answers_first
