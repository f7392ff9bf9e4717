"""The page of `regiontalk serve`, used as a person would: a real Chromium, the real server, the
package's own model."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from chromium import Browser
from served import drop, serving
from served_page import (
    CAPTIONS,
    CARDS,
    EVIL_NAME,
    LABEL,
    LAPTOP,
    MARKED,
    MARKS,
    NAME,
    NAMES,
    PHONE,
    PHOTOS,
    STATUS,
    WIDE,
    Browse,
    open_again,
    open_photo,
    search,
)

pytestmark = MARKS


@pytest.mark.parametrize("how", ["drop", "paste"])
def test_a_dropped_photo_shows_its_regions(browse: Browse, how: str) -> None:
    browser = browse()
    drop(browser, "my bear.jpg", (PHOTOS / "bear.jpg").read_bytes(), how)
    browser.wait_for(f"({CAPTIONS}).includes('a teddy bear')")
    browser.wait_for("description.textContent.startsWith('a ')")
    assert browser.ask(NAME) == "my bear.jpg"
    assert "a teddy bear" in browser.ask("photo.alt")
    assert "a teddy bear" in browser.ask(STATUS), "a screen reader hears it"
    # from the caption to the region, and back
    captions = browser.ask(CAPTIONS)
    browser.point_at("#captions li:nth-child(2) .caption")
    assert browser.ask(LABEL) == captions[1]
    assert browser.ask("document.querySelectorAll('.region.active').length") == 1
    browser.point_at(".region:last-child")
    assert browser.ask(MARKED) == [browser.ask(LABEL)]
    browser.point_at("#path")
    assert browser.ask(LABEL) is None
    # more and fewer of them
    figures = browser.ask(
        "[...document.querySelectorAll('#captions li:first-child small')].map(s => s.textContent)"
    )
    assert len(figures) == 2
    assert all(figure.endswith(" %") for figure in figures)
    for value, expected in ((0, len(captions) + 1), (95, 0)):
        browser.ask(f"threshold.value = {value}; threshold.dispatchEvent(new Event('input'))")
        shown = len(browser.ask(CAPTIONS))
        assert shown >= expected if value == 0 else shown < len(captions)
        assert browser.ask("document.querySelectorAll('.region').length") == shown


def test_the_terms_of_the_model_stand_below_everything(browse: Browse) -> None:
    browser = browse()
    browser.wait_for("terms.textContent.includes('research and personal use')")


def test_a_photo_that_the_browser_cannot_show_has_captions_too(browse: Browse) -> None:
    browser, tiff = browse(), io.BytesIO()
    Image.open(PHOTOS / "bear.jpg").save(tiff, "TIFF")
    drop(browser, "bear.tif", tiff.getvalue())
    browser.wait_for(f"({CAPTIONS}).includes('a teddy bear')")
    assert browser.ask("undrawn.checkVisibility()")


def test_nothing_moves_under_the_pointer_when_the_sentence_comes(browse: Browse) -> None:
    browser = browse()
    browser.ask("""(() => {
      const real = fetch, held = new Promise((go) => { window.release = go; });
      window.fetch = async (path, options) => {
        if (path.startsWith("/api/describe")) await held;
        return real(path, options);
      };
    })()""")
    open_photo(browser, "hug.jpg")
    place = "document.getElementById('correct').getBoundingClientRect().y"
    before = browser.ask(place)
    assert browser.ask("description.textContent") == ""
    browser.ask("release()")
    browser.wait_for("description.textContent !== ''")
    assert browser.ask(place) == before


def test_a_phrase_finds_photos_and_says_where(browse: Browse) -> None:
    browser = browse()
    search(browser, "a woman hugs a zxcvb dog")
    assert browser.ask(CARDS)[0] == "hug.jpg"
    assert browser.ask("location.search") == "?q=a+woman+hugs+a+zxcvb+dog"
    assert "zxcvb" in browser.ask("document.getElementById('unknown').textContent")
    words = "[...document.querySelectorAll('#cards li:first-child p span')].map(s => [s.className, s.textContent])"
    said = browser.ask(words)
    assert " ".join(text for _, text in said) == "a woman hugs a zxcvb dog"
    assert ["unknown-word", "zxcvb"] in said
    colours = (
        "[...document.querySelectorAll('#cards li:first-child {}')]"
        ".map(s => s.style.getPropertyValue('--colour'))"
    )
    assert set(browser.ask(colours.format(".word"))) == set(browser.ask(colours.format(".region")))
    browser.point_at("#cards li:first-child .word")
    assert (
        browser.ask("document.querySelectorAll('#cards li:first-child .region.active').length") == 1
    )
    search(browser, "a purple airplane in a kitchen")
    assert browser.ask("document.querySelector('#cards li').textContent") == "Less likely"
    assert browser.ask("found.textContent") == f"{len(NAMES) + 1} less likely"
    assert len(browser.ask(CARDS)) > 1
    assert "No likely photo" in browser.ask("none.innerText")


def test_the_address_keeps_what_is_shown(browse: Browse) -> None:
    browser = browse("/?q=a+cat")
    browser.wait_for(f"({CARDS})[0] === 'chelsea.jpg'")
    assert browser.ask("query.value") == "a cat"
    browser.click("#cards a")
    browser.wait_for(f"{NAME} === 'chelsea.jpg' && ({CAPTIONS}).length > 0")
    assert browser.ask("location.search + location.hash.slice(0, 7)") == "?q=a+cat#photo="
    browser.ask("history.back()")
    browser.wait_for(f"!browse.hidden && ({CARDS})[0] === 'chelsea.jpg'")
    browser.ask("history.forward()")
    browser.wait_for("!viewer.hidden")
    open_again(browser, f"{NAME} === 'chelsea.jpg' && ({CAPTIONS}).length > 0")
    browser.click("#home")
    browser.wait_for(f"({CARDS}).length === {len(NAMES) + 1} && query.value === ''")


def test_keys_are_enough(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(f"({CARDS}).length > 4")
    cards = browser.ask(CARDS)
    for key in ("ArrowRight", "ArrowRight"):
        browser.press(key)
    assert cards[1] in browser.ask("document.activeElement.innerText")
    browser.enter()
    browser.wait_for(f"{NAME} === {cards[1]!r} && place.textContent === '2 / {len(cards)}'")
    browser.press("ArrowRight")
    browser.wait_for(f"{NAME} === {cards[2]!r} && ({CAPTIONS}).length > 0")
    browser.press("ArrowDown")
    assert browser.ask(LABEL) == browser.ask(CAPTIONS)[0]
    browser.press("Escape")
    browser.wait_for("!browse.hidden")
    assert cards[2] in browser.ask("document.activeElement.innerText"), "one is where one was"
    browser.press("/")
    browser.write("a cat")
    browser.enter()
    browser.wait_for("location.search === '?q=a+cat'")
    browser.press("Escape")
    browser.wait_for("location.search === ''")


def test_a_click_on_a_region_finds_others_like_it(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "hug.jpg")
    browser.point_at(".region:last-child")
    wanted = browser.ask(LABEL)
    browser.click(".region:last-child")
    browser.wait_for(
        "location.search.includes('like=') && document.querySelectorAll('#cards .region').length > 2"
    )
    assert wanted in browser.ask("title.textContent")
    assert browser.ask("crop.checkVisibility()")
    assert "hug.jpg" not in browser.ask(CARDS), "others"
    browser.ask("history.back()")
    browser.wait_for(f"{NAME} === 'hug.jpg' && !viewer.hidden")
    # and for a photo that is not in the folder
    drop(browser, "x.jpg", (PHOTOS / "soccer.jpg").read_bytes())
    browser.wait_for(f"{NAME} === 'x.jpg' && ({CAPTIONS}).length > 0")
    browser.click("#captions .similar")
    browser.wait_for(
        "location.search.includes('like=dropped') && document.querySelectorAll('#cards .region').length > 2"
    )


def test_a_sentence_takes_the_colours_of_its_regions(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "hug.jpg")
    browser.click("#tab-align")
    browser.write("a woman hugs a zxcvb dog")
    browser.enter()
    browser.wait_for("document.querySelectorAll('.segment').length > 1")
    assert "zxcvb" in browser.ask("document.querySelector('#align-panel .unknown').textContent")
    colours = "[...new Set([...document.querySelectorAll('{}')].map(s => s.style.getPropertyValue('--colour')))].sort()"
    assert browser.ask(colours.format(".segment")) == browser.ask(
        colours.format("#regions .region")
    )
    browser.point_at(".segment")
    assert browser.ask(MARKED)[0] in browser.ask(LABEL)
    browser.click("#tab-captions")
    assert len(browser.ask(CAPTIONS)) == browser.ask("document.querySelectorAll('.region').length")


def test_a_thing_is_found_or_said_not_to_be_there(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "bear.jpg")
    browser.wait_for("!document.getElementById('tab-find').hidden")
    browser.click("#tab-find")
    for phrase, here in (("a teddy bear", True), ("a steam locomotive", False)):
        browser.ask("document.activeElement.select()")
        browser.write(phrase)
        browser.enter()
        said = "document.querySelector('#find-panel .sentence').textContent"
        browser.wait_for(f"{said}.includes({phrase!r})")
        assert ("not here" in browser.ask(said)) is not here
        assert (browser.ask("document.querySelectorAll('#regions .region').length") > 0) is here


def test_names_and_words_are_shown_as_text(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(f"({CARDS}).includes({json.dumps(EVIL_NAME)})")
    search(browser, "a wave <b>b</b>")
    assert browser.ask("title.textContent") == "“a wave <b>b</b>”"
    assert browser.ask("document.querySelectorAll('main b').length") <= 2, "the page's own"
    assert browser.ask("document.title") != "owned"


def test_what_the_server_refuses_is_said_with_its_hint(browse: Browse) -> None:
    browser = browse()
    drop(browser, "text.jpg", b"no photo at all")
    browser.wait_for("!problem.hidden")
    assert browser.ask("problem.innerText").strip()
    assert not browser.ask("desk.checkVisibility()")
    browser.press("Escape")
    browser.wait_for("!browse.hidden && problem.hidden")
    browser.events.clear()  # Chromium notes the refusal too


def test_the_page_tells_how_far_the_indexing_is(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(f"({CARDS}).length > 4")
    browser.ask("""(() => {
      const real = fetch, going = { done: 312, total: 2040, skipped: 3, seconds_left: 371 };
      window.fetch = async (path, options) => {
        const answer = await real(path, options);
        if (!path.startsWith("/api/health")) return answer;
        return new Response(JSON.stringify({ ...await answer.json(), indexing: going }));
      };
      document.dispatchEvent(new Event("visibilitychange"));
    })()""")
    browser.wait_for("document.getElementById('indexing').checkVisibility()")
    text = browser.ask("document.getElementById('progress-text').textContent")
    for part in ("312 of 2,040 photos", "6 minutes left", "3 could not be read", "You can search"):
        assert part in text
    assert browser.ask("progress.value / progress.max") == pytest.approx(312 / 2040)


@pytest.mark.parametrize("window", [PHONE, LAPTOP, WIDE])
def test_every_window_shows_it_whole(browse: Browse, window: dict[str, Any]) -> None:
    browser = browse("/?q=a+woman+hugs+a+dog", **window)
    wide = "document.documentElement.scrollWidth"
    browser.wait_for(f"({CARDS})[0] === 'hug.jpg'")
    assert browser.ask(wide) <= window["width"]
    (browser.tap if "touch" in window else browser.click)("#cards a")
    browser.wait_for(f"{NAME} === 'hug.jpg' && ({CAPTIONS}).length > 0 && photo.complete")
    assert browser.ask(wide) <= window["width"]
    assert browser.ask("stage.getBoundingClientRect().bottom") <= window["height"]
    assert browser.ask("said.checkVisibility()")


def test_a_finger_is_enough(browse: Browse) -> None:
    browser = browse(**PHONE)
    open_photo(browser, "bear.jpg")
    browser.wait_for("photo.complete")
    browser.tap("#captions .caption")
    browser.wait_for(f"({LABEL}) === ({CAPTIONS})[0]")
    browser.ask("document.activeElement.blur()")
    browser.tap(".region:last-child")
    browser.wait_for(f"({LABEL}) !== null")
    assert browser.ask("location.search") == "", "the first tap only shows what it is"
    browser.tap(".region:last-child")
    browser.wait_for("location.search.includes('like=')")
    browser.ask("history.back()")
    browser.wait_for("!viewer.hidden")
    browser.swipe("#stage", 0.8, 0.2)
    browser.wait_for(f"{NAME} !== 'bear.jpg'")


def test_without_a_folder_it_is_a_tool_for_one_photo(browser: Browser) -> None:
    with serving() as address:
        browser.open(address, **LAPTOP)
        browser.wait_for("!document.getElementById('no-folder').hidden")
        assert "regiontalk serve ~/Photos" in browser.ask("document.body.innerText")
        assert not browser.ask("query.checkVisibility()")
        drop(browser, "bear.jpg", (PHOTOS / "bear.jpg").read_bytes())
        browser.wait_for(f"({CAPTIONS}).includes('a teddy bear')")
        assert browser.ask("document.querySelectorAll('.similar').length") == 0
        browser.open("data:text/html,")


def test_the_first_view_is_light(browse: Browse) -> None:
    browser = browse()
    sizes = browser.ask("performance.getEntries().map(e => [e.name, e.decodedBodySize ?? 0])")
    own = [size for name, size in sizes if "/api/" not in name]
    assert len(own) > 8
    assert sum(own) < 150_000
    assert not [name for name, size in sizes if size and not name.startswith("http://127.0.0.1")], (
        "no CDN"
    )


AXE = importlib.util.find_spec("axe_core_python")
VIOLATIONS = """axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))"""


@pytest.mark.skipif(AXE is None, reason="axe-core-python is not installed")
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_the_way_of_anybody(browse: Browse, dark: bool) -> None:
    assert AXE is not None
    assert AXE.origin is not None
    script = Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    browser = browse("/", dark=dark)

    def check(where: str) -> None:
        browser.call("Runtime.evaluate", expression=script)
        assert browser.ask(VIOLATIONS) == [], where

    browser.wait_for(f"({CARDS}).length > 4")
    check("all photos")
    browser.ask("document.querySelector('.select').click()")
    check("selected photos")
    browser.press("?")
    browser.wait_for("document.getElementById('help').open")
    check("keys")
    browser.press("Escape")
    browser.press("Escape")
    search(browser, "a woman hugs a zxcvb dog")
    check("hits")
    open_photo(browser, "hug.jpg")
    browser.wait_for("description.textContent !== ''")
    browser.ask("threshold.value = 5; threshold.dispatchEvent(new Event('input'))")
    assert browser.ask("document.querySelectorAll('#captions .unsure').length") > 0
    browser.point_at(".caption")
    check("a photo")
    browser.click("#correct")
    check("corrections")
    browser.click("#cancel")
    browser.click("#tab-align")
    browser.write("a woman hugs a zxcvb dog")
    browser.enter()
    browser.wait_for("document.querySelectorAll('.segment').length > 1")
    check("a sentence")
    search(browser, "a purple airplane in a kitchen")
    check("nothing like it")
