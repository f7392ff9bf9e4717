"""One HTML page with photos, regions and captions in it: nothing is fetched, nothing beside it is needed.

`page.html` is the page without photos. Its content policy allows its own script and style by their hashes and
pictures that are part of the page, so that nothing in a caption or a file name can ever run or call out.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image

from regiontalk import images
from regiontalk.drawing import PALETTE
from regiontalk.files import replacing
from regiontalk.types import ImageRegions

LONG_SIDE = 1280  # pixels: sharp on a screen, about 200 kB a photo
QUALITY = 82


@contextmanager
def writing_page(path: Path) -> Iterator[Callable[[ImageRegions], None]]:
    """A function that puts a photo on the page; the page is in its place when the block ends well."""
    head, tail = _template().split("{{photos}}")
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(head)
        separator = "\n"

        def add(photo: ImageRegions) -> None:
            nonlocal separator
            file.write(separator + _json_for_html(_entry(photo)))
            separator = ",\n"

        yield add
        file.write(tail)


def _entry(photo: ImageRegions) -> dict[str, Any]:
    image = photo.image if photo.image is not None else images.open_photo(photo.path)
    return photo.to_dict() | {"jpeg": _data_uri(image)}


def _data_uri(image: Image.Image) -> str:
    factor = min(1.0, LONG_SIDE / max(image.size))
    width, height = (max(1, round(side * factor)) for side in image.size)
    buffer = io.BytesIO()
    image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0).save(buffer, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _template() -> str:
    page = (resources.files("regiontalk") / "page.html").read_text(encoding="utf-8")
    palette = ["#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE]
    return page.replace("{{policy}}", _policy(page)).replace("{{palette}}", _json_for_html(palette))


def _policy(page: str) -> str:
    script, style = (_hash_of(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; img-src data:; script-src '{script}'; style-src '{style}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash_of(page: str, tag: str) -> str:
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


def _json_for_html(value: Any) -> str:
    """JSON in ASCII that cannot end the element it stands in."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
