"""HEIF and AVIF files of a few kilobytes whose parts are decoded again and again, or are larger than
they say."""

from __future__ import annotations

import heif_bombs
import pytest
from hostile_files import encode
from photo_bombs import box
from PIL import Image

from regiontalk.errors import ImageError, ImageTooLarge
from regiontalk.images import photo as images
from regiontalk.images.limits import Limits

SMALL = Limits(megapixels=0.5)


@pytest.fixture(autouse=True)
def heif() -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()


def test_a_grid_may_name_a_tile_as_often_as_it_has_room() -> None:
    assert images.open_photo(heif_bombs.grid(4, 4, (1024, 1024), 256)).size == (1024, 1024)
    with pytest.raises(ImageTooLarge, match="its parts have more than 1 megapixels"):
        images.open_photo(heif_bombs.grid(5, 5, (500, 500), 256), SMALL)


def test_overlays_of_overlays_are_counted() -> None:
    assert images.open_photo(heif_bombs.overlays(1, 2, 64)).size == (64, 64)
    with pytest.raises(ImageTooLarge, match="its parts have more than"):
        images.open_photo(heif_bombs.overlays(8, 8, 64))
    with pytest.raises(ImageError, match="contain each other"):
        images.open_photo(heif_bombs.round_and_round())


def test_a_photo_is_turned_a_few_times_only() -> None:
    assert images.open_photo(heif_bombs.turned(1, 64)).size == (64, 64)
    with pytest.raises(ImageTooLarge, match="more than 4 turns"):
        images.open_photo(heif_bombs.turned(200, 64))


def test_what_pillow_heif_writes_opens(scene: Image.Image) -> None:
    for options in ({}, {"quality": -1}, {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}):
        assert images.open_photo(encode(scene, "HEIF", **options)).size == scene.size


def test_the_frames_of_an_animation_are_as_large_as_they_say() -> None:
    assert images.open_photo(heif_bombs.animation(128)).size == (128, 128)
    with pytest.raises(ImageTooLarge, match="megapixels"):
        images.open_photo(heif_bombs.lying_animation(1024, 64), SMALL)


def test_an_animation_without_frames_is_broken() -> None:
    data = heif_bombs.animation(64)
    start = data.index(b"moov") - 4
    with pytest.raises(ImageError, match="frames cannot be found"):
        images.open_photo(data[:start] + box(b"moov", b"") + data[start:])
