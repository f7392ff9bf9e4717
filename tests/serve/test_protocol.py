"""What a connection may cost: unfinished requests, tiny chunks, answers that nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator

import pytest
import uvicorn
from hostile_files import encode
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from conftest import draw_scene
from http_server import FORM, RunningServer, multipart
from regiontalk.serve import protocol
from regiontalk.serve.protocol import FREE_CHUNKS, TINY_BYTES, Protocol

HEALTH = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = (
    f"POST /api/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
).encode()


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def answer(connection: socket.socket) -> bytes:
    """All until the server ends the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):  # it does not read all of what is refused
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def status_and_error(connection: socket.socket) -> tuple[int, str]:
    """Of an answer that ends its connection."""
    head, _, body = answer(connection).partition(b"\r\n\r\n")
    assert b"content-security-policy" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


def test_a_body_in_tiny_chunks_is_refused(server: RunningServer) -> None:
    """Each chunk takes as long to read as a kilobyte, and all requests wait for it."""
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(CHUNKED + b"1\r\nx\r\n" * 100_000)
        assert status_and_error(connection)[0] == 400


def test_a_body_in_chunks_of_a_good_size_is_read(server: RunningServer) -> None:
    body = multipart(encode(draw_scene(), "JPEG") + bytes(TINY_BYTES * 4 * FREE_CHUNKS))
    size = 2 * TINY_BYTES
    chunks = (body[start : start + size] for start in range(0, len(body), size))
    answer = server.ask("POST", "/api/caption", chunks, {"Content-Type": FORM})
    assert answer.status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\0\x01\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        HEALTH.replace(b"Host", b"Content-Length: 1\r\nContent-Length: 2\r\nHost"),
        HEALTH.replace(b"Host", b"Host: evil.example\r\nHost"),
        HEALTH.replace(b"Host", b"Content-Length: " + b"9" * 5000 + b"\r\nHost"),
        HEALTH.replace(b"Host", b"X: " + b"x" * 200_000 + b"\r\nHost"),
        HEALTH.replace(b"health", b"search?q=" + b"x" * 200_000),
        CHUNKED + b"-5\r\nabcde\r\n",
        CHUNKED + b"1;" + b"x" * 200_000,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 50_000,
    ],
)
def test_what_is_no_http_is_refused_in_json(server: RunningServer, request_bytes: bytes) -> None:
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request_bytes)
        assert status_and_error(connection)[0] == 400
    assert server.get("/api/health").status == 200


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_requests_in_one_packet_are_answered_in_turn(server: RunningServer, version: bytes) -> None:
    request = HEALTH.replace(b"1.1", version)
    with connect(server) as connection:
        connection.sendall(
            request * 20 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        count = answer(connection).count(b"HTTP/1.1 200 OK")
    assert count == (21 if version == b"1.1" else 1)


def test_a_request_to_upgrade_is_answered_as_usual(server: RunningServer) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert server.get("/api/health", **headers).status == 200


@pytest.fixture
def served() -> Iterator[tuple[uvicorn.Server, asyncio.Runner]]:
    """A server in this process, and the loop that runs it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse({"long": "x" * 3_000_000})(scope, receive, send)

    config = uvicorn.Config(app, http=Protocol, log_level="error", lifespan="off")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with asyncio.Runner() as runner, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        runner.run(server.startup([listening]))
        yield server, runner
        runner.run(server.shutdown([listening]))


async def talk(server: uvicorn.Server, request: bytes) -> bytes:
    """All that the server answers."""
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\nHo", b"GET / HTTP/1.1\rHost:"])
def test_a_head_that_does_not_arrive_is_given_up(
    served: tuple[uvicorn.Server, asyncio.Runner], begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)
    server, runner = served
    received = runner.run(talk(server, begun))
    assert received[:13] == (b"HTTP/1.1 408 " if begun else b"")


def test_a_second_head_is_given_up_too(
    served: tuple[uvicorn.Server, asyncio.Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)
    server, runner = served

    async def two_requests() -> bytes:
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 23)
        writer.write(HEALTH)
        await reader.readuntil(b'"}')
        writer.write(b"GET / HT")
        received = await reader.read()
        writer.close()
        return received

    assert runner.run(two_requests()).startswith(b"HTTP/1.1 408 ")


def test_the_longest_waiting_connection_makes_room(
    served: tuple[uvicorn.Server, asyncio.Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 4)
    server, runner = served

    async def fill() -> bytes:
        port = server.servers[0].sockets[0].getsockname()[1]
        opened = []
        for _ in range(20):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(b"GET / HTTP/1.1\r\n")
            await asyncio.sleep(0.01)
        assert len(server.server_state.connections) <= 4
        newest, writer = opened[-1]
        writer.write(b"Host: localhost\r\n\r\n")
        received = await newest.read(100)
        for _, writer in opened:
            writer.close()
        return received

    assert runner.run(fill()).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_ends_its_connection(
    served: tuple[uvicorn.Server, asyncio.Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS", 0.1)
    server, runner = served

    async def never_read() -> None:
        port = server.servers[0].sockets[0].getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(HEALTH * 5)
            while not server.server_state.connections:
                await asyncio.sleep(0.01)
            while server.server_state.connections:
                await asyncio.sleep(0.01)

    runner.run(asyncio.wait_for(never_read(), 60))
