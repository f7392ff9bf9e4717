"""Which words a photo shows, by what people wrote and marked."""

from __future__ import annotations

import pytest

from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.photo_truth import PhotoTruth


def photo(*objects: str, phrases: tuple[str, ...] = (), sentence: str = "") -> PhotoTruth:
    box = (0.0, 0.0, 5.0, 5.0)
    regions = [TrueRegion(box, name, "object") for name in objects]
    regions += [TrueRegion(box, phrase, "people") for phrase in phrases]
    sentences = (sentence,) if sentence else ()
    return PhotoTruth.of(Record("a.jpg", 10, 10, sentences=sentences, regions=tuple(regions)))


@pytest.mark.parametrize(
    ("truth", "word", "expected"),
    [
        (photo("person", "dining table"), "people", True),
        (photo("person", "dining table"), "person", True),
        (photo("person", "dining table"), "dog", False),
        (photo(sentence="Two puppies run"), "dogs", True),
        (photo(sentence="A man runs"), "people", True),
        (photo(sentence="A man runs"), "women", False),
        (photo(phrases=("a girl",)), "child", True),
    ],
)
def test_plurals_classes_and_their_names_count(
    truth: PhotoTruth, word: str, expected: bool
) -> None:
    assert truth.has([word]) == expected
    assert truth.can_judge([word])


def test_all_words_must_be_there() -> None:
    truth = photo(sentence="A black dog in the snow")
    assert truth.has(["dog", "snow"])
    assert not truth.has(["dog", "beach"])


def test_marked_objects_alone_say_nothing_about_other_words() -> None:
    truth = photo("person", "dog")
    assert truth.can_judge(["cat"])
    assert not truth.can_judge(["snow"])
    assert not truth.can_judge(["dog", "snow"])
    assert not photo().can_judge(["dog"])
