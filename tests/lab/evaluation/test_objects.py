"""The definitions of POPE and cgF1 on cases computed by hand, and `find` asked for every class."""

from __future__ import annotations

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.inference.phrases import read_phrases
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.evaluation import objects
from regiontalk.lab.evaluation.coco_ap import Detected
from regiontalk.lab.evaluation.objects import Finding

BOX = (0.0, 0.0, 10.0, 10.0)
FAR = (50.0, 50.0, 60.0, 60.0)


def finding(truths: int, *boxes: tuple[float, ...], is_here: bool | None = None) -> Finding:
    """`truths` objects, the first at BOX and the second at FAR; all of the `boxes` are shown."""
    found = np.array(boxes, dtype=float).reshape(-1, 4)
    true = np.array([BOX, FAR])[:truths]
    said = bool(boxes) if is_here is None else is_here
    scores = np.linspace(0.9, 0.6, len(found))
    return Finding(said, Detected(found, scores, true), len(found))


def photo(there: str, said: str = "") -> dict[str, Finding]:
    """Classes are letters of "abcdef": those that are `there`, and those that `find` says are."""
    return {
        name: finding(int(name in there), *([BOX] if name in said else [])) for name in "abcdef"
    }


def test_cg_f1_is_matthews_times_f1_where_it_is() -> None:
    findings = [
        {
            "dog": finding(2, BOX, (0.0, 0.0, 10.0, 8.0)),  # one right, one wrong, one missed
            "cat": finding(1),  # missed
            "cup": finding(0, BOX),  # a false yes; its box counts in MCC alone
            "bus": finding(0),
        }
    ]
    figures = objects.evaluate_objects(findings)
    # yes/no: 1 right yes, 1 right no, 1 false yes, 1 false no: no correlation
    assert (figures["mcc"], figures["cgf1"]) == (0.0, 0.0)
    assert figures["positive_f1"] == pytest.approx(100 * 2 / (2 + 1 + 2))
    findings[0]["cup"] = finding(0)
    figures = objects.evaluate_objects(findings)
    matthews = (1 * 2 - 0 * 1) / np.sqrt((1 + 0) * (1 + 1) * (2 + 0) * (2 + 1))
    assert figures["mcc"] == pytest.approx(100 * matthews)
    assert figures["cgf1"] == pytest.approx(100 * matthews * 0.4)
    assert figures["intervals"]["cgf1"] == pytest.approx([figures["cgf1"]] * 2)


def test_f1_is_the_mean_over_the_thresholds() -> None:
    loose = (0.0, 0.0, 10.0, 8.0)  # IoU .8: right at seven of ten thresholds
    figures = objects.evaluate_objects([{"dog": finding(1, loose), "cat": finding(0)}])
    assert figures["positive_f1"] == pytest.approx(70)
    assert (figures["mcc"], figures["cgf1"], figures["cgf1_50"]) == (100, pytest.approx(70), 100)


def test_popular_and_adversarial_questions() -> None:
    photos = [photo("abc"), photo("abd"), photo("abe"), photo("ae"), photo("a")]
    # of the classes that are not in the first photo: e is in two photos, d in one, f in none
    popular = objects.questions(photos, "popular")
    assert popular[:6] == [(0, "a"), (0, "e"), (0, "b"), (0, "d"), (0, "c"), (0, "f")]
    assert {number for number, _ in popular} == {0, 1, 2}  # photos of three classes or more
    # beside a: b three times, e twice, c and d once
    adversarial = objects.questions(photos, "adversarial")
    assert adversarial[:4] == [(0, "a"), (0, "e"), (0, "b"), (0, "d")]
    assert adversarial[4:6] == [(0, "c"), (0, "f")]  # nothing else is beside c: any other class


@pytest.mark.parametrize("way", objects.NEGATIVES)
def test_half_of_the_questions_are_about_what_is_not_there(way: str) -> None:
    photos = [photo("abc"), photo("abd"), photo("ace")]
    asked = objects.questions(photos, way, seed=3)
    assert asked == objects.questions(photos, way, seed=3)
    assert len(set(asked)) == len(asked) == 18
    there = [len(photos[number][name].detected.truths_xyxy) for number, name in asked]
    assert there == [1, 0] * 9


def test_random_questions_depend_on_the_seed() -> None:
    photos = [photo("abc")] * 20
    asked = [objects.questions(photos, "random", seed) for seed in (0, 1)]
    assert asked[0] != asked[1]


def test_presence_by_hand() -> None:
    there = np.array([True, True, True, False, False, False])
    said = np.array([True, True, False, True, False, False])
    figures = objects.presence_figures(there, said)
    assert figures["accuracy"] == pytest.approx(100 * 4 / 6)
    assert figures["precision"] == figures["recall"] == figures["f1"] == pytest.approx(100 * 2 / 3)
    assert (figures["yes"], figures["questions"]) == (50, 6)


def test_presence_of_a_model_that_always_says_no() -> None:
    figures = objects.presence_figures(np.array([True, False]), np.array([False, False]))
    assert (figures["accuracy"], figures["precision"], figures["f1"]) == (50, 0, 0)


def test_find_is_asked_as_people_ask_it(examples: object) -> None:
    """The answers are those of `Model.find`, for classes that are there or not."""
    dataset = Dataset(str(examples))
    record = next(one for one in dataset if "soccer" in one.image)
    model = regiontalk.load()
    asked = DatasetModel(model, dataset)
    people = TrueRegion((10.0, 10.0, 90.0, 90.0), "person", "object")
    ball = TrueRegion((10.0, 10.0, 30.0, 30.0), "sports ball", "object")
    marked = Record(record.image, record.width, record.height, regions=(people, ball, people))
    assert objects.classes_in([marked]) == ["person", "sports ball"]
    names = ["giraffe", "person", "sports ball"]
    phrases = read_phrases(model.runtime, names)
    findings = objects.find_classes(model, marked, asked.candidates(record), phrases)
    with asked.open(record) as opened:
        answers = model.find(opened, names)
    assert [findings[name].is_here for name in names] == [answer.here for answer in answers]
    for name, answer in zip(names, answers, strict=True):
        one = findings[name]
        assert one.shown == len(answer.regions)
        shown = one.detected.boxes_xyxy[: one.shown]
        expected = np.array([region.xyxy for region in answer.regions]).reshape(-1, 4)
        scale = record.width / answer.width
        assert shown == pytest.approx(expected * scale, abs=0.01)
    assert [len(findings[name].detected.truths_xyxy) for name in names] == [0, 2, 1]


def test_without_objects() -> None:
    region = TrueRegion(BOX, "a dog", "phrase")
    with pytest.raises(DataError, match="no object"):
        objects.classes_in([Record("a.jpg", 20, 20, regions=(region,))])
