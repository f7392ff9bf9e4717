"""A server with a tiny model and an album."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from conftest import draw_scene
from http_server import RunningServer, serving


@pytest.fixture(scope="session")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of all kinds: with a place in their EXIF, with odd names, behind links that lead out of the folder."""
    folder = tmp_path_factory.mktemp("photos")
    elsewhere, album = folder / "elsewhere", folder / "album"
    for place in (elsewhere, album, album / "summer"):
        place.mkdir()
    draw_scene((80, 60)).save(elsewhere / "private.png")
    (album / "link.png").symlink_to(elsewhere / "private.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # sideways
    exif.get_ifd(0x8825)[1] = "N"  # GPS
    exif[0x010E] = "<script>alert(1)</script>"
    draw_scene((96, 64)).save(album / "place.jpg", exif=exif)
    draw_scene((64, 64)).save(album / "<script>alert(2)&.png")
    draw_scene((70, 50)).save(album / "summer" / "scene.png")
    draw_scene((50, 70)).save(album / os.fsdecode(b"\xff.png"))  # a name that is no text
    return album


@pytest.fixture(scope="session")
def complete_model(tiny_model: Path, sentences_run: Path, alignment_run: Path) -> Path:
    """`tiny_model` with both heads; not to be changed."""
    from regiontalk.export.detector import add_heads
    from regiontalk.export.heads import load_heads

    folder = alignment_run.parent / "complete"
    add_heads(tiny_model, folder, "complete", load_heads([sentences_run / "run", alignment_run], "float32"))
    return folder


@pytest.fixture(scope="session")
def server(album: Path, complete_model: Path) -> Iterator[RunningServer]:
    """Uploads of 1 MB at most, within three seconds."""
    limits = ("--max-megabytes", "1", "--timeout", "3", "--workers", "1")
    with serving(album, "--model", complete_model, *limits) as server:
        server.wait_for_index()
        yield server
        assert server.stop() == 0
        assert server.said.count("\n") == 1, server.said
