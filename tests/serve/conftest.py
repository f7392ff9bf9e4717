"""A server with a tiny model and an album; and one with the package's model and example photos, in
a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import served
from chromium import Browser
from conftest import draw_scene
from http_server import RunningServer, serving
from served_page import EVIL_NAME, LAPTOP, NAMES, PHOTOS, Browse, complaints


@pytest.fixture(scope="session")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of all kinds: with a place in their EXIF, with odd names, one that a test makes a link
    to a photo elsewhere."""
    folder = tmp_path_factory.mktemp("photos")
    elsewhere, album = folder / "elsewhere", folder / "album"
    for place in (elsewhere, album, album / "summer"):
        place.mkdir()
    draw_scene((80, 60)).save(elsewhere / "private.png")
    draw_scene((80, 60)).save(album / "link.png")
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
    from regiontalk.lab.export.detector import add_heads
    from regiontalk.lab.export.heads import load_heads

    folder = alignment_run.parent / "complete"
    add_heads(
        tiny_model,
        folder,
        "complete",
        load_heads([sentences_run / "run", alignment_run], "float32"),
    )
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name in NAMES:
        shutil.copy(PHOTOS / f"{name}.jpg", folder)
    shutil.copy(PHOTOS / "surfing.jpg", folder / EVIL_NAME)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served.serving(str(folder)) as address:
        yield address


@pytest.fixture
def browse(browser: Browser, address: str) -> Iterator[Browse]:
    """Opens a place of the page; afterwards, nothing may have been complained of."""

    def open_page(place: str = "/", **window: Any) -> Browser:
        browser.open(address + place, **{**LAPTOP, **window})
        browser.wait_for(
            "document.querySelector('#browse:not([hidden]), #viewer:not([hidden])') !== null"
        )
        return browser

    browser.events.clear()
    yield open_page
    found = complaints(browser)
    browser.open("data:text/html,")  # which asks nothing of a server that is gone
    assert not found
