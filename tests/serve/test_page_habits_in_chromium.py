"""What people expect of a page of photos: it says what it is not sure of and what it is doing, and it
has dates, zoom, several photos at once, filters, and a way back from every correction."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from chromium import Browser
from served_page import (
    CAPTIONS,
    CARDS,
    DRAFTS,
    LABEL,
    MARKS,
    NAME,
    NAMES,
    PHONE,
    PHOTOS,
    STATUS,
    Browse,
    drag,
    open_photo,
    search,
)

pytestmark = MARKS

TAGS = "[...document.querySelectorAll('.tag:not([hidden])')].map(t => t.textContent)"
LOADED = f"cards.ariaBusy === 'false' && ({CARDS}).length > 4"
ANSWERS = """(() => {
  const real = fetch;
  window.fetch = async (path, options) => {
    for (const [start, change] of %s) {
      if (!path.startsWith(start)) continue;
      if (change.body) return new Response(JSON.stringify(change.body), { status: change.http ?? 200 });
      const answer = await real(path, options);
      return new Response(JSON.stringify({ ...await answer.json(), ...change }), { status: 200 });
    }
    return real(path, options);
  };
})()"""


def answering(browser: Browser, **changes: dict[str, Any]) -> None:
    """The page gets changed answers: `search={"hits": []}` changes those of /api/search."""
    pairs = [(f"/api/{name}", change) for name, change in changes.items()]
    browser.ask(ANSWERS % json.dumps(pairs))


def region(caption: str, sure: bool, left: float) -> dict[str, Any]:
    box = [left, 20, left + 100, 120]
    figures = {"score": 0.9, "confidence": 0.9 if sure else 0.3}
    return {"id": 0, "xyxy": box, "caption": caption, "shown": True, "sure": sure, **figures}


def test_what_is_not_sure_is_grey_and_says_so(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    regions = [region("a mug", True, 10), region("a ghost", False, 200)]
    answering(
        browser,
        **{"photos/": {"regions": regions}},
        describe={"sentence": "two wrestlers in red shirts", "sure": False},
    )
    open_photo(browser, "hug.jpg")
    browser.wait_for("description.textContent !== ''")
    assert browser.ask("description.innerText.toLowerCase()").startswith("two wrestlers")
    assert "not sure" in browser.ask("description.innerText")
    colour = "getComputedStyle(document.querySelector('{}')).color"
    faint = browser.ask(colour.format("#path"))
    assert browser.ask(colour.format("#description .words")) == faint
    assert browser.ask(colour.format("#captions li:nth-child(2) .words")) == faint
    assert browser.ask(colour.format("#captions li:nth-child(1) .words")) != faint
    size = "parseFloat(getComputedStyle(description).fontSize)"
    assert browser.ask(size) <= 16, "it does not stand there big"
    rows = browser.ask("[...document.querySelectorAll('#captions .words')].map(w => w.innerText)")
    assert rows == ["a mug", "a ghost not sure"]
    assert browser.ask(TAGS) == ["a mug", "a ghost (not sure)"]
    assert browser.ask("photo.alt") == "a mug, a ghost (not sure)"
    assert "a ghost (not sure)" in browser.ask(STATUS)
    browser.point_at("#captions li:nth-child(2) .caption")
    assert browser.ask(LABEL) == "a ghost (not sure)"


def test_the_server_says_what_it_is_sure_of(browse: Browse) -> None:
    browser = browse()
    answers = browser.ask("""(async () => {
      const get = async (path, body) => (await fetch(path, body && { method: "POST", body })).json();
      const { photos } = await get("/api/photos"), form = new FormData();
      form.append("id", photos[0].id);
      return { photos, photo: await get(`/api/photos/${photos[0].id}`), again: await get("/api/caption", form),
        described: await get("/api/describe", form), health: await get("/api/health") };
    })()""")
    likely = answers["health"]["confidence"]
    for found in (answers["photo"], answers["again"]):
        for one in found["regions"]:
            is_likely = round(one["confidence"], 2) >= likely and round(one["score"], 2) >= 0.3
            assert one["sure"] is is_likely
            assert one["shown"] or not is_likely
        assert any(one["shown"] for one in found["regions"])
    assert isinstance(answers["described"]["sure"], bool)
    assert all({"taken", "sure", "captions"} <= set(photo) for photo in answers["photos"])


def test_labels_stand_on_their_boxes(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "hug.jpg")
    browser.wait_for(f"photo.complete && ({TAGS}).length > 1")
    assert set(browser.ask(TAGS)) <= set(browser.ask(CAPTIONS))
    boxes = browser.ask(
        "[...document.querySelectorAll('.tag:not([hidden])')].map(t => "
        "(r => [r.left, r.top, r.right, r.bottom])(t.getBoundingClientRect()))"
    )
    for number, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[:number]:
            apart = left >= other[2] or right <= other[0] or top >= other[3] or bottom <= other[1]
            assert apart, "no label covers another"
    browser.point_at(".caption")
    assert not browser.ask(
        "document.querySelector('.tag').checkVisibility({visibilityProperty: true})"
    )


def test_photos_stand_below_their_dates(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    photos = [
        {"id": name, "path": f"{name}.jpg", "width": 4, "height": 3, "taken": taken}
        | {"captions": ["a dog"], "sure": True}
        for name, taken in [
            ("a", "2021-05-30T18:05:12"),
            ("b", "2021-05-02T08:00:00"),
            ("c", "2020-12-31T23:59:59"),
        ]
    ]
    answering(browser, photos={"photos": photos, "total": 3})
    browser.click("#home")
    browser.ask("document.querySelector('#filters form').requestSubmit()")
    search(browser, "a dog")
    browser.events.clear()  # there are no such thumbnails
    browser.click("#home")
    browser.wait_for("document.querySelectorAll('.date').length === 2")
    order = "[...cards.children].map(c => c.querySelector('h2, small').innerText)"
    assert browser.ask(order) == ["May 2021", "a.jpg", "b.jpg", "December 2020", "c.jpg"]
    browser.wait_for("[...document.querySelectorAll('#cards img')].every(i => i.complete)")
    browser.events.clear()


def test_a_photo_is_made_larger_and_fills_the_screen(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "coffee.jpg")
    browser.wait_for("photo.complete")
    width = "canvas.getBoundingClientRect().width / stage.getBoundingClientRect().width"
    browser.click("#zoom-in")
    assert browser.ask(width) == pytest.approx(1.5, rel=0.02)
    browser.press("+")
    assert browser.ask(width) == pytest.approx(2.25, rel=0.02)
    left = "canvas.getBoundingClientRect().left"
    before = browser.ask(left)
    drag(browser, (0.5, 0.5), (0.3, 0.5))
    assert browser.ask(left) < before, "it is dragged"
    assert browser.ask("location.search") == "", "a drag is no click on a region"
    browser.press("Escape")
    assert browser.ask(width) == pytest.approx(1)
    assert not browser.ask("viewer.hidden"), "the first Escape shows the whole photo"
    browser.click("#full")
    browser.wait_for("document.fullscreenElement !== null")
    assert not browser.ask("said.checkVisibility()")
    browser.wait_for("stage.getBoundingClientRect().bottom <= innerHeight + 1")
    browser.press("ArrowRight")
    browser.wait_for(f"{NAME} !== 'coffee.jpg' && document.fullscreenElement !== null")
    browser.press("f")
    browser.wait_for("document.fullscreenElement === null")


def test_captions_are_copied_and_photos_downloaded(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "hug.jpg")
    browser.ask("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser.click("#copy")
    browser.wait_for("window.copied")
    assert browser.ask("copied.split('\\n')") == list(dict.fromkeys(browser.ask(CAPTIONS)))
    assert browser.ask(STATUS) == "Captions copied"
    data = browser.ask(
        "fetch(download.href).then(async (a) => "
        "[a.headers.get('content-disposition'), (await a.arrayBuffer()).byteLength])"
    )
    assert data == ['attachment; filename="hug.jpg"', (PHOTOS / "hug.jpg").stat().st_size]


def test_several_photos_are_selected(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    cards = browser.ask(CARDS)
    browser.ask("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser.ask("document.querySelector('#cards .select').click()")
    browser.wait_for("!selection.hidden")
    assert (
        browser.ask("document.getElementById('selected-count').textContent") == "1 photo selected"
    )
    browser.ask(
        "document.querySelectorAll('#cards .select')[2]"
        ".dispatchEvent(new MouseEvent('click', {shiftKey: true, bubbles: true, cancelable: true}))"
    )
    browser.click("#copy-selected")
    browser.wait_for("window.copied")
    lines = browser.ask("copied.split('\\n').map(line => line.split('\\t')[0])")
    assert sorted(lines) == sorted(cards[:3]), "with Shift, those between are selected too"
    browser.press("Escape")
    assert browser.ask("selection.hidden")
    assert browser.ask("document.querySelectorAll('.select:checked').length") == 0
    browser.ask("document.querySelector('#cards a').focus()")
    browser.press("x")
    assert browser.ask("document.querySelectorAll('.select:checked').length") == 1
    browser.click("#unselect")


def test_suggestions_lead_to_the_photos_that_show_them(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    chips = browser.ask("[...document.querySelectorAll('#suggestions a')].map(a => a.innerText)")
    assert chips
    for chip in chips:
        browser.ask(
            f"[...document.querySelectorAll('#suggestions a')].find(a => a.innerText === {chip!r}).click()"
        )
        browser.wait_for(
            f"location.search.startsWith('?caption=') && title.textContent === {chip!r}"
            " && cards.ariaBusy === 'false'"
        )
        lines = browser.ask("[...document.querySelectorAll('#cards p')].map(p => p.textContent)")
        assert lines
        assert all(chip in line for line in lines)
        browser.click("#narrowed a")
        browser.wait_for(f"location.search === '' && {LOADED}")


def test_filters_combine(browse: Browse, folder: Path) -> None:
    browser = browse("/?caption=a+teddy+bear&after=2000-01-01&folder=nowhere")
    browser.wait_for("none.checkVisibility()")
    assert browser.ask("none.innerText").startswith("No photo here")
    assert browser.ask("[...document.querySelectorAll('#narrowed a')].map(a => a.innerText)") == [
        "in nowhere ✕",
        "from 2000-01-01 ✕",
        "shows a teddy bear ✕",
    ]
    browser.click("#narrowed a")
    browser.wait_for(f"({CARDS}).includes('bear.jpg')")
    assert browser.ask("location.search") == "?caption=a+teddy+bear&after=2000-01-01"
    browser.ask("document.getElementById('filters').open = true")
    browser.ask("document.querySelector('[name=before]').value = '1999-01-01'")
    browser.ask("document.querySelector('#filters form').requestSubmit()")
    browser.wait_for("location.search.includes('before=1999') && cards.ariaBusy === 'false'")
    assert browser.ask(CARDS) == []


def test_others_like_it_have_a_score_and_a_line(browse: Browse) -> None:
    browser = browse()
    browser.ask("""(() => {
      const real = fetch, held = new Promise((go) => { window.release = go; });
      window.fetch = async (path, options) => {
        if (path.startsWith("/api/like")) await held;
        return real(path, options);
      };
    })()""")
    open_photo(browser, "bear.jpg")
    browser.click("#captions .similar")
    browser.wait_for("busy.checkVisibility() && busy.querySelector('.spinner') !== null")
    assert browser.ask("busy.innerText").strip() == "Looking for others like it …"
    browser.ask("release()")
    browser.wait_for(f"{LOADED.replace('> 4', '> 3')} && !busy.checkVisibility()")
    feet = browser.ask(
        "[...document.querySelectorAll('#cards small')].map(s => s.lastChild.textContent)"
    )
    assert all(foot.endswith(" % alike") for foot in feet)
    assert browser.ask("document.querySelector('.line').textContent") == "Less alike"


@pytest.mark.parametrize("status", [422, 500])
def test_a_search_that_fails_says_so(browse: Browse, status: int) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    answering(browser, search={"http": status, "body": {"error": "no such thing", "hint": "try"}})
    search(browser, "a dog")
    assert "no such thing" in browser.ask("problem.innerText.toLowerCase()")
    assert "no such thing" in browser.ask("none.innerText")
    assert "Searching" not in browser.ask(STATUS)
    assert not browser.ask("busy.checkVisibility()")


def test_words_that_are_not_known_or_mistyped_are_explained(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    nothing = {"hits": [], "none_fit": True, "unknown": ["Hund"], "notes": []}
    answering(browser, search={"body": nothing})
    search(browser, "Hund")
    assert "The model does not know “Hund”." in browser.ask("none.innerText")
    note = "“Hund” looks like German, not English. The model reads English only."
    answering(browser, search={"body": {**nothing, "notes": [note]}})
    search(browser, "Hund am Meer")
    assert browser.ask("none.innerText").endswith(note)
    assert not browser.ask("problem.checkVisibility()"), "it is no error"
    assert "Nothing to search for" in browser.ask("none.innerText")
    assert browser.ask(STATUS) == note
    typo = {"hits": [], "none_fit": True, "unknown": [], "corrected": {"bycicle": "bicycle"}}
    typo["notes"] = ["Showing “bicycle”. To search for “bycicle”, put it in quotes."]
    answering(browser, search={"body": typo})
    search(browser, "a bycicle")
    said = "unknown.innerText"
    assert browser.ask(said).strip() == "Showing “bicycle”. Search for bycicle instead."
    browser.click("#unknown a")
    browser.wait_for("location.search === '?q=a+bycicle&exact=1'")


def test_the_page_says_that_the_server_starts(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    answering(browser, health={"status": "starting", "model": None})
    browser.ask("document.dispatchEvent(new Event('visibilitychange'))")
    browser.wait_for("starting.checkVisibility()")
    assert "is starting" in browser.ask("starting.innerText")
    answering(browser, health={"status": "ok"})
    browser.wait_for("!starting.checkVisibility()")


def test_counts_of_the_indexing_agree(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    going = {"done": 5, "total": 12, "skipped": 0, "seconds_left": 10.0}
    for photos, ready, none in [
        (0, "The first ones can be searched in a moment.", "No photo can be searched yet."),
        (1, "You can search the 1 photo that is ready.", "None of the 1 photo that are ready"),
        (4, "You can search the 4 that are ready.", "None of the 4 photos that are ready"),
    ]:
        nothing = {"hits": [], "none_fit": True, "unknown": []}
        answering(
            browser,
            health={"indexing": going, "photos": photos},
            search={"body": nothing},
        )
        browser.ask("document.dispatchEvent(new Event('visibilitychange'))")
        text = "document.getElementById('progress-text').textContent"
        browser.wait_for(f"{text}.endsWith({ready!r})")
        assert "5 of 12 photos" in browser.ask(text)
        search(browser, f"a dog {photos}")
        assert none in browser.ask("none.innerText")


def test_photos_appear_and_disappear_without_a_reload(browse: Browse, folder: Path) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    shutil.copy(PHOTOS / "soccer.jpg", folder / "fresh.jpg")
    browser.wait_for(f"({CARDS}).includes('fresh.jpg')")
    (folder / "fresh.jpg").unlink()
    browser.wait_for(f"!({CARDS}).includes('fresh.jpg') && ({CARDS}).length === {len(NAMES) + 1}")
    browser.events.clear()  # its thumbnail may have been asked for meanwhile


def test_corrections_are_undone_and_deleted(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "chelsea.jpg")
    found = browser.ask(CAPTIONS)
    browser.click("#correct")
    before = browser.ask(DRAFTS)
    browser.ask("drafts.querySelector('button').click()")
    drag(browser, (0.02, 0.02), (0.2, 0.2))
    browser.write("an ear")
    assert browser.ask(DRAFTS) == [*before[1:], "an ear"]
    while browser.ask(DRAFTS) != before:
        assert not browser.ask("undo.disabled")
        browser.click("#undo")
    assert browser.ask("undo.disabled")
    browser.ask("drafts.querySelector('input').select()")
    browser.write("a tabby")
    browser.ask("editing.requestSubmit()")
    browser.wait_for("!corrected.hidden")
    corrected = ["a tabby", *before[1:]]
    assert browser.ask(CAPTIONS) == corrected
    assert browser.ask("document.querySelectorAll('#captions small').length") == 0, (
        "no empty figures"
    )
    browser.click("#forget")
    browser.wait_for("!forgotten.hidden")
    assert browser.ask(CAPTIONS) == found
    assert browser.ask("corrected.hidden")
    browser.click("#restore")
    browser.wait_for("!corrected.hidden")
    assert browser.ask(CAPTIONS) == corrected
    browser.click("#forget")
    browser.wait_for("!forgotten.hidden")
    browser.click("#back")
    open_photo(browser, "chelsea.jpg")
    assert browser.ask(CAPTIONS) == found


def test_a_correction_of_a_photo_that_is_gone_is_not_lost(browse: Browse, folder: Path) -> None:
    browser = browse()
    shutil.copy(PHOTOS / "jockey.jpg", folder / "passing.jpg")
    open_photo(browser, "passing.jpg")
    browser.click("#correct")
    browser.ask("drafts.querySelector('input').select()")
    browser.write("a rider")
    (folder / "passing.jpg").unlink()
    browser.ask("editing.requestSubmit()")
    browser.wait_for("!problem.hidden")
    said = browser.ask("problem.innerText")
    assert "Your regions stay on this page" in said
    assert "photo" in said
    assert browser.ask(DRAFTS)[0] == "a rider"
    assert browser.ask("editing.checkVisibility()")
    browser.ask("window.confirm = () => true")
    browser.press("Escape")
    browser = browse()  # later tests must not open the photo that is gone
    browser.wait_for(f"({CARDS}).length > 0 && !({CARDS}).includes('passing.jpg')")
    browser.events.clear()  # Chromium notes the refusal


def test_pictures_are_described_by_what_they_show(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    pairs = (
        "[...document.querySelectorAll('#cards a')]"
        ".map(a => [a.querySelector('img').alt, a.querySelector('p').textContent])"
    )
    for alt, line in browser.ask(pairs):
        assert ".jpg" not in alt
        assert set(line.split(" · ")) <= set(alt.split(", ")) or "not sure" in alt
    search(browser, "a teddy bear")
    alts = browser.ask("[...document.querySelectorAll('#cards img')].map(i => i.alt)")
    assert alts
    assert not any(".jpg" in alt for alt in alts)


def test_everything_is_reached_by_keys_and_the_keys_are_listed(browse: Browse) -> None:
    browser = browse()
    browser.wait_for(LOADED)
    browser.press("?")
    browser.wait_for("document.getElementById('help').open")
    listed = browser.ask("document.getElementById('help').innerText")
    for key in ("/", "Enter", "Esc", "x", "f", "c", "d", "Ctrl Z"):
        assert key in listed
    browser.press("Escape")
    browser.wait_for("!document.getElementById('help').open")
    open_photo(browser, "hug.jpg")
    hidden_focus = """[...document.querySelectorAll('button, a[href], input, summary')]
      .filter((one) => one.checkVisibility() && one.tabIndex >= 0).filter((one) => {
        one.focus({ focusVisible: true });
        const { outlineStyle, outlineWidth } = getComputedStyle(one);
        return document.activeElement !== one || outlineStyle === "none" || outlineWidth === "0px";
      }).map((one) => one.id || one.className)"""
    assert browser.ask(hidden_focus) == [], "the focus is seen wherever it is"


@pytest.mark.parametrize("place", ["/", "/?q=a+dog", "/?caption=a+teddy+bear&after=2001-01-01"])
def test_a_small_phone_has_nothing_to_scroll_sideways(browse: Browse, place: str) -> None:
    browser = browse(place, **PHONE)
    browser.wait_for(f"cards.ariaBusy === 'false' && ({CARDS}).length > 0")
    wide = "document.documentElement.scrollWidth"
    assert browser.ask(wide) <= PHONE["width"]
    browser.ask("document.querySelector('.select').click()")
    assert browser.ask(wide) <= PHONE["width"]
    browser.ask("document.querySelector('.select').click()")
    browser.tap("#cards a img")
    browser.wait_for(f"!viewer.hidden && ({CAPTIONS}).length > 0")
    assert browser.ask(wide) <= PHONE["width"]
    browser.ask("correct.click()")
    browser.wait_for("editing.checkVisibility()")
    assert browser.ask(wide) <= PHONE["width"]
