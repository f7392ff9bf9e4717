from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from regiontalk.lab.evaluation.coco_ap import Detected, average_precisions, coco_ap

SQUARE = [0.0, 0.0, 10.0, 10.0]


def detected(boxes: list[list[float]], scores: list[float], truths: list[list[float]]) -> Detected:
    return Detected(
        np.array(boxes).reshape(-1, 4), np.array(scores), np.array(truths).reshape(-1, 4)
    )


def test_by_hand() -> None:
    far = [50.0, 50.0, 60.0, 60.0]
    loose = [0.0, 0.0, 10.0, 8.0]  # IoU .8: right up to .8, at seven of ten thresholds
    photo = detected([far, loose], [0.9, 0.8], [SQUARE])
    figures = coco_ap({"dog": [photo], "cat": [detected([], [], [SQUARE])]})
    assert figures["classes"] == {"dog": pytest.approx(100 * 0.5 * 7 / 10), "cat": 0.0}
    assert figures["ap"] == pytest.approx(17.5)
    assert (figures["ap50"], figures["ap75"]) == (pytest.approx(25.0), pytest.approx(25.0))


def test_a_true_box_is_taken_once_and_recall_stops_there() -> None:
    twice = detected([SQUARE, SQUARE], [0.9, 0.8], [SQUARE, [50.0, 50.0, 60.0, 60.0]])
    # recall .5 at precision 1: 51 of 101 levels
    assert average_precisions([twice]) == pytest.approx(np.full(10, 51 / 101))


def test_a_class_without_truth_does_not_count() -> None:
    figures = coco_ap({"dog": [detected([SQUARE], [0.9], [])]})
    assert (figures["ap"], figures["classes"]) == (0.0, {})


def scattered(random: np.random.Generator, truths: int, boxes: int) -> Detected:
    corners = random.integers(0, 40, size=(truths, 2))
    true = np.concatenate([corners, corners + random.integers(5, 40, size=(truths, 2))], axis=1)
    near = true[random.integers(truths, size=boxes)] if truths else np.zeros((boxes, 4))
    moved = near + random.integers(-4, 5, size=(boxes, 4))
    moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
    scores = random.integers(1, 30, size=boxes) / 30  # with ties
    return Detected(moved.astype(float), scores, true.astype(float))


def xywh(box: Any) -> list[float]:
    x0, y0, x1, y1 = map(float, box)
    return [x0, y0, x1 - x0, y1 - y0]


def peer(classes: dict[str, list[Detected]]) -> Any:
    """COCO's own evaluation of the same boxes."""
    annotations, results = [], []
    for category, photos in enumerate(classes.values(), start=1):
        for image, photo in enumerate(photos, start=1):
            where = {"image_id": image, "category_id": category}
            for box in photo.truths_xyxy:
                area = float(np.prod(xywh(box)[2:]))
                identity = len(annotations) + 1
                annotations.append(
                    {**where, "id": identity, "bbox": xywh(box), "area": area, "iscrowd": 0}
                )
            for box, score in zip(photo.boxes_xyxy, photo.scores, strict=True):
                results.append({**where, "bbox": xywh(box), "score": float(score)})
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": 1 + n} for n in range(len(next(iter(classes.values()))))],
            "categories": [{"id": 1 + n, "name": name} for n, name in enumerate(classes)],
            "annotations": annotations,
        }
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats


@pytest.mark.parametrize("seed", range(4))
def test_equals_pycocotools(seed: int) -> None:
    random = np.random.default_rng(seed)
    classes = {}
    for name in ("dog", "cat", "cup"):
        counts = [(int(random.integers(0, 5)), int(random.integers(0, 12))) for _ in range(12)]
        classes[name] = [scattered(random, *both) for both in counts]
    classes["cup"][0] = scattered(random, 3, 130)  # more than 100 boxes
    figures = coco_ap(classes)
    ap, ap50, ap75 = peer(classes)[:3]
    assert figures["ap"] == pytest.approx(100 * ap)
    assert figures["ap50"] == pytest.approx(100 * ap50)
    assert figures["ap75"] == pytest.approx(100 * ap75)
