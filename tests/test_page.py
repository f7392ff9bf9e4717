"""The page: self-contained, nothing in it runs but its own script, and Chromium shows what it promises."""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regiontalk import page
from regiontalk.errors import ImageError
from regiontalk.types import ImageRegions, Region

EVIL = "</script><script>document.title='owned'</script><!-- <img src=x onerror=alert(1)> & \u2028"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
    "--remote-debugging-pipe",
]


def two_photos(scene: Image.Image) -> list[ImageRegions]:
    mug = Region((60.0, 30.0, 240.0, 180.0), 0.91, "a red mug")
    foam = Region((90.0, 60.0, 150.0, 120.0), 0.42, "foam")
    return [
        ImageRegions("mug.jpg", 300, 200, "m", (mug, foam), scene.resize((300, 200))),
        ImageRegions("scene.jpg", *scene.size, "m", (Region((0.0, 0.0, 40.0, 40.0), 0.5, "the sun"),), scene),
    ]


def write(path: Path, photos: list[ImageRegions]) -> str:
    with page.writing_page(path) as add:
        for photo in photos:
            add(photo)
    return path.read_text(encoding="utf-8")


def data_of(text: str) -> dict[str, Any]:
    (block,) = re.findall('<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    data: dict[str, Any] = json.loads(block)
    return data


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_holds_all_photos_and_regions(scene: Image.Image, tmp_path: Path) -> None:
    data = data_of(write(tmp_path / "page.html", two_photos(scene)))
    assert [photo["path"] for photo in data["photos"]] == ["mug.jpg", "scene.jpg"]
    assert [region["caption"] for region in data["photos"][0]["regions"]] == ["a red mug", "foam"]
    head, _, encoded = data["photos"][0]["jpeg"].partition(",")
    picture = Image.open(io.BytesIO(base64.b64decode(encoded)))
    assert (head, picture.format, picture.size) == ("data:image/jpeg;base64", "JPEG", (300, 200))


@pytest.mark.parametrize(("size", "shown"), [((4000, 3000), (1280, 960)), ((1, 6000), (1, 1280)), ((2, 2), (2, 2))])
def test_large_photos_are_made_smaller(tmp_path: Path, size: tuple[int, int], shown: tuple[int, int]) -> None:
    photo = ImageRegions("x.jpg", *size, "m", (), Image.new("RGB", size))
    encoded = data_of(write(tmp_path / "page.html", [photo]))["photos"][0]["jpeg"].partition(",")[2]
    assert Image.open(io.BytesIO(base64.b64decode(encoded))).size == shown


def test_nothing_from_outside_can_run_or_be_fetched(scene: Image.Image, tmp_path: Path) -> None:
    photo = ImageRegions(EVIL, *scene.size, EVIL, (Region((0.0, 0.0, 9.0, 9.0), 0.5, EVIL),), scene)
    text = write(tmp_path / "page.html", [photo])
    elements = Elements()
    elements.feed(text)
    assert [attributes for tag, attributes in elements.found if tag == "script"] == [
        {"id": "data", "type": "application/json"},
        {},
    ]
    assert not any({"src", "href", "style", "onerror"} & set(attributes) for _, attributes in elements.found)
    policy = next(str(a["content"]) for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert "http:" not in text.replace("http-equiv", "")
    assert "https:" not in text
    assert data_of(text)["photos"][0]["regions"][0]["caption"] == EVIL


def test_a_name_that_is_no_text_is_kept(scene: Image.Image, tmp_path: Path) -> None:
    photo = ImageRegions("caf\udce9.jpg", *scene.size, "m", (), scene)
    assert data_of(write(tmp_path / "page.html", [photo]))["photos"][0]["path"] == "caf\udce9.jpg"


def test_a_page_that_fails_leaves_the_old_one(scene: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    broken = ImageRegions(str(tmp_path / "gone.jpg"), 9, 9, "m", ())
    with pytest.raises(ImageError):
        write(path, [*two_photos(scene), broken])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


class Browser:
    """Chromium through its DevTools protocol over a pipe: JSON messages that end in NUL."""

    def __init__(self, profile: Path) -> None:
        taken, self._write = os.pipe()
        self._read, given = os.pipe()
        assert CHROMIUM is not None
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # It reads from file descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{taken} 4>&{given}', "bash", *command],
            pass_fds=(taken, given),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(taken)
        os.close(given)
        self._numbers = itertools.count(1)
        self._session: dict[str, str] = {}
        self._received = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        question = {"id": number, "method": method, "params": parameters, **self._session}
        os.write(self._write, json.dumps(question).encode() + b"\0")
        while True:
            message = self._next_message()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            piece = os.read(self._read, 1 << 16)
            assert piece, "Chromium has gone"
            self._received += piece
        one, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        return message

    def open(self, path: Path) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        self.call("Log.enable")
        self.call("Runtime.enable")
        self.call("Page.enable")
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.readyState === 'complete' && document.querySelector('#photo')?.naturalWidth > 0")

    def ask(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        for _ in range(200):
            if self.ask(condition):
                return
            time.sleep(0.05)
        pytest.fail(f"never came true: {condition}")

    def point_at(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Moves the mouse to a place in the element, as a share of its width and height."""
        left, top, width, height = self.ask(
            f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + x * width, y=top + y * height)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def close(self) -> None:
        self._session = {}
        self.call("Browser.close")
        self.process.wait(timeout=20)
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Callable[[list[ImageRegions]], Browser]]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    browser = Browser(tmp_path / "profile")

    def open_page(photos: list[ImageRegions]) -> Browser:
        write(tmp_path / "page.html", photos)
        browser.open(tmp_path / "page.html")
        return browser

    try:
        yield open_page
        browser.close()
    finally:
        browser.process.kill()
        browser.process.wait()


LABELS = "[...document.querySelectorAll('.region span')].filter(s => s.offsetParent).map(s => s.textContent)"
MARKED = "[...document.querySelectorAll('li button.active span')].map(s => s.textContent)"
SHOWN = "[...document.querySelectorAll('li button')].filter(b => !b.hidden).map(b => b.children[1].textContent)"


@pytest.mark.timeout(90)
def test_chromium_shows_captions_on_hover_focus_and_keys(
    browse: Callable[[list[ImageRegions]], Browser], scene: Image.Image
) -> None:
    browser = browse(two_photos(scene))
    assert browser.ask(LABELS) == []
    # a region shows its caption; the larger one, pointed at first, does not hide the smaller one in it
    browser.point_at(".region", 0.95, 0.95)
    assert browser.ask(LABELS) == browser.ask(MARKED) == ["a red mug"]
    browser.point_at(".region + .region")
    assert browser.ask(LABELS) == browser.ask(MARKED) == ["foam"]
    # a caption shows its region
    browser.point_at("li button")
    assert browser.ask(LABELS) == ["a red mug"]
    browser.point_at("h1")
    assert browser.ask(LABELS) == []
    # without a mouse
    browser.ask("document.querySelectorAll('li button')[1].focus()")
    assert browser.ask(LABELS) == ["foam"]
    # the slider
    browser.ask("threshold.value = 0.6; threshold.dispatchEvent(new Event('input'))")
    assert browser.ask(SHOWN) == ["a red mug"]
    assert browser.ask("count.textContent") == "1 of 2 regions"
    browser.ask("threshold.value = 0; threshold.dispatchEvent(new Event('input')); document.activeElement.blur()")
    # keys
    for key, name in [("ArrowRight", "scene.jpg"), ("ArrowLeft", "mug.jpg"), ("j", "scene.jpg"), ("k", "mug.jpg")]:
        browser.press(key)
        assert browser.ask("document.querySelector('h1').textContent") == name
    browser.press("k")
    assert browser.ask("place.textContent") == "2 / 2"
    assert browser.ask(SHOWN) == ["the sun"]
    assert not [event for event in browser.events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]


@pytest.mark.timeout(90)
def test_chromium_shows_hostile_text_as_text(
    browse: Callable[[list[ImageRegions]], Browser], scene: Image.Image
) -> None:
    photo = ImageRegions(EVIL, *scene.size, "m", (Region((0.0, 0.0, 90.0, 60.0), 0.5, EVIL),), scene)
    browser = browse([photo])
    assert browser.ask("document.querySelector('h1').textContent") == EVIL
    assert browser.ask(SHOWN) == [EVIL]
    assert browser.ask("document.images.length") == 1
    assert browser.ask("document.title") != "owned"
    browser.ask("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
    assert browser.ask("window.ran") is None, "the content policy lets nothing else run"
