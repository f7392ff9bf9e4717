"""Takes the pictures of the HTML page in docs/page and of the page of `serve` in docs/serve and
docs/teach, in Chromium: python docs/screenshots.py [page|serve|teach]

Only photos without any conditions (CC0 or public domain) are shown.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

import regiontalk
from regiontalk.show.page import writing_page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Browser  # noqa: E402
from served import drop, serving  # noqa: E402

PHONE = {"width": 390, "height": 844, "touch": True}
LAPTOP = {"width": 1366, "height": 768}
WIDE = {"width": 2560, "height": 1300}
ALIGNED = (
    "docs/gallery/photos/camera.jpg",
    "a man in a black coat looks through a camera on a tripod",
)
PAINTED = """(async () => {
  const seen = (one) => one.checkVisibility() && one.getBoundingClientRect().top < innerHeight; // others load later
  await Promise.all([...document.images].filter(seen).map((one) => one.decode()));
  await Promise.all(document.getAnimations().map((one) => one.finished));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
})()"""
LARGEST = 1400  # pixels of a picture's long side


Take = Callable[..., None]


def main() -> None:
    os.chdir(ROOT)  # so that the photos' names are short
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REGIONTALK_DATA"] = folder  # no words of whoever takes the pictures
        browser = Browser(Path(folder) / "profile")
        try:
            for what in sys.argv[1:] or PARTS:
                PARTS[what](browser, Path(folder))
        finally:
            browser.close()


def free_photos() -> list[str]:
    sources = json.loads(Path("docs/gallery/sources.json").read_text(encoding="utf-8"))["photos"]
    return [photo["file"] for photo in sources if photo["licence"] in ("CC0", "public domain")]


def taking(browser: Browser, base: str, out: str) -> Take:
    def take(
        name: str, address: str, window: dict[str, Any], then: Callable[[], object] = lambda: None
    ) -> None:
        browser.open(f"{base}/{address}", **window)
        then()
        browser.ask(PAINTED)
        picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
        picture.thumbnail((LARGEST, LARGEST))
        Path(out).mkdir(exist_ok=True)
        picture.save(f"{out}/{name}.webp", quality=82, method=6)

    return take


def write_pages(folder: Path) -> None:
    model = regiontalk.load()
    pages: dict[str, Callable[[str], Any]] = {
        "caption": lambda file: model(file, top=12),
        "describe": lambda file: model.describe(file, alternatives=3),
        "align": lambda file: model.align(file, ALIGNED[1]),
    }
    for name, ask in pages.items():
        with writing_page(folder / f"{name}.html") as add:
            for file in free_photos() if name != "align" else ALIGNED[:1]:
                add(ask(file))


def take_page(browser: Browser, folder: Path) -> None:
    write_pages(folder)
    take = taking(browser, folder.as_uri(), "docs/page")
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


CARDS = "cards.ariaBusy === 'false' && document.querySelectorAll('#cards li').length > 0"
PHOTO = "document.querySelectorAll('#captions li').length > 0 && description.textContent"


def take_serve(browser: Browser, folder: Path) -> None:
    photos = folder / "photos"
    photos.mkdir()
    for file in free_photos():
        shutil.copy(file, photos)
    with serving(str(photos)) as address:
        take = taking(browser, address, "docs/serve")
        searching = "?q=a woman hugging a dog"
        take("start", "", LAPTOP, lambda: browser.wait_for(CARDS))
        take("start-wide", "", WIDE, lambda: browser.wait_for(CARDS))
        take("search", searching, {"width": 1000, "height": 640}, lambda: browser.wait_for(CARDS))
        take(
            "search-dark",
            "?q=a cup of coffee",
            {**LAPTOP, "height": 600, "dark": True},
            lambda: browser.wait_for(CARDS),
        )
        take("search-phone", searching, {**PHONE, "dark": True}, lambda: browser.wait_for(CARDS))
        take("photo", "", LAPTOP, lambda: show_dropped(browser, "#captions .caption"))
        take("photo-phone", "", PHONE, lambda: show_dropped(browser))
        take("sentence", "", {**LAPTOP, "dark": True}, lambda: show_sentence(browser))
        take("corrections", "", LAPTOP, lambda: show_corrections(browser))
    browser.open("data:text/html,")  # which asks nothing of a server that is gone


def show_dropped(browser: Browser, pointed_at: str = "#path") -> None:
    browser.wait_for(CARDS)
    drop(browser, "bear.jpg", Path("examples/photos/bear.jpg").read_bytes())
    browser.wait_for(PHOTO)
    browser.point_at(pointed_at)


def show_sentence(browser: Browser) -> None:
    browser.wait_for(CARDS)
    drop(browser, "hug.jpg", Path("examples/photos/hug.jpg").read_bytes())
    browser.wait_for(PHOTO)
    browser.click("#tab-align")
    browser.write("a woman in a grey sweater hugs a big brown dog on the grass")
    browser.enter()
    browser.wait_for("document.querySelectorAll('.segment').length > 0")


def show_corrections(browser: Browser) -> None:
    show_dropped(browser)
    browser.click("#correct")
    browser.ask("drafts.querySelector('li:nth-child(2) input').select()")
    browser.write("a small child")


def take_teach(browser: Browser, folder: Path) -> None:
    photos = folder / "teach"
    photos.mkdir()
    for file in [*free_photos(), "examples/photos/coffee.jpg"]:
        shutil.copy(file, photos)
    with serving(str(photos)) as address:
        take = taking(browser, address, "docs/teach")
        take("naming", "", LAPTOP, lambda: show_naming(browser))
        browser.enter()
        browser.wait_for(f"document.querySelector('dialog[open]') === null && {PHOTO}")
        take("taught", browser.ask("location.hash"), LAPTOP, lambda: browser.wait_for(PHOTO))
        take("question", "", LAPTOP, lambda: show_question(browser))
    browser.open("data:text/html,")  # which asks nothing of a server that is gone


def show_naming(browser: Browser) -> None:
    browser.wait_for(CARDS)
    browser.ask(
        "[...document.querySelectorAll('#cards a')]"
        ".find((card) => card.innerText.includes('coffee')).click()"
    )
    browser.wait_for(PHOTO)
    browser.ask("document.querySelector('#captions .caption').focus()")
    browser.press("t")
    browser.wait_for("document.querySelector('#teach-naming[open]') !== null")
    browser.write("espresso")


def show_question(browser: Browser) -> None:
    browser.wait_for(f"{CARDS} && !document.getElementById('teach-more').hidden")
    browser.ask("document.getElementById('teach-more').click()")
    browser.wait_for("document.querySelector('#teach-asking[open] img')?.complete === true")


PARTS = {"page": take_page, "serve": take_serve, "teach": take_teach}

if __name__ == "__main__":
    main()
