"""The folder is looked at while the server answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import misbehaving
from conftest import draw_scene
from http_server import serving
from regiontalk.errors import IndexProblem
from regiontalk.search.index import Index
from regiontalk.serve.indexing import Indexing
from regiontalk.serve.settings import Settings


def wait(until: Callable[[], bool]) -> None:
    for _ in range(600):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError


def test_a_lost_process_is_replaced_and_continues(tmp_path: Path) -> None:
    indexing = Indexing(Settings(tmp_path), 0, misbehaving.index)
    wait(lambda: indexing.progress is None)
    assert indexing.photos == 9
    indexing.close()


def test_one_that_is_lost_again_and_again_is_given_up(tmp_path: Path) -> None:
    indexing = Indexing(Settings(tmp_path), 5, misbehaving.always_end)
    wait(lambda: indexing.progress is None)
    assert indexing.photos == 5
    assert "ended early" in indexing.problem
    indexing.close()


def test_what_was_looked_at_stays_and_new_photos_are_added(tmp_path: Path, aligning_model: Path) -> None:
    draw_scene((64, 48)).save(tmp_path / "a.png")
    (tmp_path / "b.jpg").write_text("no photo")
    start = (tmp_path, "--model", aligning_model, "--workers", "1")
    with serving(*start) as server:
        assert server.wait_for_index()["photos"] == 1
        (first,) = server.get("/api/photos").json["photos"]
        assert server.stop() == 0
    draw_scene((48, 64)).save(tmp_path / "c.png")
    with serving(*start) as server:
        assert server.wait_for_index()["photos"] == 2
        assert first in server.get("/api/photos").json["photos"]
        assert server.get(f"/api/photos/{first['id']}/thumbnail").status == 200


def test_a_folder_without_photos_and_one_that_cannot_be_written_now_are_served(
    tmp_path: Path, aligning_model: Path
) -> None:
    with serving(tmp_path, "--model", aligning_model, "--workers", "1") as server:
        health = server.wait_for_index()
        assert "no photo" in health["problem"]
        assert server.get("/api/photos").json == {"total": 0, "photos": []}
        assert server.get("/api/search?q=circle").json["none_fit"]
    index = Index.open(tmp_path)
    (index.place / "index.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(IndexProblem):
        len(index)
