"""A photo of 12 megapixels captioned, against the same photo at 640×480; and the memory that large
photos take.

Both JPEGs are captioned in turns in one process. Peer of the boxes: the large photo decoded whole.
Memory is that of `regiontalk caption --json` on eight photos of 50 megapixels, of one format and
mixed, in a process of its own (Linux).

python benchmarks/large_photos.py --json
"""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import regiontalk
from regiontalk.boxes import iou
from regiontalk.images.photo import open_photo, resize
from regiontalk.model import Model
from regiontalk.results import ImageRegions
from report import report
from turns import PHOTO, SIZE, read_options, take_turns

PHONE = (4032, 3024)
LARGEST = (8160, 6120)
PHOTOS = 8
LARGE_FILES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("jpg", "JPEG", {}),
    ("png", "PNG", {"compress_level": 1}),
    (
        "webp",
        "WEBP",
        {"lossless": True, "quality": 0, "method": 0},
    ),  # takes more memory than a lossy one
)

# Linux counts a process's peak from its start only there, not in `wait4`.
CAPTION = """
import sys
from regiontalk.cli.main import run
code = run(["caption", *sys.argv[1:]])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak, file=sys.stderr)
sys.exit(code)
"""


def encode(size: tuple[int, int], kind: str = "JPEG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    with Image.open(PHOTO) as photo:
        large = photo.convert("RGB").resize(size, Image.Resampling.BICUBIC)
        large.save(buffer, kind, **{"quality": 90, **options})
    return buffer.getvalue()


def phone_photos() -> Iterator[bytes]:
    for path in sorted(PHOTO.parent.glob("*.jpg")):
        buffer = io.BytesIO()
        with Image.open(path) as photo:
            photo.convert("RGB").resize(PHONE, Image.Resampling.BICUBIC).save(
                buffer, "JPEG", quality=90
            )
        yield buffer.getvalue()


def moved(found: ImageRegions, expected: ImageRegions) -> list[float]:
    """How far the ten best regions lie from the nearest of those expected: the largest difference
    of their sides, in percent of the long side.
    """
    boxes = np.array([region.xyxy for region in expected.regions]) / expected.width
    own = np.array([region.xyxy for region in found.regions[:10]]) / found.width
    nearest = boxes[iou(own, boxes).argmax(axis=1)]
    return [100 * value for value in np.abs(nearest - own).max(axis=1).tolist()]


def box_figures(model: Model) -> dict[str, float]:
    """The boxes of large photos against those of the photos decoded whole. Two regions that score
    nearly the same may change places by any change of a photo: how often is shown by a change of
    one single value by one level.
    """
    reduced, touched = [], []
    for data in phone_photos():
        whole = resize(open_photo(data), model.runtime.info.input_size).pixels
        expected = model(whole)
        reduced += moved(model(data), expected)
        whole[0, 0, 0] ^= 1
        touched += moved(model(whole), expected)
    figures = {}
    for name, found in (("reduced", reduced), ("one_value_changed", touched)):
        figures[f"{name}_boxes_within_1_percent"] = float(np.mean(np.array(found) <= 1))
        figures[f"{name}_box_difference_percent_median"] = float(np.median(found))
    return figures


def memory(workers: int, files: Sequence[tuple[str, bytes]]) -> float:
    """Peak megabytes for `PHOTOS` photos: the given ones, named by their endings, in turns."""
    with tempfile.TemporaryDirectory() as name:
        for number, (ending, data) in zip(range(PHOTOS), itertools.cycle(files), strict=False):
            (Path(name) / f"{number}.{ending}").write_bytes(data)
        command = [sys.executable, "-c", CAPTION, name, "--json", "-q", "-j", str(workers)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1024


def main() -> None:
    options = read_options(__doc__)
    model = regiontalk.load(options.model, threads=options.threads)
    photos = {
        "small": encode(SIZE),
        "large": encode(PHONE),
        "progressive": encode(PHONE, progressive=True),
    }
    times = take_turns(
        {name: lambda data=data: model(data) for name, data in photos.items()}, options.repeats
    )
    out = {f"{name}_ms": round(value, 1) for name, value in times.items()}
    out |= {
        f"{name}_over_small": round(times[name] / times["small"], 3)
        for name in ("large", "progressive")
    }
    out |= {name: round(value, 3) for name, value in box_figures(model).items()}
    files = [(name, encode(LARGEST, kind, **more)) for name, kind, more in LARGE_FILES]
    for name, given in {**{name: [(name, data)] for name, data in files}, "mixed": files}.items():
        out[f"memory_50_megapixels_{name}_j2_mb"] = round(memory(2, given))
    report(out, options.json)


if __name__ == "__main__":
    main()
