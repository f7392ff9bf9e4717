"""Values of foreign records."""

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.fields import as_size, box_xywh, reading, xywh_box


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("url"), "f, item 3: there is no 'url'"),
        (TypeError("not text"), "f, item 3: not text"),
    ],
)
def test_a_missing_or_mistyped_field_is_named_with_its_place(error, message):
    with pytest.raises(DataError) as caught, reading("f, item 3"):
        raise error
    assert caught.value.message == message


def test_sums_are_rounded():
    assert xywh_box(255.11, 1, 36.72, 2) == (255.11, 1, 291.83, 3)
    assert box_xywh((255.11, 1, 291.83, 3)) == (255.11, 1, 36.72, 2)


def test_an_image_has_pixels():
    with pytest.raises(ValueError, match="0×5"):
        as_size(0, 5)
