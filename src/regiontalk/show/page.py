"""One self-contained HTML page with photos and their results.

`page.html`, `page.css` and `page.js` are the page without photos; regions are shown by the files in
`shared`, as on the page of `regiontalk serve`. The thumbnails and all texts come first, so that the
overview is shown before the browser has read the photos. The page's content security policy allows
only its own script and style (by their hashes) and embedded pictures, so that nothing in a caption
or a file name can run or load anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from PIL import Image

from regiontalk.images.photo import Photo, encode, reduced
from regiontalk.io.files import replacing
from regiontalk.language.object_names import IRREGULAR_PLURALS
from regiontalk.results import Alignment, AltText, Description, Hit, ImageRegions, Tags

LONG_SIDE = 1280  # pixels: sharp on a screen, about 200 kB per photo
THUMBNAIL = 320  # pixels, about 12 kB

Result = ImageRegions | Description | AltText | Tags | Alignment | Hit


@contextmanager
def writing_page(path: Path) -> Iterator[Callable[[Result], None]]:
    """A function that adds a photo to the page; the page is written when the block ends without
    error."""
    before, between, after = _template()
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
        tempfile.TemporaryFile("w+", encoding="ascii", dir=path.parent) as photos,
    ):
        file.write(before)
        entries = _Entries(file, photos)
        yield entries.add
        file.write(between.replace("{{least}}", json.dumps(entries.least)))
        photos.seek(0)
        shutil.copyfileobj(photos, file)
        file.write(after)


@dataclass
class _Entries:
    """Writes texts and thumbnails to one file, and photos to another."""

    file: TextIO
    photos: TextIO
    ids: set[str] = field(default_factory=set)
    least: dict[str, float] = field(default_factory=lambda: {"score": 1.0, "confidence": 1.0})
    """The limits for regions that are shown at first."""

    def add(self, result: Result) -> None:
        large, size = (result.photo or Photo(result.path)).preview(LONG_SIDE)
        identity = _free_id(result.path, self.ids)
        entry = {
            "id": identity,
            "thumbnail": jpeg_base64(reduced(large, THUMBNAIL), 70),
            **_entry(result, size),
        }
        self.file.write((",\n" if self.ids else "\n") + json_for_html(entry))
        self.photos.write(
            f'<script id="jpeg-{len(self.ids)}" '
            f'type="text/plain">{jpeg_base64(large, 80)}</script>\n'
        )
        self.ids.add(identity)
        if isinstance(result, ImageRegions):
            self.least["score"] = min(self.least["score"], result.shown.threshold)
            self.least["confidence"] = min(self.least["confidence"], result.shown.confidence)


def _entry(result: Result, size: tuple[int, int]) -> dict[str, Any]:
    """The data of a result for the script; boxes in pixels of a photo of `width` times `height`."""
    entry: dict[str, Any] = {
        "name": result.path,
        "width": size[0],
        "height": size[1],
        "regions": [],
    }
    match result:
        case Description():
            others = [{"text": other.sentence, "sure": other.sure} for other in result.alternatives]
            return entry | {
                "sentence": result.sentence,
                "sure": result.sure,
                "alternatives": others,
            }
        case AltText():
            return entry | {"sentence": result.text, "sure": result.sure}
        case Tags():
            return entry | {"sentence": ", ".join(result.keywords)}
        case Alignment():
            return entry | {key: value for key, value in result.to_dict().items() if key != "path"}
        case Hit():
            pairs = zip(result.to_dict()["regions"], result.labels(), strict=True)
            return entry | {"regions": [region | {"caption": label} for region, label in pairs]}
        case ImageRegions():
            return entry | {"regions": _regions(result)}


def _regions(photo: ImageRegions) -> list[dict[str, Any]]:
    """The regions, and whether the model is sure of them. Given boxes have no score, because they
    were not detected."""
    left_out = {"score"} if photo.shown.sure_score == 0 else set()
    regions = []
    for region, plain in zip(photo.regions, photo.to_dict()["regions"], strict=True):
        kept = {key: value for key, value in plain.items() if key not in left_out}
        regions.append({**kept, "sure": photo.is_sure(region)})
    return regions


def _free_id(path: str, taken: set[str]) -> str:
    """A photo's place in the page's address, `page.html#holiday/a.jpg`."""
    name = quote(path or "photo", errors="surrogatepass")
    return name if name not in taken else f"{name}~{len(taken)}"


def jpeg_base64(image: Image.Image, quality: int) -> str:
    return base64.b64encode(encode(image, "JPEG", quality=quality)).decode("ascii")


def _template() -> tuple[str, str, str]:
    """The page before the entries, between entries and photos, and after the photos."""
    regions = _read("shared/regions.js").replace(
        "export ", ""
    )  # a module when served, part of the script here
    head, rest = fill_template("page", _read("shared/base.css"), f'"use strict";\n{regions}').split(
        "{{data}}"
    )
    between, after = rest.split("{{photos}}")
    plurals = f'"irregular": {json_for_html(IRREGULAR_PLURALS)}'
    return f'{head}{{"photos": [', f'], {plurals}, "least": {{{{least}}}}}}{between}', after


def fill_template(name: str, style: str = "", script: str = "", package: str = __package__) -> str:
    """NAME.html of a package with NAME.css and NAME.js in it, after `style` and `script`, which its
    content policy allows."""
    html, own_style, own_script = (
        _read(f"{name}.{kind}", package) for kind in ("html", "css", "js")
    )
    style = style + own_style
    script = script + own_script
    return (
        html.replace("{{policy}}", _policy(script, style))
        .replace("{{style}}", style)
        .replace("{{script}}", script)
    )


def _read(name: str, package: str = __package__) -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; img-src data:; script-src '{_hash(script)}'; style-src "
        f"'{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


def json_for_html(value: Any) -> str:
    """JSON in ASCII that cannot close the HTML element around it."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
