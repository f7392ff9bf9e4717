"""How quickly a page of many photos opens in Chromium, how soon `serve` answers, and how heavy the
first view of its page is: python benchmarks/page.py [--photos N] [--json]

The photos are sheets of four example photos, 1280×960: about 200 kB each, as phone photos are on a
page.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from regiontalk.images.photo import Photo
from regiontalk.results import ImageRegions, Region
from regiontalk.show.page import writing_page
from report import options_of, report

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Browser  # noqa: E402
from http_server import serving  # noqa: E402

FIRST_VIEW = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SEARCH = """(() => {
  const began = performance.now();
  search.value = "red mug";
  filterCards();
  document.body.offsetHeight;
  return performance.now() - began;
})()"""
THUMBNAILS = """document.querySelectorAll('#cards img').length > 0
  && [...document.querySelectorAll('#cards img')].some((one) => one.complete && one.naturalWidth > 0)"""
SIZES = "performance.getEntries().map((e) => [e.name, e.decodedBodySize ?? 0])"
LAST_PHOTO = """(async () => {
  const began = performance.now();
  location.hash = photos.at(-1).id;
  await new Promise((done) => addEventListener("hashchange", done, { once: true }));
  await photo.decode();
  return performance.now() - began;
})()"""


def write_page(path: Path, count: int) -> None:
    files = sorted((ROOT / "examples" / "photos").glob("*.jpg"))
    quarters = [Image.open(file).convert("RGB").resize((640, 480)) for file in files]
    regions = tuple(
        Region(
            (40.0 * n, 30.0 * n, 40.0 * n + 500, 30.0 * n + 400),
            1 - 0.07 * n,
            f"a {colour} {thing}",
        )
        for n, (colour, thing) in enumerate(
            itertools.product(("red", "blue", "small"), ("dog", "mug", "wall", "tree"))
        )
    )
    with writing_page(path) as add:
        for number, parts in zip(
            range(count), itertools.cycle(itertools.product(quarters, repeat=4)), strict=False
        ):
            sheet = Image.new("RGB", (1280, 960))
            for part, corner in zip(parts, itertools.product((0, 640), (0, 480)), strict=True):
                sheet.paste(part, corner)
            add(
                ImageRegions(
                    f"trip/{number:05}.jpg", 1280, 960, "none", regions, photo=Photo(sheet)
                )
            )


def measure(address: str, profile: Path, repeats: int) -> dict[str, float]:
    """Medians, in milliseconds."""
    browser = Browser(profile)
    measured: dict[str, list[float]] = {"first_view_ms": [], "search_ms": [], "last_photo_ms": []}
    try:
        for _ in range(repeats):
            browser.open(address)
            browser.wait_for(FIRST_VIEW)
            for name, question in zip(measured, (FIRST_VIEW, SEARCH, LAST_PHOTO), strict=True):
                measured[name].append(browser.ask(question))
    finally:
        browser.close()
    return {name: round(statistics.median(values), 1) for name, values in measured.items()}


def measure_server(profile: Path) -> dict[str, float]:
    """Seconds from the start of the process to its first answer, and kB of the page without and
    with what comes from the API: lists and thumbnails."""
    browser, began = Browser(profile), time.monotonic()
    try:
        with serving(ROOT / "examples" / "photos", "--index", profile / "index") as server:
            server.get("/api/health")
            seconds = time.monotonic() - began
            server.wait_for_index()
            browser.open(f"http://127.0.0.1:{server.port}/")
            browser.wait_for(THUMBNAILS)
            sizes = browser.ask(SIZES)
            browser.open("data:text/html,")  # which asks nothing of a server that is gone
    finally:
        browser.close()
    own = sum(size for name, size in sizes if "/api/" not in name)
    whole = sum(size for _, size in sizes)
    return {
        "serve_first_answer_s": round(seconds, 2),
        "serve_page_kb": round(own / 1000, 1),
        "serve_page_with_thumbnails_kb": round(whole / 1000, 1),
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--photos", type=int, default=330)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write_page(page, asked.photos)
        result = {"photos": asked.photos, "megabytes": round(page.stat().st_size / 1e6, 1)}
        result |= measure(page.as_uri(), Path(folder) / "profile", asked.repeats)
        result |= measure_server(Path(folder) / "serve")
    report(result, asked.json)


if __name__ == "__main__":
    main()
