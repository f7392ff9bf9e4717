"""The server under load, and its end (row 20 of what it survives)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvicorn
from hostile_files import encode
from starlette.responses import JSONResponse

from conftest import draw_scene
from http_server import FORM, RunningServer, multipart, serving
from regiontalk.cli.main import run
from regiontalk.serve.server import Uvicorn, listen

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


def test_it_answers_while_its_workers_start(tiny_model: Path) -> None:
    with serving("--model", tiny_model, "--workers", "1") as server:
        (worker,) = wait_for_children(server)
        os.kill(worker, signal.SIGSTOP)  # as if it took long to start
        health = server.get("/api/health").json
        assert (health["status"], health["model"]) == ("starting", None)
        assert server.get("/").status == 200
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(server.post, "/api/caption", SCENE)
            assert server.get("/api/health").json["status"] == "starting"
            os.kill(worker, signal.SIGCONT)
            assert waiting.result().status == 200, "a request waits for the model"
        assert server.get("/api/health").json["status"] == "ok"


def wait_for_children(server: RunningServer) -> list[int]:
    """Its workers, without the process that `multiprocessing` starts to tidy up."""
    while True:
        pids = [pid for pid in children(server) if "spawn_main" in command_of(pid)]
        if pids:
            return pids
        time.sleep(0.01)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_model_that_cannot_be_loaded_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.json").write_text("{}")
    assert run(["serve", "--no-open", "--port", "0", "--model", str(tmp_path)]) == 6
    assert capsys.readouterr().err.splitlines()[-1].startswith("regiontalk: ")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_and_takes_its_processes_with_it(
    aligning_model: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """Requests that are under way, or have only just arrived, are answered."""
    draw_scene().save(tmp_path / "a.png")
    head = f"POST /api/caption HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: 5000\r\n\r\n--"
    with (
        serving(tmp_path, "--model", aligning_model, "--workers", "2") as server,
        contextlib.ExitStack() as stack,
    ):

        def begin_upload() -> socket.socket:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(head.encode())
            return connection

        connections, started = [begin_upload()], children(server)
        assert server.get("/api/health").status == 200  # the upload is under way
        server.process.send_signal(
            signal.SIGSTOP
        )  # so that it finds the next one and its end at once
        connections.append(begin_upload())
        server.process.send_signal(how)
        server.process.send_signal(signal.SIGCONT)
        assert server.process.wait(timeout=5) == {signal.SIGTERM: 0, signal.SIGINT: 130}[how]
        assert_gone(started)
        for connection in connections:
            assert connection.recv(100).startswith(b"HTTP/1.1 503 ")
        server.stop()
        assert "Traceback" not in server.said


def test_it_ends_quietly_while_its_model_is_loaded(tiny_model: Path) -> None:
    with serving("--model", tiny_model, "--workers", "1") as server:
        (worker,) = wait_for_children(server)
        os.kill(worker, signal.SIGSTOP)  # as if it took long to start
        assert server.get("/api/health").json["status"] == "starting"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0
        server.stop()
        assert "Traceback" not in server.said


def test_what_arrived_before_the_end_is_answered() -> None:
    """Also a connection that was not yet accepted, and a request on an open one that was not yet
    read."""

    async def end() -> list[bytes]:
        with listen("127.0.0.1", 0) as listening, contextlib.ExitStack() as stack:
            config = uvicorn.Config(
                JSONResponse({"status": "ok"}), log_level="error", lifespan="off"
            )
            server = Uvicorn(config, ready=lambda _: None)
            config.load()
            server.lifespan = config.lifespan_class(config)
            await server.startup([listening])
            connect = functools.partial(socket.create_connection, listening.getsockname())
            opened = stack.enter_context(connect())
            while not server.server_state.connections:
                await asyncio.sleep(0)
            connections = [opened, stack.enter_context(connect())]
            for connection in connections:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await server.shutdown([listening])
            return [connection.recv(100) for connection in connections]

    assert [answer[:13] for answer in asyncio.run(end())] == [b"HTTP/1.1 200 "] * 2


def test_its_processes_end_when_it_is_killed(tiny_model: Path) -> None:
    with serving("--model", tiny_model, "--workers", "2") as server:
        server.wait_for_health(lambda _: True)
        server.post("/api/caption", SCENE)
        started = children(server)
        assert len(started) >= 2
        priorities = [os.getpriority(os.PRIO_PROCESS, pid) for pid in started]
        assert max(priorities) > os.getpriority(os.PRIO_PROCESS, server.process.pid), (
            "workers give way to the server"
        )
        server.process.kill()
        server.process.wait()
        assert_gone(started)


KILLED_SERVER = """
import multiprocessing, os, signal
import misbehaving
from regiontalk.serve.processes import Child
from regiontalk.serve.settings import Settings

if __name__ == "__main__":
    child = Child(misbehaving.sleep, Settings())
    child.receive()
    print(multiprocessing.active_children()[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_busy_ends_when_the_server_is_killed(tmp_path: Path) -> None:
    """It does not notice by itself: it neither reads nor writes the connection."""
    script = tmp_path / "killed_server.py"
    script.write_text(KILLED_SERVER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert_gone([int(done.stdout)])


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
