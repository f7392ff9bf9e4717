"""Words taught on the page of `regiontalk serve`."""

from __future__ import annotations

from served_page import CAPTIONS, MARKS, Browse, open_photo, search

pytestmark = MARKS

DIALOG = "document.querySelector('dialog[open]')?.id ?? null"
CARDS = "[...document.querySelectorAll('#cards small')].map(s => s.firstChild.textContent)"


def teach(browse: Browse, name: str, word: str) -> None:
    """By the key, of the first caption."""
    browser = browse()
    open_photo(browser, name)
    browser.ask("document.querySelector('#captions .caption').focus()")
    browser.press("t")
    browser.wait_for(f"({DIALOG}) === 'teach-naming'")
    browser.write(word)
    browser.enter()
    browser.wait_for(f"({DIALOG}) === null && ({CAPTIONS}).some(c => c.includes({word!r}))")


def test_a_region_is_named_with_a_key_and_searched_at_once(browse: Browse) -> None:
    teach(browse, "chelsea.jpg", "Chelsea")
    browser = browse()
    search(browser, "Chelsea")
    browser.wait_for(f"({CARDS})[0] === 'chelsea.jpg'")


def test_a_right_click_asks_too_and_takes_it_back(browse: Browse) -> None:
    teach(browse, "jockey.jpg", "<b>Derby</b>")
    browser = browse()
    open_photo(browser, "jockey.jpg")
    browser.ask(
        "[...document.querySelectorAll('#captions .caption')]"
        ".find(c => c.innerText.includes('Derby')).focus()"
    )
    browser.ask(
        "stage.dispatchEvent(new MouseEvent('contextmenu', {bubbles: true, cancelable: true}))"
    )
    browser.wait_for(f"({DIALOG}) === 'teach-naming'")
    browser.ask(
        "[...document.querySelectorAll('#teach-naming button')]"
        ".find(b => b.innerText.startsWith('This is not')).click()"
    )
    browser.wait_for(f"({DIALOG}) === null && ({CAPTIONS}).length > 0")
    browser.wait_for(f"!({CAPTIONS}).some(c => c.includes('Derby'))")


def test_questions_are_answered_with_one_key_each(browse: Browse) -> None:
    teach(browse, "coffee.jpg", "our mug")
    browser = browse()
    browser.wait_for("!document.getElementById('teach-more').hidden")
    browser.ask("document.getElementById('teach-more').click()")
    browser.wait_for(f"({DIALOG}) === 'teach-asking'")
    count = "document.querySelector('#teach-asking .note').textContent"
    question = "document.querySelector('#teach-asking .sentence').textContent"
    browser.wait_for(f"({count}).startsWith('1 of')")
    total = int(browser.ask(count).split()[-1])
    assert 1 <= total <= 20
    questions = [browser.ask(question)]
    browser.press("n")
    for number in range(2, total + 1):
        browser.wait_for(f"({count}).startsWith('{number} of')")
        questions.append(browser.ask(question))
        browser.press("s")
    browser.wait_for(f"({count}).startsWith('Thank you')")
    assert any("our mug" in asked for asked in questions)


def test_no_dialog_opens_while_one_types_or_nothing_is_marked(browse: Browse) -> None:
    browser = browse()
    open_photo(browser, "bear.jpg")
    browser.ask("document.activeElement.blur()")
    browser.press("t")
    browser.click("#query")
    browser.write("t")
    assert browser.ask(DIALOG) is None
