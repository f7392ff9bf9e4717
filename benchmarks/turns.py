"""What benchmarks of one photo share: options, the photo, and works that take turns."""

from __future__ import annotations

import argparse
import io
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from report import options_of

PHOTO = Path(__file__).parents[1] / "examples" / "photos" / "coffee.jpg"
SIZE = (640, 480)


def read_options(description: str | None) -> argparse.Namespace:
    parser = options_of(description)
    parser.add_argument("--model", help="a model folder; default: the package's own")
    parser.add_argument("--threads", type=int, help="cores; default: all")
    parser.add_argument("--repeats", type=int, default=15)
    return parser.parse_args()


def photo_bytes() -> bytes:
    buffer = io.BytesIO()
    with Image.open(PHOTO) as photo:
        photo.convert("RGB").resize(SIZE).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def take_turns(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median milliseconds of each, after one turn that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - began)
    return {name: 1000 * statistics.median(values) for name, values in seconds.items()}
