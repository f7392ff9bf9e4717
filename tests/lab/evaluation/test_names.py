"""Captions that name things: which noun counts, and the figures."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.names import (
    caption_objects,
    evaluate_names,
    is_right,
    named_classes,
    objects_of,
    truths_near,
)
from regiontalk.results import ImageRegions, Region

LEFT, RIGHT, SMALL = (0.0, 0.0, 40.0, 40.0), (50.0, 10.0, 90.0, 60.0), (0.0, 60.0, 10.0, 70.0)


@pytest.mark.parametrize(
    ("caption", "classes"),
    [
        ("a dog", ("dog",)),
        ("A brown puppy.", ("dog",)),
        ("a hot dog on a plate", ("hot dog",)),
        ("a man holding a dog", ("person",)),
        ("a man and a dog", ("person",)),
        ("a black and white dog", ("dog",)),
        ("an orange and white cat", ("cat",)),
        ("an orange striped cat", ("cat",)),
        ("an orange shirt", ()),
        ("an orange on a table", ("orange",)),
        ("a group of people", ("person",)),
        ("a slice of pizza on a plate", ("pizza",)),
        ("a bowl of soup", ("bowl",)),
        ("a train station", ()),
        ("a dining table", ("dining table",)),
        ("a parking meter next to a car", ("parking meter",)),
        ("a sleeping cat", ("cat",)),
        ("a statue holding an umbrella", ()),
        ("a building with a clock", ()),
        ("a dog covered in snow", ("dog",)),
        ("a vase made of glass", ("vase",)),
        ("a woman who is riding a horse", ("person",)),
        ("a dog outdoors", ("dog",)),
        ("a bike", ("bicycle", "motorcycle")),
        ("two men", ("person",)),
        ("with", ()),
        ("", ()),
    ],
)
def test_the_head_noun_counts(caption, classes):
    assert named_classes(caption) == classes


def record(name: str, *objects, **sizes) -> Record:
    regions = tuple(TrueRegion(box, label, "object") for label, box in objects)
    return Record(
        name, 100, 80, regions=(*regions, TrueRegion(LEFT, "a red mug", "phrase")), **sizes
    )


def photo(name: str, *captions) -> ImageRegions:
    return ImageRegions(
        name, 100, 80, "m", tuple(Region(box, 0.5, caption) for caption, box in captions)
    )


def test_figures_by_object_by_class_and_without_people():
    truth = [
        record("a", ("person", LEFT), ("dog", RIGHT)),
        record("b", ("dog", LEFT), ("cat", RIGHT)),
    ]
    found = [
        photo("a", ("a man", LEFT), ("a brown dog", RIGHT)),
        photo("b", ("a cat on a bed", RIGHT), ("a cat", LEFT)),  # in another order
    ]
    result = evaluate_names(truth, found)
    assert result["right"] == 75
    assert result["right_without_people"] == pytest.approx(200 / 3)
    assert result["class_mean"] == pytest.approx(250 / 3)
    assert (result["objects"], result["missing"]) == (4, 0)
    assert result["classes"]["dog"] == {"right": 50, "objects": 2}
    # photo a alone has all right; photo b alone has its cat right, and no people
    assert result["intervals"] == {
        "right": [50, 100],
        "right_without_people": [50, 100],
        "class_mean": [50, 100],
    }


def test_an_object_without_a_caption_on_its_box_counts_as_wrong():
    truth = [record("a", ("dog", LEFT), ("dog", RIGHT)), record("b", ("cat", LEFT))]
    shifted = (LEFT[0], LEFT[1], LEFT[2] + 6, LEFT[3])  # IoU 40/46
    result = evaluate_names(truth, [photo("a", ("a dog", shifted), ("a dog", RIGHT)), photo("b")])
    assert (result["right"], result["missing"]) == (pytest.approx(100 / 3), 2)


def test_small_objects_are_measured_in_the_originals_pixels():
    things = ("dog", LEFT), ("cat", SMALL)
    assert [region.phrase for region in objects_of(record("a", *things), 32)] == ["dog"]
    original = record(
        "a", *things, original_width=400, original_height=256
    )  # 12.8 times the area: 35.8 squared
    assert [region.phrase for region in objects_of(original, 32)] == ["dog", "cat"]
    assert [region.phrase for region in objects_of(original, 36)] == ["dog"]


def test_a_model_is_asked_for_the_objects_that_count():
    class Asked:
        def captions(self, record, boxes_xyxy):
            return photo(record.image, *(("a dog", tuple(box)) for box in boxes_xyxy.tolist()))

    records = [record("a", ("dog", LEFT), ("cat", SMALL)), record("b", ("cat", SMALL)), record("c")]
    (found,) = caption_objects(Asked(), records, 32)
    assert (found.path, [region.xyxy for region in found.regions]) == ("a", [LEFT])


def test_truth_without_objects_is_refused():
    with pytest.raises(DataError, match="no object to name"):
        evaluate_names([record("a")], [photo("a", ("a dog", LEFT))])


@pytest.mark.parametrize(
    ("caption", "phrase", "right"),
    [
        ("a dog", "A brown and white pitbull dog", True),
        ("dogs", "the dog in the snow", True),
        ("a puppy", "a dog", True),
        ("a young boy", "a man", True),
        ("a man", "a woman in red", False),
        ("men", "two girls", False),
        ("people", "a woman", True),
        ("a trampoline", "a blue trampoline", True),
        ("a trampoline", "a fence", False),
        ("a person", "person", True),
        ("a dog on a bench", "a bench", False),
        ("", "a bench", False),
    ],
)
def test_a_caption_is_right_about_a_phrase_of_the_same_thing(caption, phrase, right):
    assert is_right(caption, [TrueRegion(LEFT, "nothing"), TrueRegion(LEFT, phrase)]) == right
    assert not is_right(caption, [])


def test_what_is_near_says_what_a_box_is():
    one = record("a", ("dog", LEFT), ("cat", RIGHT))
    half = (LEFT[0], LEFT[1], (LEFT[0] + LEFT[2]) / 2 + 0.1, LEFT[3])
    near = truths_near(np.array([half, SMALL, RIGHT]), one)
    assert [[truth.phrase for truth in truths] for truths in near] == [
        ["dog", "a red mug"],
        [],
        ["cat"],
    ]
    assert truths_near(np.array([RIGHT]), record("b")) == [[]]
