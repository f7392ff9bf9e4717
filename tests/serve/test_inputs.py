"""Requests that are too large, too slow, empty or wrong (rows 15, 18 and 19 of what it
survives)."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hostile_files import encode
from starlette.requests import Request

from conftest import draw_scene
from http_server import BOUNDARY, FORM, RunningServer, multipart
from regiontalk.serve.answers import Refused
from regiontalk.serve.inputs import read_regions
from regiontalk.serve.settings import Settings

SCENE = encode(draw_scene(), "JPEG")
LARGE = bytes(1_100_000)


def chunks() -> Iterator[bytes]:
    """A body without a length."""
    yield multipart(b"").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    for _ in range(11):
        yield LARGE[:100_000]


def test_an_oversized_upload_is_refused_with_and_without_its_length(server: RunningServer) -> None:
    with_length = server.post("/api/caption", LARGE)
    without = server.ask("POST", "/api/caption", chunks(), {"Content-Type": FORM})
    assert [with_length.status, without.status] == [413, 413]
    assert "1 MB" in with_length.error
    assert "1 MB" in without.error


def test_an_announced_size_is_refused_before_it_arrives(server: RunningServer) -> None:
    head = f"POST /api/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: 999999999\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_regions_are_short_whatever_an_upload_may_be() -> None:
    """They are parsed in the process that answers everybody."""
    request = Request({"type": "http", "headers": [(b"content-length", b"2000000")]})
    with pytest.raises(Refused, match="larger than") as caught:
        asyncio.run(read_regions(request, Settings(megabytes=25)))
    assert caught.value.http_status == 413


def test_a_slow_body_is_given_up(server: RunningServer) -> None:
    head = f"POST /api/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: 5000\r\n\r\n--"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("headers", ["X: " + "y" * 500_000, "X: y\r\n" * 50_000 + "X: y"])
def test_long_headers_of_a_part_are_refused(server: RunningServer, headers: str) -> None:
    body = f'--{BOUNDARY}\r\n{headers}\r\nContent-Disposition: form-data; name="id"\r\n\r\nx\r\n'
    answer = server.ask(
        "POST", "/api/caption", (body + f"--{BOUNDARY}--").encode(), {"Content-Type": FORM}
    )
    assert answer.status == 400
    assert answer.error


@pytest.mark.parametrize(
    ("body", "status"), [(b"&" * 900_000, 400), (b"a=b&" * 30, 400), (b"id=" + LARGE, 413)]
)
def test_a_form_without_a_photo_is_short(server: RunningServer, body: bytes, status: int) -> None:
    """It is read in the process that answers everybody."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = server.ask("POST", "/api/caption", body, kind)
    assert (answer.status, bool(answer.error)) == (status, True)


@pytest.mark.parametrize("charset", ["punycode", "Punycode", "idna", "utf-7", "hex", "nothing", ""])
def test_other_encodings_of_a_form_are_refused(server: RunningServer, charset: str) -> None:
    """A megabyte of punycode takes minutes in the process that answers everybody."""
    kind = {"Content-Type": f'{FORM}; charset="{charset}"'}
    answer = server.ask("POST", "/api/describe", multipart(SCENE, alternatives="0"), kind)
    assert answer.status == 400
    assert answer.error


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "us-ascii", "latin-1"])
def test_usual_encodings_of_a_form_are_read(server: RunningServer, charset: str) -> None:
    kind = {"Content-Type": f"{FORM}; charset={charset}"}
    answer = server.ask("POST", "/api/describe", multipart(SCENE, alternatives="0"), kind)
    assert answer.status == 200


@pytest.mark.parametrize("part", ["photo=1", 'photo"; filename="x.jpg'])
def test_a_thousand_parts_are_refused(server: RunningServer, part: str) -> None:
    one = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{part}"\r\n\r\nx\r\n'
    answer = server.ask(
        "POST", "/api/caption", (one * 1000 + f"--{BOUNDARY}--").encode(), {"Content-Type": FORM}
    )
    assert answer.status == 400
    assert "Too many" in answer.error


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (None, None, 422),
        (multipart(), FORM, 422),
        (multipart(b""), FORM, 422),
        (multipart(b"text"), FORM, 415),
        (multipart(b"%PDF-1.4"), FORM, 415),
        (multipart(SCENE[: len(SCENE) // 2]), FORM, 422),
        (multipart(SCENE).replace(b'name="photo"', b'name="file"'), FORM, 422),
        (multipart(photo=None, photos="http://127.0.0.1/x.jpg"), FORM, 422),
        (b"id=http://127.0.0.1/x.jpg", "application/x-www-form-urlencoded", 422),
        (b"id=file:///etc/passwd", "application/x-www-form-urlencoded", 422),
        (b'{"photo": "http://127.0.0.1/x.jpg"}', "application/json", 422),
        (SCENE, "image/jpeg", 415),
        (b"half", FORM, 400),
        (multipart(SCENE), "multipart/form-data", 400),
    ],
)
def test_what_is_no_photo_is_refused(
    server: RunningServer, body: bytes | None, kind: str | None, status: int
) -> None:
    answer = server.ask(
        "POST", "/api/caption", body, {} if kind is None else {"Content-Type": kind}
    )
    assert (answer.status, bool(answer.error)) == (status, True)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/x.jpg", "file:///etc/passwd", "ftp://127.0.0.1/x.jpg"]
)
def test_nothing_is_fetched(server: RunningServer, address: str) -> None:
    as_text = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="photo"\r\n\r\n{address}\r\n--{BOUNDARY}--\r\n'
    answer = server.ask("POST", "/api/caption", as_text.encode(), {"Content-Type": FORM})
    assert answer.status == 422
    assert "addresses are not fetched" in answer.error
    assert server.post("/api/caption", id=address).status == 422


@pytest.mark.parametrize(
    "query",
    [
        *(
            "q=",
            "",
            "q=%20",
            "q=" + "dog+" * 10_000,
            "q=" + "dog+" * 251,
            "q=-circle",
        ),
        *(
            "q=circle&top=0",
            "q=circle&top=-1",
            "q=circle&top=1e9",
            "q=circle&top=nan",
            "q=circle&as_typed=perhaps",
            "q=circle&after=yesterday",
        ),
        *("q=circle&tops=3", "q=circle&before=2021-13-45-99"),
    ],
)
def test_queries_that_make_no_sense_are_refused(server: RunningServer, query: str) -> None:
    answer = server.get(f"/api/search?{query}")
    assert (answer.status, bool(answer.error)) == (422, True)


@pytest.mark.parametrize("query", ["🦄", "\0", "xyzzy plugh", "ein Hund im Schnee", "собака"])
def test_queries_that_cannot_be_read_have_an_empty_answer(
    server: RunningServer, query: str
) -> None:
    answer = server.get(f"/api/search?q={quote(query)}")
    assert (answer.status, answer.json["hits"], answer.json["searched"]) == (200, [], 0)
    assert query.strip("\0") in answer.json["notes"][0] or "xyzzy" in answer.json["notes"][0]


@pytest.mark.parametrize("query", ["circle' OR 1=1", "circle\0", "circle 🦄", 'circle" OR 1=1'])
def test_odd_queries_find_what_they_can(server: RunningServer, query: str) -> None:
    assert server.get(f"/api/search?q={quote(query)}").json["searched"] == 5


@pytest.mark.parametrize(
    "options",
    [
        "threshold=2",
        "threshold=nan",
        "top=1.5",
        "words=0",
        "confidence=x",
        "beam=3",
        "top=" + "9" * 400,
    ],
)
def test_options_out_of_range_are_refused(server: RunningServer, options: str) -> None:
    answer = server.post(f"/api/caption?{options}", SCENE)
    assert (answer.status, bool(answer.error)) == (422, True)


@pytest.mark.parametrize("box", ["1,2,3", "1,2,3,x", "1,2,nan,4", "5,5,5,5", ""])
def test_what_is_no_box_is_refused(server: RunningServer, box: str) -> None:
    answer = server.post("/api/like", SCENE, xyxy=box)
    assert (answer.status, bool(answer.error)) == (422, True)


def test_no_temporary_file_is_left(server: RunningServer) -> None:
    folder = Path(tempfile.gettempdir())
    before = set(folder.iterdir())
    server.post("/api/caption", SCENE + bytes(900_000))
    server.post("/api/caption", LARGE)
    open_files = [str(link.readlink()) for link in Path(f"/proc/{server.process.pid}/fd").glob("*")]
    assert not [name for name in open_files if name.startswith(str(folder))]
    assert set(folder.iterdir()) <= before
