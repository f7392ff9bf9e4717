"""Captions corrected on the page of `regiontalk serve`, and what is saved of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from regiontalk.lab.data.records import Dataset
from served import drop
from served_page import (
    CAPTIONS,
    DRAFTS,
    EVIL,
    EVIL_NAME,
    MARKS,
    NAME,
    PHOTOS,
    Browse,
    drag,
    open_again,
    open_photo,
)

pytestmark = MARKS


def test_captions_are_corrected_and_saved_as_records(browse: Browse, folder: Path) -> None:
    browser = browse()
    open_photo(browser, "coffee.jpg")
    browser.click("#correct")
    before = browser.ask(DRAFTS)
    browser.ask("drafts.querySelector('input').select()")
    browser.write(EVIL)
    browser.ask("drafts.querySelector('li:last-child button').click()")
    browser.point_at("#photo", 0.02, 0.98)
    drag(browser, (0.01, 0.99), (0.15, 0.85))  # a new one, whose words are asked for
    assert browser.ask("document.activeElement.value") == ""
    browser.write("a corner")
    drag(browser, (0.08, 0.9), (0.28, 0.7))  # moved
    drag(browser, (0.35, 0.79), (0.45, 0.89))  # by its corner
    browser.ask("editing.requestSubmit()")
    browser.wait_for("!looking.hidden && !corrected.hidden")
    expected = [EVIL, *before[1:-1], "a corner"]
    assert browser.ask(CAPTIONS) == expected
    open_again(browser, f"({CAPTIONS}).length > 0")
    assert browser.ask(CAPTIONS) == expected
    assert browser.ask("document.title") != "owned"
    dataset = Dataset(folder / ".regiontalk" / "corrections")
    (record,) = [record for record in dataset if record.image.endswith("coffee.jpg")]
    assert [region.phrase for region in record.regions] == expected
    left, top, right, bottom = record.regions[-1].xyxy
    shares = [
        left / record.width,
        top / record.height,
        right / record.width,
        bottom / record.height,
    ]
    assert shares == pytest.approx([0.21, 0.65, 0.45, 0.89], abs=0.02)


def test_a_dropped_photo_is_saved_with_its_corrections(browse: Browse, folder: Path) -> None:
    browser = browse()
    drop(browser, EVIL_NAME, (PHOTOS / "soccer.jpg").read_bytes())
    browser.wait_for(f"({CAPTIONS}).length > 0")
    browser.click("#correct")
    browser.click("#add")
    browser.ask("editing.requestSubmit()")
    browser.wait_for("!problem.hidden")  # it has no words
    browser.write("a player")
    for key in ("ArrowRight", "Delete"):  # in the words, they are no commands
        browser.press(key)
    browser.ask("editing.requestSubmit()")
    browser.wait_for("!corrected.hidden")
    assert browser.ask(NAME) == EVIL_NAME
    dataset = Dataset(folder / ".regiontalk" / "corrections")
    (record,) = [record for record in dataset if record.image.startswith("photos/")]
    assert record.regions[-1].phrase == "a player"
    assert dataset.read_photo(record) == (PHOTOS / "soccer.jpg").read_bytes()


def test_a_region_that_was_added_is_placed_by_the_next_drag(browse: Browse, folder: Path) -> None:
    browser = browse()
    open_photo(browser, "jockey.jpg")
    browser.click("#correct")
    before = browser.ask(DRAFTS)
    browser.click("#add")
    drag(browser, (0.02, 0.02), (0.22, 0.27))
    assert browser.ask(DRAFTS) == [*before, ""], "one, not two"
    browser.write("the sky")
    drag(browser, (0.75, 0.02), (0.95, 0.17))  # the next one is another
    browser.write("a tree")
    browser.ask("editing.requestSubmit()")
    browser.wait_for("!corrected.hidden")
    dataset = Dataset(folder / ".regiontalk" / "corrections")
    (record,) = [record for record in dataset if record.image.endswith("jockey.jpg")]
    assert [region.phrase for region in record.regions] == [*before, "the sky", "a tree"]
    left, top, right, bottom = record.regions[-2].xyxy
    shares = [
        left / record.width,
        top / record.height,
        right / record.width,
        bottom / record.height,
    ]
    assert shares == pytest.approx([0.02, 0.02, 0.22, 0.27], abs=0.02)
