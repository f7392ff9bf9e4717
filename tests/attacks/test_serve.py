"""Bombs over HTTP (row 21 of what it survives): they cost a worker at most."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import photo_bombs
import pytest
from hostile_files import encode

from http_server import RunningServer, serving

SCENE = encode(photo_bombs.flat(64, 48), "JPEG")
BOMBS = {
    "markers": lambda: photo_bombs.jpeg_markers(6_000_000),
    "scans": lambda: photo_bombs.jpeg_scans(20_000),
    "chunks": lambda: photo_bombs.png_chunks(2_000_000),
    "profiles": lambda: photo_bombs.png_profiles(10_000),
    "sub-blocks": lambda: photo_bombs.gif_sub_blocks(12_000_000),
    "runs": lambda: photo_bombs.bmp_runs(49_000_000),
    "tile": lambda: photo_bombs.tiff_tile(12_000),
    "strips": lambda: photo_bombs.tiff_strips(6_000_000),
    "pixels": lambda: encode(photo_bombs.flat(20_000, 20_000, "1"), "PNG"),
}


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[RunningServer]:
    with serving("--model", tiny_model, "--workers", "1", "--timeout", "10") as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.said


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_the_next_photo_is_not(server: RunningServer, name: str) -> None:
    answer = server.post("/api/caption", BOMBS[name]())
    assert answer.status in (413, 422), answer
    assert answer.error
    assert server.post("/api/caption", SCENE).status == 200


def test_the_server_itself_stays_small(server: RunningServer) -> None:
    status = Path(f"/proc/{server.process.pid}/status")
    if status.exists():
        taken = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
        assert taken is not None
        assert int(taken[1]) < 400_000


def test_a_photo_that_takes_too_long_costs_its_worker(tiny_model: Path) -> None:
    slow = photo_bombs.many_scans(90)  # just within the limits
    with serving("--model", tiny_model, "--workers", "1", "--timeout", "0.7") as server:
        answer = server.post("/api/caption", slow)
        assert answer.status == 422
        assert "longer than 0.7 seconds" in answer.error
        assert "regiontalk_workers_lost_total 1" in server.get("/metrics").body.decode()
        assert server.post("/api/caption", SCENE).status == 200
