"""YOLO data sets as used by Ultralytics and most tools: `data.yaml`, `images/` and `labels/` with a
file per photo.

A line is `class x y width height`: the centre and the size of a box in fractions of the photo; or a
polygon, whose bounding box is used. The phrase is the name of the class. Photos and labels may be
in `train`, `val` and `test`, inside or outside of `images` and `labels`.

We write captions as classes, and links to the photos. Other programs could not read labels with
scores: scores are in `predictions/`, in lines that begin like those of the labels.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regiontalk.errors import DataError, InputError
from regiontalk.images.paths import find_photos
from regiontalk.io.files import FreeNames, new_folder
from regiontalk.io.typed import shorten
from regiontalk.lab.data.formats.fields import SCORES, Scores, reading, scores_of
from regiontalk.lab.data.formats.sources import (
    SPLIT_NAMES,
    Format,
    Item,
    Source,
    read_lines,
    read_text,
)
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import BoxXYXY, ImageRegions

LABELS = "labels"
IMAGES = "images"
PREDICTIONS = "predictions"
NAMES = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
# A class in YAML: its number or a dash, then its name in either kind of quotes or bare, in a list
# or a line each.
_NAME = re.compile(
    r"""(?:(\d+)\s*:\s*|-\s+)?("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s,\[\]{}'"#-][^,\[\]{}\n#]*)"""
)

LabelScores = dict[str, list[Scores]]
"""The scores of the labels of a photo, each by its class and box as they are written."""


@contextmanager
def writing(folder: Path) -> Iterator[Callable[[ImageRegions], object]]:
    """A function that adds each photo to a new data set, which is written when the block ends
    without error."""
    classes: dict[str, int] = {}
    names = FreeNames()
    with new_folder(folder) as working:
        for part in (IMAGES, LABELS, PREDICTIONS):
            (working / part).mkdir()

        def put(photo: ImageRegions) -> None:
            path = Path(photo.path).absolute()
            if not path.is_file():
                raise InputError(f"{photo.path}: a YOLO data set needs photos that are files")
            stem = names.take(path.stem)
            (working / IMAGES / f"{stem}{path.suffix}").symlink_to(path)
            lines = [_line(photo, region, classes) for region in photo.to_dict()["regions"]]
            _write_lines(working / LABELS / f"{stem}.txt", [label for label, _ in lines])
            _write_lines(working / PREDICTIONS / f"{stem}.txt", [" ".join(line) for line in lines])

        yield put
        captions = [
            f"  {number}: {json.dumps(caption, ensure_ascii=False)}"
            for caption, number in classes.items()
        ]
        _write_lines(
            working / NAMES[0], [f"train: {IMAGES}", f"val: {IMAGES}", "names:", *captions]
        )


def _line(
    photo: ImageRegions, region: Mapping[str, Any], classes: dict[str, int]
) -> tuple[str, str]:
    """A region's label, and its scores; its caption gets a number."""
    x0, y0, x1, y1 = region["xyxy"]
    number = classes.setdefault(region["caption"], len(classes))
    x, y = (x0 + x1) / 2 / photo.width, (y0 + y1) / 2 / photo.height
    sides = (x, y, (x1 - x0) / photo.width, (y1 - y0) / photo.height)
    return " ".join([str(number), *(f"{side:.10g}" for side in sides)]), " ".join(
        map(str, scores_of(region).values())
    )


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))


def read(source: Source) -> Iterator[Item]:
    names = _read_names(source)
    photos = _photos_by_stem(source.image_folder)
    labels = sorted(
        path
        for path in source.folder.rglob("*.txt")
        if LABELS in path.relative_to(source.folder).parts
    )
    if not labels:
        raise DataError(f"{source.folder}: no {LABELS}/*.txt")
    for path in labels:
        parts = list(path.relative_to(source.folder).with_suffix("").parts)
        at = len(parts) - 1 - parts[::-1].index(LABELS)
        below = "/".join(parts[at + 1 :])
        mirrored = "/".join([*parts[:at], IMAGES, below])
        existing = next(
            (photos[name] for name in (mirrored, below) if name in photos), f"{mirrored}.jpg"
        )
        split = next((SPLIT_NAMES[part] for part in parts[:-1] if part in SPLIT_NAMES), "train")
        split = source.split_for(existing, default=split)
        scores = _read_scores(source.folder.joinpath(*parts[:at], PREDICTIONS, f"{below}.txt"))
        regions = tuple(_read_labels(path, names, scores))
        yield Item(str(path), Record(existing, 0, 0, split, regions=regions), fractions=True)


FORMAT = Format(read)


def _photos_by_stem(root: Path) -> dict[str, str]:
    """Relative path without extension -> photo below a folder; links are resolved."""
    paths = (Path(path) for path in find_photos([str(root)]).paths)
    return {
        path.relative_to(root).with_suffix("").as_posix(): os.path.realpath(path) for path in paths
    }


def _read_labels(path: Path, names: Mapping[int, str], scores: LabelScores) -> Iterator[TrueRegion]:
    """The regions of a file of labels, in fractions of the photo."""
    for line in read_lines(path):
        with reading(f"{path}: {shorten(line)}"):
            first, *sides = line.split()
            if int(first) not in names:
                raise ValueError(f"no class has the number {first}")
            line_scores = scores.get(_key(line), [])
            yield TrueRegion(
                _box([float(side) for side in sides]),
                names[int(first)],
                **(line_scores.pop(0) if line_scores else Scores()),
            )


def _box(sides: list[float]) -> BoxXYXY:
    if len(sides) in (4, 5):  # five: a confidence comes last
        x, y, width, height = sides[:4]
        return x - width / 2, y - height / 2, x + width / 2, y + height / 2
    if len(sides) < 6 or len(sides) % 2:
        raise ValueError(f"{len(sides)} numbers are neither a box nor a polygon")
    return min(sides[::2]), min(sides[1::2]), max(sides[::2]), max(sides[1::2])


def _read_scores(path: Path) -> LabelScores:
    """The scores that we wrote; a label that was changed has none."""
    scores: LabelScores = {}
    for line in read_lines(path) if path.is_file() else ():
        with reading(f"{path}: {shorten(line)}"):
            line_scores = scores_of(dict(zip(SCORES, line.split()[5:], strict=False)))
        scores.setdefault(_key(line), []).append(line_scores)
    return scores


def _key(line: str) -> str:
    """Class and box: the start of the lines of labels and of scores."""
    return " ".join(line.split()[:5])


def _read_names(source: Source) -> dict[int, str]:
    given = [source.path] if source.path.is_file() else [source.folder / name for name in NAMES]
    path = next((path for path in given if path.is_file()), None)
    if path is None:
        raise DataError(
            f"{source.folder}: no {' or '.join(NAMES)}", hint="or give the file as SOURCE"
        )
    text = read_text(path)
    if path.suffix not in (".yaml", ".yml"):
        return dict(enumerate(line.strip() for line in text.split("\n")))
    text = re.sub(r"^[ \t]*#.*", "", text, flags=re.MULTILINE)
    section = re.search(r"^names:(.*\n?(?:[ \t-].*\n?|\n)*)", text, re.MULTILINE)
    if section is None:
        raise DataError(f"{path}: no names of classes")
    with reading(str(path)):
        return {
            int(key) if key else index: _plain(name)
            for index, (key, name) in enumerate(_NAME.findall(section[1]))
        }


def _plain(name: str) -> str:
    """The text of a YAML scalar."""
    if name[0] == '"':
        return str(json.loads(name))
    return name[1:-1].replace("''", "'") if name[0] == "'" else name.strip()
