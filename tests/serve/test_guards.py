"""Who may call the server, and what its answers carry (row 17 of what it survives)."""

from __future__ import annotations

import socket

import pytest
from hostile_files import encode

from conftest import draw_scene
from http_server import FORM, RunningServer, multipart

FORM_OF_SCENE = multipart(encode(draw_scene(), "JPEG"))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"])
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
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(server: RunningServer, headers: dict[str, str]) -> None:
    posted = server.ask("POST", "/api/caption", FORM_OF_SCENE, {"Content-Type": FORM, **headers})
    put = server.put("/api/photos/1/regions", {"regions": []}, **headers)
    assert [posted.status, put.status] == [403, 403]
    assert "another site" in posted.error


def test_the_own_page_may(server: RunningServer) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert server.ask("POST", "/api/caption", FORM_OF_SCENE, {"Content-Type": FORM, **own}).status == 200


@pytest.mark.parametrize("path", ["/", "/api/health", "/openapi.json", "/nothing", "/page/app.js"])
def test_every_answer_carries_the_policy_and_no_cors(server: RunningServer, path: str) -> None:
    headers = server.get(path, Origin="http://evil.example").headers
    assert headers["content-security-policy"].startswith("default-src 'self'; img-src 'self' blob: data:")
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
