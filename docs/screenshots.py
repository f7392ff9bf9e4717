"""Takes the pictures of the HTML page in docs/page, in Chromium: python docs/screenshots.py

Only photos without any conditions (CC0 or public domain) are shown.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

import regiontalk
from regiontalk.page import writing_page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Browser  # noqa: E402

PHONE = {"width": 390, "height": 844, "touch": True}
LAPTOP = {"width": 1366, "height": 768}
WIDE = {"width": 2560, "height": 1300}
ALIGNED = ("docs/gallery/photos/camera.jpg", "a man in a black coat looks through a camera on a tripod")
PAINTED = """(async () => {
  await Promise.all([...document.images].filter((one) => one.checkVisibility()).map((one) => one.decode()));
  await Promise.all(document.getAnimations().map((one) => one.finished));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
})()"""
LARGEST = 1400  # pixels of a picture's long side


def main() -> None:
    os.chdir(ROOT)  # so that the photos' names are short
    with tempfile.TemporaryDirectory() as folder:
        write_pages(Path(folder))
        browser = Browser(Path(folder) / "profile")
        try:
            take_all(browser, Path(folder).as_uri())
        finally:
            browser.close()


def write_pages(folder: Path) -> None:
    sources = json.loads(Path("docs/gallery/sources.json").read_text(encoding="utf-8"))["photos"]
    free = [photo["file"] for photo in sources if photo["licence"] in ("CC0", "public domain")]
    model = regiontalk.load()
    pages: dict[str, Callable[[str], Any]] = {
        "caption": lambda file: model(file, top=12),
        "describe": lambda file: model.describe(file, alternatives=3),
        "align": lambda file: model.align(file, ALIGNED[1]),
    }
    for name, ask in pages.items():
        with writing_page(folder / f"{name}.html") as add:
            for file in free if name != "align" else ALIGNED[:1]:
                add(ask(file))


def take_all(browser: Browser, folder: str) -> None:
    def take(name: str, address: str, window: dict[str, Any], then: Callable[[], object] = lambda: None) -> None:
        browser.open(f"{folder}/{address}", **window)
        then()
        browser.ask(PAINTED)
        picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
        picture.thumbnail((LARGEST, LARGEST))
        picture.save(f"docs/page/{name}.webp", quality=82, method=6)

    officer = "#docs/gallery/photos/officer.jpg"
    second = "#captions li:nth-child(2) button"
    take("overview", "caption.html", LAPTOP)
    take("overview-dark", "caption.html", {**LAPTOP, "dark": True})
    take("overview-phone", "caption.html", PHONE)
    take("overview-wide", "caption.html", WIDE)
    take("photo", f"caption.html{officer}", LAPTOP, lambda: browser.point_at(second))
    take("photo-phone", f"caption.html{officer}", PHONE, lambda: browser.tap(second))
    take("photo-wide", f"caption.html{officer}", WIDE)
    take("sentence", f"describe.html{officer}", LAPTOP)
    take("alignment", "align.html", LAPTOP)


if __name__ == "__main__":
    main()
