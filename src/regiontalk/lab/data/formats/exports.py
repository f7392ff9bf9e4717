"""Results in other programs' formats. What `caption --format` writes, `data prepare` reads, except
for tracks of videos.

Each format's writer is in one file with its reader. Numbers are those of `--json`: boxes in
hundredths of a pixel of the upright photo, scores of six digits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from regiontalk.io.files import json_line
from regiontalk.lab.data.formats import (
    coco,
    csv_table,
    hugging_face,
    label_studio,
    visual_genome,
    vtt,
    yolo,
)
from regiontalk.results import ImageRegions

Put = Callable[[ImageRegions], object]

WHOLE: dict[str, Callable[[Sequence[ImageRegions]], Any]] = {
    "coco": coco.to_coco,
    "vg": visual_genome.to_visual_genome,
    "labelstudio": label_studio.to_label_studio,
}
"""Formats with one JSON value for all photos."""
LINES: dict[str, tuple[bytes, Callable[[ImageRegions], bytes]]] = {
    "hf": (b"", lambda photo: json_line(hugging_face.to_hugging_face(photo))),
    "csv": (csv_table.HEADER, csv_table.to_rows),
}
"""Formats of lines: the header, and the lines of a photo."""
FOLDERS: dict[str, Callable[[Path], AbstractContextManager[Put]]] = {"yolo": yolo.writing}
"""Formats that are a folder of files."""
VTT = "vtt"
"""A track of captions."""
FORMATS = (*WHOLE, *LINES, *FOLDERS)
"""Formats that `data prepare` reads."""


@contextmanager
def exporting(
    name: str, write: Callable[[bytes], object], folder: Path | None = None
) -> Iterator[Put]:
    """A function that takes each photo and writes it in the format `name`, not one of
    `FOLDERS`.

    Lines are written as photos come, a JSON value or track at the end. `folder`: that of the
    written file, if there is one. Relative paths of photos are then relative to it, as readers
    expect."""
    if name in LINES:
        header, lines = LINES[name]
        write(header)

        def write_lines(photo: ImageRegions) -> None:
            seen = _seen_from(folder, photo)
            if name == "hf" and folder is not None:
                seen = hugging_face.seen_from(folder, seen)
            write(lines(seen))

        yield write_lines
    elif name == VTT:
        frames: list[ImageRegions] = []
        yield frames.append
        write(vtt.to_vtt(frames).encode(errors="replace"))
    else:
        photos: list[ImageRegions] = []
        yield lambda photo: photos.append(_seen_from(folder, photo))
        write(json_line(WHOLE[name](photos)))


def _seen_from(folder: Path | None, photo: ImageRegions) -> ImageRegions:
    """The photo without its source, its path relative to a folder; an absolute path stays."""
    path = photo.path
    if folder is not None and not os.path.isabs(path):  # noqa: PTH117
        path = os.path.relpath(path, folder)
    return replace(photo, path=path, photo=None)
