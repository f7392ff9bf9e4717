"""Results in notebooks: a picture, and the texts below it."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from PIL import Image

from regiontalk.images import photo

LONG_SIDE = 1024  # pixels: a notebook keeps every picture that it shows


def to_html(picture: Image.Image, rows: Sequence[tuple[str, str]]) -> str:
    """The picture and a table of `rows` below it; texts are escaped."""
    source = base64.b64encode(encode(picture, "JPEG", quality=90)).decode("ascii")
    cells = "".join(
        "<tr><td "
        f'style="text-align:left">{html.escape(words)}</td><td>{html.escape(figure)}</td></tr>'
        for words, figure in rows
    )
    alt = html.escape("; ".join(words for words, _ in rows), quote=True)
    image = f'<img src="data:image/jpeg;base64,{source}" alt="{alt}" style="max-width:100%">'
    return f"{image}<table>{cells}</table>"


def encode(picture: Image.Image, form: str, **options: int) -> bytes:
    """A reduced copy of the picture as a file of the format `form`."""
    small = picture.copy()
    small.thumbnail((LONG_SIDE, LONG_SIDE))
    return photo.encode(small, form, **options)
