"""A video in the folder of `regiontalk serve`: its frames are found, and it plays from there."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chromium import Browser
from served import serving
from served_page import CARDS, LAPTOP, MARKS, complaints, open_photo, search
from videos import PHOTOS, photo, write_video

pytestmark = MARKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    scenes = [photo(name) for name in ("coffee", "chelsea", "bear")]
    write_video(folder / "clip.webm", scenes, codec="libvpx")
    (folder / "bear.jpg").write_bytes((PHOTOS / "bear.jpg").read_bytes())
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(str(folder), "--model", "fast") as address:
        yield address


def indexed(address: str) -> list[dict[str, Any]]:
    photos: list[dict[str, Any]] = json.load(urllib.request.urlopen(f"{address}/api/photos"))[
        "photos"
    ]
    return photos


def get(address: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    names = {name.lower(): value for name, value in answer.getheaders()}
    data = answer.read()
    connection.close()
    return answer.status, names, data


def test_parts_of_the_video_are_served(address: str, folder: Path) -> None:
    film = (folder / "clip.webm").read_bytes()
    frames = [one for one in indexed(address) if "time" in one]
    assert len(frames) == 3
    path = f"/api/photos/{frames[0]['id']}/video"
    status, headers, data = get(address, path)
    assert (status, headers["content-type"], data) == (200, "video/webm", film)
    for part, expected in (("100-", film[100:]), ("100-199", film[100:200])):
        status, headers, data = get(address, path, Range=f"bytes={part}")
        assert (status, data) == (206, expected)
        assert headers["content-range"].endswith(f"/{len(film)}")
    for part in (f"{len(film)}-", "200-100"):
        status, _, data = get(address, path, Range=f"bytes={part}")
        assert (status, json.loads(data)["error"]) == (416, f"the video has {len(film)} bytes")
    for part in ("bytes=0-1,5-9", "bytes=-5", "pages=1-2"):
        assert get(address, path, Range=part)[2] == film, "what is not understood is left out"
    (still,) = [one for one in indexed(address) if "time" not in one]
    assert get(address, f"/api/photos/{still['id']}/video")[0] == 404


def test_a_search_leads_to_the_moment(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", **LAPTOP)
    browser.wait_for(f"({CARDS}).length === 4")
    search(browser, "a cat")
    best = browser.ask(CARDS)[0]
    assert best.startswith("clip.webm · 0:0")
    open_photo(browser, best)
    assert browser.ask("play.textContent").startswith("▶ Play from 0:0")
    browser.click("#play")
    browser.wait_for("document.querySelector('#film video')?.readyState >= 2")
    assert 2 <= browser.ask("document.querySelector('#film video').currentTime") < 5
    browser.press("Escape")
    assert complaints(browser) == []
