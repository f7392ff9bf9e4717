"""Wrong conventions are named; right boxes pass, untidy ones too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from regiontalk import boxes
from regiontalk.errors import DataError
from regiontalk.lab.evaluation.box_format import BoxCheck

WIDTH, HEIGHT = 640, 400


def random_boxes(images: int = 40, each: int = 10) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    made = []
    for _ in range(images):
        x = np.sort(chance.uniform(0, WIDTH, (each, 2)), axis=1)
        y = np.sort(chance.uniform(0, HEIGHT, (each, 2)), axis=1)
        made.append(np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1))
    return made


def verdict(images: list[np.ndarray]) -> None:
    check = BoxCheck("predictions", true_reach=np.ones(2))
    for image in images:
        check.add(image, WIDTH, HEIGHT)
    check.verdict()


@pytest.mark.parametrize(
    ("convert", "name"),
    [
        (lambda b: np.hstack([b[:, :2], b[:, 2:] - b[:, :2]]), "xywh"),
        (boxes.xyxy_to_cxcywh, "cxcywh"),
        (lambda b: b[:, [1, 0, 3, 2]], "yxyx"),
        (lambda b: b / [WIDTH, HEIGHT, WIDTH, HEIGHT], "normalised"),
        (lambda b: b * 2.5, "resized"),
        (lambda b: b * 0.5, "smaller, resized"),
    ],
)
def test_conventions_are_told_apart(convert: Callable[[np.ndarray], np.ndarray], name: str) -> None:
    with pytest.raises(DataError, match=f"look like .*{name}") as caught:
        verdict([convert(image) for image in random_boxes()])
    assert caught.value.hint is not None
    assert "xyxy" in caught.value.hint


def test_right_boxes_pass() -> None:
    verdict(random_boxes())


def test_boxes_that_stick_out_a_little_pass() -> None:
    verdict([image + np.array([-10, -10, 10, 10]) for image in random_boxes()])


def test_a_few_odd_boxes_are_no_convention() -> None:
    images = random_boxes()
    images[0][0] = [500, 300, 100, 50]
    images[1][0] = [0, 0, 5000, 5000]
    verdict(images)


def test_few_small_boxes_in_a_corner_are_no_convention() -> None:
    verdict([np.array([[3.0, 4.0, 30.0, 20.0]])])


def test_no_boxes_no_verdict() -> None:
    verdict([np.empty((0, 4))])


def test_truths_that_all_lie_in_a_corner_are_possible() -> None:
    check = BoxCheck("truth")
    for image in random_boxes():
        check.add(image * 0.5, WIDTH, HEIGHT)
    check.verdict()
    assert check.reach == pytest.approx([0.5, 0.5], abs=0.02)
