"""`regiontalk serve` as a process of its own, and requests to it that no library tidies up."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BOUNDARY = "a-boundary"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The error's sentence, which goes with a status that says so."""
        assert self.status >= 400, self
        assert set(self.json) == {"error", "hint"}
        assert "Traceback" not in self.body.decode()
        error: str = self.json["error"]
        return error


def serve_command(*arguments: str | Path) -> list[str]:
    """The command that starts a server on a free port."""
    serve = [sys.executable, "-m", "regiontalk", "serve", "--port", "0", "--no-open"]
    return [*serve, *map(str, arguments)]


class RunningServer:
    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            serve_command(*arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = ""
        while not (address := re.search(r"http://127\.0\.0\.1:(\d+)/", self.said)):
            line = self.process.stderr.readline()
            if not line:
                self.stop()
                raise AssertionError(self.said)
            self.said += line
        self.port = int(address[1])

    def connect(self, seconds: float = 60) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = self.connect()
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(
        self, path: str, photo: bytes | None = None, name: str = "photo.jpg", **fields: str
    ) -> Answer:
        return self.ask("POST", path, multipart(photo, name, **fields), {"Content-Type": FORM})

    def put(self, path: str, value: Any, **headers: str) -> Answer:
        return self.ask(
            "PUT", path, json.dumps(value).encode(), {"Content-Type": "application/json", **headers}
        )

    def wait_for_index(self) -> Any:
        """The health once the folder was looked at."""
        return self.wait_for_health(lambda health: health["indexing"] is None)

    def wait_for_health(self, condition: Callable[[Any], bool]) -> Any:
        """The health once the server has started and the condition is true."""
        for _ in range(600):
            health = self.get("/api/health").json
            if health["status"] == "ok" and condition(health):
                return health
            time.sleep(0.1)
        raise AssertionError(health)

    def stop(self) -> int:
        """Its exit code."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=5)
        self.said += said
        return self.process.returncode


FORM = f"multipart/form-data; boundary={BOUNDARY}"


def multipart(photo: bytes | None = None, name: str = "photo.jpg", **fields: str) -> bytes:
    parts = [f'name="{field}"\r\n\r\n{value}'.encode() for field, value in fields.items()]
    if photo is not None:
        parts.append(f'name="photo"; filename="{name}"\r\n\r\n'.encode() + photo)
    start = f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode()
    return b"".join(start + part + b"\r\n" for part in parts) + f"--{BOUNDARY}--\r\n".encode()


@contextmanager
def serving(*arguments: str | Path) -> Iterator[RunningServer]:
    server = RunningServer(*arguments)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()
