"""What tests of the page of `regiontalk serve` share: a real Chromium, the real server, the
package's own model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chromium import CHROMIUM, Browser

PHOTOS = Path(__file__).parents[1] / "examples" / "photos"
NAMES = ("bear", "chelsea", "coffee", "hug", "jockey")
EVIL_NAME = "<img src=x onerror=document.title='owned'>.jpg"
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)> & \u202e"
PHONE = {"width": 360, "height": 740, "touch": True}
LAPTOP = {"width": 1366, "height": 768}
WIDE = {"width": 2560, "height": 1300}

Browse = Callable[..., Browser]

MARKS = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.skipif(
        importlib.util.find_spec("uvicorn") is None, reason="the extra serve is not installed"
    ),
]


def complaints(browser: Browser) -> list[dict[str, Any]]:
    return [
        event
        for event in browser.events
        if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
    ]


CARDS = "[...document.querySelectorAll('#cards small')].map(s => s.firstChild.textContent)"
CAPTIONS = "[...document.querySelectorAll('#captions .caption span')].map(s => s.textContent)"
DRAFTS = "[...document.querySelectorAll('#drafts input')].map(i => i.value)"
LABEL = "label.hidden ? null : label.textContent"
MARKED = "[...document.querySelectorAll('li.active .caption span, .segment.active')].map(s => s.textContent)"
NAME = "document.getElementById('name').textContent"
STATUS = "document.getElementById('status').textContent"


def open_photo(browser: Browser, name: str) -> None:
    browser.wait_for(f"({CARDS}).includes({name!r})")
    browser.ask(
        f"[...document.querySelectorAll('#cards a')].find(a => a.innerText.includes({name!r})).click()"
    )
    browser.wait_for(f"{NAME} === {name!r} && ({CAPTIONS}).length > 0")


def search(browser: Browser, words: str) -> None:
    browser.click("#query")
    browser.ask("query.select()")
    browser.write(words)
    browser.enter()
    browser.wait_for(f"title.textContent.includes({words!r}) && cards.ariaBusy === 'false'")


def open_again(browser: Browser, condition: str) -> None:
    """What the address says, in a new tab."""
    browser.open(browser.ask("location.href"), **LAPTOP)
    browser.wait_for(condition)


def drag(browser: Browser, start: tuple[float, float], end: tuple[float, float]) -> None:
    """On the photo, between two shares of its width and height."""
    left, top, width, height = browser.ask(
        "(r => [r.x, r.y, r.width, r.height])(stage.getBoundingClientRect())"
    )
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    for kind, (x, y) in (
        ("mousePressed", start),
        ("mouseMoved", middle),
        ("mouseMoved", end),
        ("mouseReleased", end),
    ):
        place = {"x": left + x * width, "y": top + y * height}
        browser.call(
            "Input.dispatchMouseEvent", type=kind, **place, button="left", buttons=1, clickCount=1
        )
