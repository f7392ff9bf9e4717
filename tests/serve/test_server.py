"""The server under load, and its end (row 20 of what it survives)."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hostile_files import encode

from conftest import draw_scene
from http_server import FORM, RunningServer, multipart, serving
from regiontalk.cli.main import run

SCENE = encode(draw_scene((1600, 1200)), "JPEG")


def children(server: RunningServer) -> list[int]:
    tasks = Path(f"/proc/{server.process.pid}/task")
    return [int(pid) for file in tasks.glob("*/children") for pid in file.read_text().split()]


def test_more_uploads_than_it_can_take_are_told_to_come_back(tiny_model: Path) -> None:
    with serving("--model", tiny_model, "--workers", "1") as server:

        def upload(_: int) -> int:
            answer = server.post("/api/caption", SCENE)
            assert answer.status == 200 or int(answer.headers["retry-after"]) > 0
            return answer.status

        def disconnect(_: int) -> int:
            connection = server.connect()
            connection.request("POST", "/api/caption", multipart(SCENE), {"Content-Type": FORM})
            connection.close()
            return 0

        with ThreadPoolExecutor(40) as threads:
            threads.map(disconnect, range(10))
            statuses = Counter(threads.map(upload, range(60)))
            assert server.get("/api/health").status == 200
        assert set(statuses) <= {200, 503}
        tries = (upload(number) for number in range(100) if not time.sleep(0.1))
        assert 200 in tries, "it never recovers"
        assert server.stop() == 0
        assert "Traceback" not in server.said


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_and_takes_its_processes_with_it(
    aligning_model: Path, tmp_path: Path, how: signal.Signals
) -> None:
    draw_scene().save(tmp_path / "a.png")
    head = f"POST /api/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: 5000\r\n\r\n--"
    with (
        serving(tmp_path, "--model", aligning_model, "--workers", "2") as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(head.encode())  # a request that is under way
        started = children(server)
        server.process.send_signal(how)
        assert server.process.wait(timeout=5) == {signal.SIGTERM: 0, signal.SIGINT: 130}[how]
        assert_gone(started)
        with contextlib.suppress(ConnectionResetError):  # the answer may be lost with what the server left unread
            assert connection.recv(100).startswith(b"HTTP/1.1 503 ")
        server.stop()
        assert "Traceback" not in server.said


def test_its_processes_end_when_it_is_killed(tiny_model: Path) -> None:
    with serving("--model", tiny_model, "--workers", "2") as server:
        started = children(server)
        assert len(started) >= 2
        server.process.kill()
        server.process.wait()
        assert_gone(started)


def assert_gone(pids: list[int]) -> None:
    for _ in range(400):
        if not any(is_running(pid) for pid in pids):
            return
        time.sleep(0.05)
    raise AssertionError(pids)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_taken_port_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["serve", "--no-open", "--port", str(taken.getsockname()[1])]) == 2
    assert "--port 0" in capsys.readouterr().err
