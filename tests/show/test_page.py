"""The page: self-contained, nothing in it runs but its own script, and Chromium shows what it
promises."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image

import regiontalk
from chromium import Browser
from regiontalk.errors import ImageError
from regiontalk.images.photo import Photo
from regiontalk.language.object_names import singulars
from regiontalk.results import (
    Alignment,
    AltText,
    Description,
    ImageRegions,
    Region,
    Segment,
    Sentence,
    Shown,
)
from regiontalk.show import page
from regiontalk.show.drawing import PALETTE

EVIL = "</script><script>document.title='owned'</script><!-- <img src=x onerror=alert(1)> & \u2028"


def two_photos(scene: Image.Image) -> list[ImageRegions]:
    mug = Region((60.0, 30.0, 240.0, 180.0), 0.91, "a red mug")
    foam = Region((90.0, 60.0, 150.0, 120.0), 0.42, "foam")
    ghost = Region((0.0, 0.0, 30.0, 30.0), 0.04, "a ghost")
    return [
        ImageRegions(
            "trip/mug.jpg", 300, 200, "m", (mug, foam, ghost), photo=Photo(scene.resize((300, 200)))
        ),
        ImageRegions(
            "trip/scene.jpg",
            *scene.size,
            "m",
            (Region((0.0, 0.0, 40.0, 40.0), 0.5, "the sun"),),
            photo=Photo(scene),
        ),
    ]


def said_of(scene: Image.Image) -> list[page.Result]:
    others = (Sentence("a cup is on a table", -4.0),)
    sentence = Description(
        "mug.jpg", *scene.size, "m", "a mug stands on a table", -3.0, others, photo=Photo(scene)
    )
    return [
        sentence,
        AltText("sun.jpg", *scene.size, "m", "The sun shines.", (), photo=Photo(scene)),
    ]


def aligned(scene: Image.Image) -> Alignment:
    box, other = (10.0, 10.0, 60.0, 50.0), (50.0, 30.0, 90.0, 60.0)
    segments = (
        Segment("a red", (0, 2), box, 0.9, (0.0, 0.8)),
        Segment("house", (2, 3), other, 0.7, (0.7,)),
        Segment("by zxcv", (3, 5), box, 0.2, (0.2, 0.0)),
    )
    return Alignment("house.jpg", "a red house by zxcv", segments, ("zxcv",), photo=Photo(scene))


def write(path: Path, photos: list[Any]) -> str:
    with page.writing_page(path) as add:
        for photo in photos:
            add(photo)
    return path.read_text(encoding="utf-8")


def data_of(text: str) -> dict[str, Any]:
    (block,) = re.findall(
        '<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL
    )
    data: dict[str, Any] = json.loads(block)
    return data


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def jpegs_of(text: str) -> list[Image.Image]:
    blocks = re.findall(r'<script id="jpeg-\d+" type="text/plain">(.*?)</script>', text)
    return [Image.open(io.BytesIO(base64.b64decode(block))) for block in blocks]


def test_the_page_holds_all_photos_and_regions(scene: Image.Image, tmp_path: Path) -> None:
    text = write(tmp_path / "page.html", two_photos(scene))
    data = data_of(text)
    assert [photo["name"] for photo in data["photos"]] == ["trip/mug.jpg", "trip/scene.jpg"]
    assert [region["caption"] for region in data["photos"][0]["regions"]] == [
        "a red mug",
        "foam",
        "a ghost",
    ]
    assert [(picture.format, picture.size) for picture in jpegs_of(text)] == [
        ("JPEG", (300, 200)),
        ("JPEG", (96, 64)),
    ]
    assert text.index('id="data"') < text.index('id="jpeg-0"'), (
        "words and thumbnails come before the photos"
    )


def test_every_photo_has_an_address_of_its_own(scene: Image.Image, tmp_path: Path) -> None:
    names = ["a b/ü.jpg", "", "", "caf\udce9.jpg", '#"<%']
    photos = [ImageRegions(name, *scene.size, "m", (), photo=Photo(scene)) for name in names]
    found = [photo["id"] for photo in data_of(write(tmp_path / "page.html", photos))["photos"]]
    assert found[:2] == ["a%20b/%C3%BC.jpg", "photo"]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[\w/.~%-]+", one, re.ASCII) for one in found)


def test_no_picture_carries_what_the_camera_wrote(scene: Image.Image, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "SecretCamera"
    scene.save(tmp_path / "tagged.jpg", exif=exif, comment=b"secret")
    text = write(
        tmp_path / "page.html", [ImageRegions(str(tmp_path / "tagged.jpg"), *scene.size, "m", ())]
    )
    thumbnail = Image.open(io.BytesIO(base64.b64decode(data_of(text)["photos"][0]["thumbnail"])))
    for picture in (thumbnail, *jpegs_of(text)):
        assert not picture.getexif()
        assert "comment" not in picture.info


@pytest.mark.parametrize(
    ("size", "shown"), [((4000, 3000), (1280, 960)), ((1, 6000), (1, 1280)), ((2, 2), (2, 2))]
)
def test_large_photos_are_made_smaller(
    tmp_path: Path, size: tuple[int, int], shown: tuple[int, int]
) -> None:
    photo = ImageRegions("x.jpg", *size, "m", (), photo=Photo(Image.new("RGB", size)))
    assert [picture.size for picture in jpegs_of(write(tmp_path / "page.html", [photo]))] == [shown]


def test_the_page_begins_with_the_threshold_that_was_asked_for(
    scene: Image.Image, tmp_path: Path
) -> None:
    photo = two_photos(scene)[0]
    for shown, least in [
        (Shown(), {"score": 0.3, "confidence": 0.0}),
        (Shown(0.1, 12, 0.6), {"score": 0.1, "confidence": 0.6}),
        (Shown(0.0, None), {"score": 0.0, "confidence": 0.0}),
    ]:
        assert (
            data_of(write(tmp_path / "page.html", [replace(photo, shown=shown)]))["least"] == least
        )


def test_nothing_from_outside_can_run_or_be_fetched(scene: Image.Image, tmp_path: Path) -> None:
    photo = ImageRegions(
        EVIL, *scene.size, EVIL, (Region((0.0, 0.0, 9.0, 9.0), 0.5, EVIL),), photo=Photo(scene)
    )
    text = write(tmp_path / "page.html", [photo])
    elements = Elements()
    elements.feed(text)
    assert [attributes for tag, attributes in elements.found if tag == "script"] == [
        {"id": "data", "type": "application/json"},
        {},
        {"id": "jpeg-0", "type": "text/plain"},
    ]
    assert not any(
        {"src", "style", "onerror"} & set(attributes) for _, attributes in elements.found
    )
    assert {attributes["href"] for _, attributes in elements.found if "href" in attributes} == {"#"}
    policy = next(
        str(a["content"])
        for _, a in elements.found
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert "http:" not in text.replace("http-equiv", "")
    assert "https:" not in text
    assert data_of(text)["photos"][0]["regions"][0]["caption"] == EVIL


def test_a_name_that_is_no_text_is_kept(scene: Image.Image, tmp_path: Path) -> None:
    photo = ImageRegions("caf\udce9.jpg", *scene.size, "m", (), photo=Photo(scene))
    assert data_of(write(tmp_path / "page.html", [photo]))["photos"][0]["name"] == "caf\udce9.jpg"


def test_a_page_that_fails_leaves_the_old_one(scene: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    broken = ImageRegions(str(tmp_path / "gone.jpg"), 9, 9, "m", ())
    with pytest.raises(ImageError):
        write(path, [*two_photos(scene), broken])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


Browse = Callable[..., Browser]


@pytest.fixture
def browse(browser: Browser, tmp_path: Path) -> Iterator[Browse]:
    """Writes a page and opens it; afterwards, nothing may have been complained of."""

    def open_page(photos: list[Any], fragment: str = "", **window: Any) -> Browser:
        write(tmp_path / "page.html", photos)
        browser.open((tmp_path / "page.html").as_uri() + fragment, **window)
        return browser

    browser.events.clear()
    yield open_page
    complaints = ("Log.entryAdded", "Runtime.exceptionThrown")
    assert not [event for event in browser.events if event["method"] in complaints]


LABEL = "label.hidden ? null : label.textContent"
MARKED = "[...document.querySelectorAll('#captions .active span, .segment.active')].map(s => s.textContent)"
VISIBLE = "[...document.querySelectorAll('{} li')].filter(l => !l.hidden).map(l => l.querySelector('{}').textContent)"
SHOWN = VISIBLE.format("#captions", "span")
CARDS = VISIBLE.format("#cards", "small")
NAME = "document.getElementById('name').textContent"
PHONE = {"width": 390, "height": 844, "touch": True}

pytestmark = pytest.mark.timeout(90)


def test_chromium_shows_an_overview_and_finds_photos_by_words(
    browse: Browse, scene: Image.Image
) -> None:
    browser = browse(two_photos(scene))
    assert browser.ask("document.title") == "2 photos – RegionTalk"
    assert browser.ask(CARDS) == ["mug.jpg", "scene.jpg"]
    assert browser.ask("document.querySelector('#cards img').alt") == "a red mug, foam", (
        "what is likely, not the path"
    )
    assert browser.ask("document.querySelector('#cards p').textContent") == "a red mug · foam"
    for words, cards in [
        ("sun", ["scene.jpg"]),
        ("MUG red", ["mug.jpg"]),
        ("fo", ["mug.jpg"]),  # the beginning of a word
        ("oam", []),
        ("ghost", []),  # it is not shown, so it is not found
        ("trip", ["mug.jpg", "scene.jpg"]),
        ("( [ *", ["mug.jpg", "scene.jpg"]),
    ]:
        browser.click("#search")
        browser.ask("search.select()")
        browser.write(words)
        assert browser.ask(CARDS) == cards, words
        assert browser.ask("nothing.hidden") == bool(cards)
    browser.ask("search.select()")
    browser.write("sun")
    assert browser.ask("document.querySelector('mark').textContent") == "sun"
    assert browser.ask("found.length") == 1
    browser.press("Enter")
    browser.wait_for(f"{NAME} === 'scene.jpg'")
    assert browser.ask("place.textContent") == "1 / 1"


def test_chromium_shows_captions_on_hover_and_focus(browse: Browse, scene: Image.Image) -> None:
    browser = browse(two_photos(scene), "#trip/mug.jpg")
    assert browser.ask("photo.alt") == "a red mug, foam"
    assert browser.ask(LABEL) is None
    # a region shows its caption; the larger one, pointed at first, does not hide the smaller one in
    # it
    browser.point_at(".region", 0.95, 0.95)
    assert (browser.ask(LABEL), browser.ask(MARKED)) == ("a red mug", ["a red mug"])
    browser.point_at(".region + .region")
    assert (browser.ask(LABEL), browser.ask(MARKED)) == ("foam", ["foam"])
    # a caption shows its region
    browser.point_at("#captions button")
    assert browser.ask(LABEL) == "a red mug"
    browser.point_at("h1#name")
    assert browser.ask(LABEL) is None
    # without a mouse
    browser.ask("document.querySelectorAll('#captions button')[1].focus()")
    assert browser.ask(LABEL) == "foam"


def test_chromium_shows_what_is_likely_until_asked_for_more(
    browse: Browse, scene: Image.Image
) -> None:
    browser = browse(two_photos(scene), "#trip/mug.jpg")
    assert browser.ask(SHOWN) == ["a red mug", "foam"]
    assert browser.ask("count.textContent") == "2 of 3 regions"
    for shown in (
        ["a red mug", "foam", "a ghost"],
        ["a red mug", "foam"],
    ):  # all, and likely ones again
        browser.click("#all")
        assert browser.ask(SHOWN) == shown
    browser.ask("sliders.score.value = 60; sliders.score.dispatchEvent(new Event('input'))")
    assert browser.ask(SHOWN) == ["a red mug"]
    assert browser.ask("document.querySelectorAll('.region:not([hidden])').length") == 1
    assert browser.ask("columns.innerText.trim()") == "place", "a score is the place's"
    assert not browser.ask("sliders.confidence.checkVisibility()")


def test_chromium_shows_given_boxes_all_and_without_scores(
    browse: Browse, scene: Image.Image
) -> None:
    browser = browse([replace(two_photos(scene)[0], shown=Shown(0.0, None, sure_score=0.0))])
    assert browser.ask(SHOWN) == ["a red mug", "foam", "a ghost"]
    assert not browser.ask("sliders.score.checkVisibility()")
    assert "%" not in browser.ask("document.body.innerText")


def test_chromium_shows_how_likely_the_words_are_where_that_is_known(
    browse: Browse, scene: Image.Image
) -> None:
    mug, sun = two_photos(scene)
    sure = tuple(
        replace(one, confidence=value)
        for one, value in zip(mug.regions, (0.8, 0.2, 0.9), strict=True)
    )
    photos = [replace(mug, regions=sure), sun]
    browser = browse(
        [replace(photo, shown=Shown(confidence=0.5)) for photo in photos], "#trip/mug.jpg"
    )
    assert browser.ask(SHOWN) == ["a red mug"]
    assert browser.ask("columns.innerText.split(/\\s+/)") == ["words", "place"]
    assert browser.ask(
        "[...document.querySelectorAll('#captions li:first-child small')].map(s => s.textContent)"
    ) == [
        "80 %",
        "91 %",
    ]
    browser.ask(
        "sliders.confidence.value = 10; sliders.confidence.dispatchEvent(new Event('input'))"
    )
    assert browser.ask(SHOWN) == ["a red mug", "foam"]


def test_chromium_shows_the_likeliest_region_at_first_where_none_is_likely(
    browse: Browse, scene: Image.Image
) -> None:
    mug = two_photos(scene)[0]
    unsure = tuple(
        replace(one, confidence=value)
        for one, value in zip(mug.regions, (0.2, 0.45, 0.4), strict=True)
    )
    browser = browse([replace(mug, regions=unsure, shown=Shown(confidence=0.5))])
    assert browser.ask(SHOWN) == ["foam"], (
        "its place is less sure than the mug's, its words are surer"
    )
    assert browser.ask("document.querySelectorAll('.region:not([hidden])').length") == 1
    browser.ask(
        "sliders.confidence.value = 90; sliders.confidence.dispatchEvent(new Event('input'))"
    )
    assert browser.ask(SHOWN) == []


def test_chromium_marks_what_is_not_sure(browse: Browse, scene: Image.Image) -> None:
    mug, sun = two_photos(scene)
    ghost = replace(mug.regions[1], confidence=0.3)
    unsure = replace(mug, regions=(ghost,), shown=Shown(confidence=0.5, sure_confidence=0.5))
    browser = browse([unsure, sun])
    assert browser.ask("document.querySelector('#cards img').alt") == "foam (not sure)"
    assert browser.ask("document.querySelector('#cards p').innerText") == "foam not sure"
    browser.click("#cards a")
    browser.wait_for("!viewer.hidden")
    assert browser.ask(SHOWN) == ["foam"]
    colour = "getComputedStyle(document.querySelector('{}')).color"
    faint = browser.ask(colour.format("#path"))
    assert browser.ask(colour.format("#captions .words")) == faint
    assert browser.ask("document.querySelector('#captions .words').innerText") == "foam not sure"
    assert browser.ask("document.querySelector('.tag').textContent") == "foam (not sure)"
    browser.point_at("#captions button")
    assert browser.ask(LABEL) == "foam (not sure)"
    others = (Sentence("two shoes", -9.5),)
    description = Description(
        "mug.jpg", *scene.size, "m", "two wrestlers", -9.0, others, photo=Photo(scene)
    )
    assert not description.sure
    browser = browse([description])
    assert browser.ask("sentence.innerText") == "two wrestlers not sure"
    assert browser.ask("alternatives.querySelector('li').innerText") == "two shoes not sure"
    assert browser.ask("photo.alt") == "two wrestlers (not sure)"
    assert browser.ask(colour.format("#sentence .words")) == faint


def test_chromium_shows_captions_on_the_boxes(browse: Browse, scene: Image.Image) -> None:
    browser = browse(two_photos(scene), "#trip/mug.jpg")
    tags = "[...document.querySelectorAll('.tag')].filter(t => t.checkVisibility()).map(t => t.textContent)"
    browser.wait_for("photo.complete")
    assert browser.ask(tags) == ["a red mug", "foam"], "not those of regions that are hidden"
    browser.click("#all")
    assert browser.ask(tags) == ["a red mug", "foam", "a ghost (not sure)"]


def test_chromium_finds_singular_and_plural(browse: Browse, scene: Image.Image) -> None:
    boxes = (
        Region((0.0, 0.0, 40.0, 40.0), 0.9, "two men"),
        Region((5.0, 5.0, 40.0, 40.0), 0.9, "a knife"),
    )
    dog = replace(two_photos(scene)[1], regions=boxes)
    browser = browse([two_photos(scene)[0], dog])
    for words, cards in [
        ("mugs", ["mug.jpg"]),
        ("man", ["scene.jpg"]),
        ("knives", ["scene.jpg"]),
        ("glass", []),
    ]:
        browser.click("#search")
        browser.ask("search.select()")
        browser.write(words)
        assert browser.ask(CARDS) == cards, words
    browser.ask("search.select()")
    browser.write("mugs")
    assert browser.ask("document.querySelector('mark').textContent") == "mug"
    words = [
        "dogs",
        "dog",
        "men",
        "children",
        "buses",
        "ponies",
        "wolves",
        "glass",
        "boxes",
        "mice",
        "constructor",
    ]
    assert browser.ask(f"{json.dumps(words)}.map(singulars)") == [
        [*singulars(word)] for word in words
    ]


def test_chromium_leaves_out_figures_that_are_not_known(browse: Browse, scene: Image.Image) -> None:
    mug, sun = two_photos(scene)
    sure = replace(mug, regions=(replace(mug.regions[0], confidence=0.8), *mug.regions[1:]))
    browser = browse([sure, sun], "#trip/mug.jpg")
    assert browser.ask(
        "[...document.querySelectorAll('#captions small')].map(s => s.textContent)"
    ) == [
        *("80 %", "91 %"),
        *("", "42 %"),
        *("", "4 %"),
    ]


def test_chromium_goes_from_photo_to_photo(browse: Browse, scene: Image.Image) -> None:
    browser = browse(two_photos(scene))
    browser.click("#cards li:nth-child(2) a")
    browser.wait_for(f"{NAME} === 'scene.jpg'")
    assert browser.ask("location.hash") == "#trip/scene.jpg"
    assert browser.ask("photo.decode().then(() => photo.naturalWidth)") == 96
    names = ["mug.jpg", "scene.jpg", "mug.jpg", "scene.jpg"]
    for key, name in zip(("ArrowRight", "ArrowLeft", "j", "k"), names, strict=True):
        browser.press(key)
        browser.wait_for(f"{NAME} === {name!r}")
    browser.click("#next")
    browser.wait_for(f"{NAME} === 'mug.jpg'")
    browser.ask("history.back()")
    browser.wait_for("!overview.hidden")  # one step back, however many photos were looked at
    browser.press("/")
    browser.wait_for("document.activeElement === search")
    browser.ask("location.hash = 'trip/mug.jpg'")
    browser.wait_for(f"!viewer.hidden && {NAME} === 'mug.jpg'")
    browser.press("Escape")
    browser.wait_for("!overview.hidden")


def test_chromium_on_a_phone(browse: Browse, scene: Image.Image) -> None:
    browser = browse(two_photos(scene), "#trip/mug.jpg", **PHONE)
    assert browser.ask(
        "[...document.querySelectorAll('.keys')].every(one => !one.checkVisibility())"
    ), "no keyboard"
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    browser.tap("#captions button")
    browser.wait_for(f"({LABEL}) === 'a red mug'")
    browser.swipe("#stage", 0.8, 0.2)
    browser.wait_for(f"{NAME} === 'scene.jpg'")
    browser.swipe("#stage", 0.2, 0.8)
    browser.wait_for(f"{NAME} === 'mug.jpg'")


def test_chromium_shows_sentences_without_scores(browse: Browse, scene: Image.Image) -> None:
    browser = browse(said_of(scene))
    assert (
        browser.ask("document.querySelector('#cards p').textContent") == "a mug stands on a table"
    )
    browser.click("#cards a")
    browser.wait_for("!viewer.hidden")
    assert (
        browser.ask("sentence.innerText") == browser.ask("photo.alt") == "a mug stands on a table"
    )
    assert browser.ask("[...alternatives.querySelectorAll('li')].map(l => l.innerText)") == [
        "a cup is on a table"
    ]
    assert browser.ask("document.querySelectorAll('.region').length") == 0
    assert not browser.ask("document.getElementById('found-regions').checkVisibility()")
    assert "%" not in browser.ask("document.body.innerText")
    browser.press("ArrowRight")
    browser.wait_for("sentence.innerText === 'The sun shines.'")
    assert not browser.ask("alternatives.checkVisibility()")


def test_chromium_colours_the_words_of_an_alignment_by_region(
    browse: Browse, scene: Image.Image
) -> None:
    browser = browse([aligned(scene)])
    assert browser.ask("sentence.innerText.trim()") == "a red house by zxcv"
    assert browser.ask("unknown.innerText").endswith("zxcv")
    assert browser.ask("document.querySelectorAll('.region').length") == 2, (
        "two segments share a region"
    )
    browser.point_at(".segment")
    assert browser.ask(MARKED) == ["a red", "by zxcv"]
    assert not browser.ask("back.checkVisibility()"), "there is no other photo"


LOW_CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = rgb(getComputedStyle(one).backgroundColor);
      if (colour.length === 3) return colour;
    }
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), low = [];
  for (let text; (text = texts.nextNode());) {
    const one = text.parentElement;
    if (!text.data.trim() || !one.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(one).color)), light(ground(one))].sort((a, b) => a - b);
    if ((b + 0.05) / (a + 0.05) < 4.5) low.push([one.tagName, text.data]);
  }
  return low;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_chromium_finds_all_text_readable(browse: Browse, scene: Image.Image, dark: bool) -> None:
    browser = browse(two_photos(scene), dark=dark)
    ground = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 19, 22)") is dark
    browser.click("#search")
    browser.write("mug")
    assert browser.ask("document.querySelectorAll('mark').length") > 0
    assert browser.ask(LOW_CONTRAST) == []
    browser.press("Enter")
    browser.wait_for("!viewer.hidden")
    for number in (1, 2):
        browser.point_at(f"#captions li:nth-child({number}) button")
        assert browser.ask(LABEL)
        assert browser.ask(LOW_CONTRAST) == []
    for more in ([aligned(scene)], said_of(scene)):
        assert browse(more, "#mug.jpg", dark=dark).ask(LOW_CONTRAST) == []
        browser.point_at("#sentence")
        assert browser.ask(LOW_CONTRAST) == []


@pytest.mark.parametrize(
    "window", [PHONE, {"width": 1366, "height": 768}, {"width": 2560, "height": 1300}]
)
@pytest.mark.parametrize("size", [(300, 200), (60, 40), (1000, 3000), (4000, 500), (2, 2)])
def test_chromium_lays_captions_beside_photos_of_any_size(
    browse: Browse, window: dict[str, Any], size: tuple[int, int]
) -> None:
    region = Region((0.0, 0.0, size[0] / 2, size[1] / 2), 0.9, "a mug")
    browser = browse(
        [ImageRegions("mug.jpg", *size, "m", (region,), photo=Photo(Image.new("RGB", size)))],
        **window,
    )
    left, top, width, height, said_left, said_top, wide = browser.ask(
        "(() => { const s = stage.getBoundingClientRect(), w = document.getElementById('said').getBoundingClientRect();"
        " return [s.x, s.y, s.width, s.height, w.x, w.y, document.documentElement.scrollWidth]; })()"
    )
    assert wide <= window["width"], "nothing to scroll sideways"
    assert top + height <= window["height"] + 1
    assert min(width, height) >= 16
    if max(size) > 16:
        assert (
            width / height == pytest.approx(size[0] / size[1], rel=0.02) or min(width, height) < 17
        )
    gap = said_top - (top + height) if window == PHONE else said_left - (left + width)
    assert 8 <= gap <= 40, "no void between photo and captions"


def test_chromium_shows_hostile_text_as_text(browse: Browse, scene: Image.Image) -> None:
    photo = ImageRegions(
        EVIL, *scene.size, "m", (Region((0.0, 0.0, 90.0, 60.0), 0.5, EVIL),), photo=Photo(scene)
    )
    browser = browse([photo, photo])
    for word in ("script", "img"):
        browser.click("#search")
        browser.ask("search.select()")
        browser.write(word)
        assert len(browser.ask(CARDS)) == 2
    assert browser.ask("document.querySelector('#cards p').textContent") == EVIL
    browser.press("Enter")
    browser.wait_for("!viewer.hidden")
    assert browser.ask("path.textContent").startswith(EVIL)
    assert browser.ask(SHOWN) == [EVIL]
    assert browser.ask("document.images.length") == 3
    assert browser.ask("document.title") != "owned"
    browser.ask(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
    )
    assert browser.ask("window.ran") is None, "the content policy lets nothing else run"
    browser.events.clear()  # which Chromium has noted


def test_scripts_never_make_html_of_text() -> None:
    for script in Path(regiontalk.__file__).parent.rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert not re.search(
            "innerHTML|outerHTML|insertAdjacentHTML|document.write|eval|Function\\(", text
        ), script


def test_the_page_and_pictures_have_the_same_colours() -> None:
    script = (Path(page.__file__).parent / "shared/regions.js").read_text(encoding="utf-8")
    (palette,) = re.findall(r"PALETTE = \[(.*?)\];", script, re.DOTALL)
    assert re.findall('"(.*?)"', palette) == [
        "#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE
    ]
