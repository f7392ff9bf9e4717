"""Label Studio: tasks with our regions as predictions, and its JSON export after people have
corrected them.

A region is a rectangle and a text with the same id, in percent of the photo. If a task has
`annotations`, they are read: the one marked as ground truth, else the latest that was not
cancelled. A task without that list was written by us, and its prediction is read. A text without a
rectangle is a sentence about the photo. A rectangle without a text has its label as the phrase;
with the label `region` it has no phrase and is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from regiontalk.io.json_stream import stream_array
from regiontalk.lab.data.formats.fields import (
    Scores,
    as_object,
    as_size,
    as_text,
    box_xywh,
    scores_of,
)
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_entries
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import BoxXYXY, ImageRegions

LABEL = "region"
LOCAL_FILES = "/data/local-files/?d="
_UPLOADED = re.compile(
    r"[0-9a-f]{8}-"
)  # what Label Studio puts before the names of files it was given


def to_label_studio(photos: Sequence[ImageRegions]) -> list[dict[str, Any]]:
    """Tasks for a set-up with `<RectangleLabels name="label" toName="image">` that has the label
    `region`, and a `<TextArea name="caption" toName="image" perRegion="true">`. A prediction's
    score is the mean of its regions'."""
    tasks = []
    for photo in photos:
        result = list(
            chain.from_iterable(_parts(photo, region) for region in photo.to_dict()["regions"])
        )
        score = round(fmean(region.score for region in photo.regions), 6) if photo.regions else 0.0
        prediction = {"model_version": photo.model, "score": score, "result": result}
        address = LOCAL_FILES + quote(photo.path, errors="surrogateescape")
        tasks.append({"data": {"image": address}, "predictions": [prediction]})
    return tasks


def _parts(photo: ImageRegions, region: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The two results of a region."""
    sides = zip(
        ("x", "y", "width", "height"),
        box_xywh(region["xyxy"]),
        (photo.width, photo.height) * 2,
        strict=True,
    )
    box = {name: round(100 * pixels / side, 8) for name, pixels, side in sides} | {"rotation": 0}
    common = {
        "id": f"region-{region['id']}",
        "to_name": "image",
        "original_width": photo.width,
        "original_height": photo.height,
        "image_rotation": 0,
        **scores_of(region),
    }
    label = {
        "from_name": "label",
        "type": "rectanglelabels",
        "value": {**box, "rectanglelabels": [LABEL]},
    }
    text = {
        "from_name": "caption",
        "type": "textarea",
        "value": {**box, "text": [region["caption"]]},
    }
    return [{**common, **label}, {**common, **text}]


def read(source: Source) -> Iterator[Item]:
    return read_entries(stream_array(source.path), lambda task, _: _record(task, source))


FORMAT = Format(read, ("", "images"))


def _record(task: Mapping[str, Any], source: Source) -> Record:
    name = photo_name(as_text(as_object(task["data"])["image"], "data.image"))
    by_people = "annotations" in task
    results = [
        as_object(result)
        for result in _chosen(task.get("annotations" if by_people else "predictions", ()))
    ]
    rectangles = [
        result
        for result in results
        if as_text(result["type"], "type") in ("rectanglelabels", "rectangle")
    ]
    texts: dict[str, list[str]] = {}
    for result in results:
        if result["type"] == "textarea":
            text = result["value"]["text"]
            texts.setdefault(str(result["id"]), []).extend(
                [text] if isinstance(text, str) else text
            )
    width, height = _size(rectangles[0]) if rectangles else (0, 0)
    regions = list(
        chain.from_iterable(
            _regions(rectangle, texts.pop(str(rectangle["id"]), []), by_people)
            for rectangle in rectangles
        )
    )
    of_photo = {
        str(result["id"])
        for result in results
        if result["type"] == "textarea" and "x" not in result["value"]
    }
    written = chain.from_iterable(texts[identity] for identity in texts if identity in of_photo)
    sentences = [text.strip() for text in written]
    split = source.split_for(name, default="train")
    return Record(name, width, height, split, None, tuple(filter(None, sentences)), tuple(regions))


def photo_name(address: str) -> str:
    """The photo's path from where Label Studio serves it; of a remote or uploaded photo only its
    name."""
    if address.startswith(LOCAL_FILES):
        (path,) = parse_qs(urlsplit(address).query, errors="surrogateescape")["d"]
        return path
    if address.startswith("/data/upload/"):
        return _UPLOADED.sub("", unquote(PurePosixPath(address).name), count=1)
    return unquote(PurePosixPath(urlsplit(address).path).name) if "://" in address else address


def _chosen(answers: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """The results of the annotation (or prediction) that counts; none where all were cancelled."""
    valid = [as_object(answer) for answer in answers if not answer.get("was_cancelled")]
    ranked = sorted(
        valid,
        key=lambda answer: (bool(answer.get("ground_truth")), str(answer.get("updated_at", ""))),
    )
    results: Sequence[Any] = ranked[-1]["result"] if ranked else ()
    return results


def _size(result: Mapping[str, Any]) -> tuple[int, int]:
    if result.get("image_rotation"):
        raise ValueError(
            "the photo was turned in Label Studio, so its boxes cannot be read; turn it back"
        )
    return as_size(result["original_width"], result["original_height"])


def _regions(
    result: Mapping[str, Any], texts: Sequence[str], by_people: bool
) -> Iterator[TrueRegion]:
    """A region for each text of a rectangle. Regions that people have checked have no scores."""
    labels = [as_text(label, "label") for label in result["value"].get("rectanglelabels", ())]
    phrases = (
        [as_text(text, "text").strip() for text in texts]
        or [label for label in labels if label != LABEL]
        or [""]
    )
    box = _upright_box(result["value"], *_size(result))
    scores = Scores() if by_people else scores_of(result)
    return (TrueRegion(box, text, **scores) for text in phrases)


def _upright_box(value: Mapping[str, Any], width: int, height: int) -> BoxXYXY:
    """The box around a rectangle that is turned about its left upper corner, clockwise, in
    pixels."""
    left, top = value["x"] * width / 100, value["y"] * height / 100
    wide, high = value["width"] * width / 100, value["height"] * height / 100
    angle = math.radians(value.get("rotation", 0))
    xs = [
        0,
        wide * math.cos(angle),
        -high * math.sin(angle),
        wide * math.cos(angle) - high * math.sin(angle),
    ]
    ys = [
        0,
        wide * math.sin(angle),
        high * math.cos(angle),
        wide * math.sin(angle) + high * math.cos(angle),
    ]
    x0, y0, x1, y1 = left + min(xs), top + min(ys), left + max(xs), top + max(ys)
    return round(x0, 3), round(y0, 3), round(x1, 3), round(y1, 3)
