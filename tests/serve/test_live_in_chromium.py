"""The live view, with Chromium's fake camera: it shows a photo, over and over."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from chromium import CHROMIUM, Browser
from served import serving
from served_page import LAPTOP, MARKS, PHOTOS, complaints

pytestmark = MARKS

NOT_HERE = "pictures.test"
FAKE_CAMERA = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
PROBLEM = "problem.hidden ? '' : problem.textContent"
SEEN = "[...document.querySelectorAll('#seen li')].map(li => li.textContent)"
BOXES = "document.querySelectorAll('#boxes .region').length"
ANSWERS = "Number(document.body.dataset.answers ?? 0)"
REQUESTS = (
    "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/api/live'))"
    ".map(e => [e.startTime, e.responseEnd])"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving("--model", "fast", "--allow-host", NOT_HERE) as address:
        yield address


@contextmanager
def opened(profile: Path, *flags: str) -> Iterator[Browser]:
    assert CHROMIUM is not None
    browser = Browser(profile, flags)
    try:
        yield browser
        browser.close()
    finally:
        browser.process.kill()
        browser.process.wait()


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("camera")
    picture = ImageOps.pad(Image.open(PHOTOS / "coffee.jpg").convert("RGB"), (640, 480))
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=90)
    (folder / "camera.mjpeg").write_bytes(data.getvalue() * 5)
    video = f"--use-file-for-fake-video-capture={folder / 'camera.mjpeg'}"
    with opened(folder / "profile", *FAKE_CAMERA, video) as browser:
        yield browser


def test_captions_are_drawn_on_what_the_camera_sees(camera: Browser, address: str) -> None:
    camera.open(f"{address}/live", **LAPTOP)
    camera.wait_for(f"({SEEN}).includes('a cup')")
    assert camera.ask(BOXES) > 0
    assert "pictures a second" in camera.ask("document.getElementById('status').textContent")
    camera.wait_for(f"{ANSWERS} >= 5")
    times = camera.ask(REQUESTS)
    assert len(times) >= 5
    for (_, end), (begin, _) in itertools.pairwise(times):
        assert begin >= end - 1, "one picture at a time"
    assert complaints(camera) == []


def test_a_frozen_picture_stays_and_is_saved(camera: Browser, address: str) -> None:
    camera.open(f"{address}/live", **LAPTOP)
    camera.wait_for(f"({SEEN}).includes('a cup')")
    camera.click("#freeze")
    assert camera.ask("!frozen.hidden && frozen.width === 640 && freeze.textContent === 'Go on'")
    camera.ask("new Promise(done => setTimeout(done, 1500))")  # the last answer may be on its way
    before = camera.ask(ANSWERS)
    camera.ask("new Promise(done => setTimeout(done, 1000))")
    assert camera.ask(ANSWERS) == before
    camera.ask(
        "HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href]; }"
    )
    camera.click("#save")
    camera.wait_for("window.saved")
    name, is_blob = camera.ask("[window.saved[0], window.saved[1].startsWith('blob:')]")
    assert name.startswith("regiontalk-")
    assert is_blob
    camera.click("#freeze")
    camera.wait_for(f"frozen.hidden && {ANSWERS} > {before}")


def test_a_camera_that_vanishes_is_one_line(camera: Browser, address: str) -> None:
    camera.open(f"{address}/live", **LAPTOP)
    camera.wait_for(f"{ANSWERS} > 0")
    camera.ask("camera.srcObject.getVideoTracks()[0].dispatchEvent(new Event('ended'))")
    camera.wait_for(f"({PROBLEM}).startsWith('The camera is gone')")
    camera.click("#again")
    camera.wait_for(f"({PROBLEM}) === '' && !freeze.disabled")


@pytest.mark.parametrize(
    ("flags", "setting", "line"),
    [
        (FAKE_CAMERA[:1], "denied", "The camera was refused."),
        ((), "granted", "There is no camera."),
    ],
)
def test_no_camera_and_a_refused_one_are_one_line(
    address: str, tmp_path: Path, flags: tuple[str, ...], setting: str, line: str
) -> None:
    with opened(tmp_path, *flags) as browser:
        permission = {"name": "camera"}
        browser.call(
            "Browser.setPermission", permission=permission, setting=setting, origin=address
        )
        browser.open(f"{address}/live", **LAPTOP)
        browser.wait_for(f"({PROBLEM}) !== ''")
        assert browser.ask(PROBLEM).startswith(line)
        assert browser.ask("!again.hidden && freeze.disabled")


def test_without_https_the_page_says_where_the_camera_works(address: str, tmp_path: Path) -> None:
    rules = f"--host-resolver-rules=MAP {NOT_HERE} 127.0.0.1"
    port = address.rpartition(":")[2]
    with opened(tmp_path, *FAKE_CAMERA, rules) as browser:
        browser.open(f"http://{NOT_HERE}:{port}/live", **LAPTOP)
        browser.wait_for(f"({PROBLEM}).includes('over HTTPS')")
        assert f"http://localhost:{port}/live" in browser.ask(PROBLEM)


def test_boxes_follow_things(browser: Browser, address: str) -> None:
    browser.open(f"{address}/live", **LAPTOP)

    def follow(tracks: object, regions: object) -> list[dict[str, object]]:
        asked = f"m.follow({json.dumps(tracks)}, {json.dumps(regions)})"
        tracked: list[dict[str, object]] = browser.ask(
            f"import('/page/tracks.js').then(m => {asked})"
        )
        return tracked

    cup = {"xyxy": [0, 0, 100, 100], "caption": "a cup"}
    spoon = {"xyxy": [200, 0, 300, 40], "caption": "a spoon"}
    first = follow([], [cup, spoon])
    assert [track["number"] for track in first] == [0, 1]
    moved = {"xyxy": [20, 0, 120, 100], "caption": "a mug"}
    second = follow(first, [moved])
    assert second[0] == {"xyxy": [12, 0, 112, 100], "caption": "a mug", "number": 0, "missed": 0}
    assert second[1] == {**spoon, "number": 1, "missed": 1}
    third = follow(follow(second, [moved]), [moved, {**spoon, "xyxy": [500, 0, 600, 40]}])
    assert [track["number"] for track in third] == [0, 1]
    assert third[1]["xyxy"] == [500, 0, 600, 40], "a new thing does not glide from another place"


def test_the_start_page_does_not_load_the_live_view(browser: Browser, address: str) -> None:
    browser.open(f"{address}/", **LAPTOP)
    browser.wait_for("!browse.hidden")
    loaded = browser.ask("performance.getEntriesByType('resource').map(e => e.name)")
    assert not [name for name in loaded if "live" in name or "tracks" in name]
    browser.click("#live")
    browser.wait_for("location.pathname === '/live'")
