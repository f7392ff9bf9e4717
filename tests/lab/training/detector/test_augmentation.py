"""Augmented views: a painted rectangle is found again where its box says it is."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from regiontalk.errors import UsageError
from regiontalk.lab.training.detector.augmentation import (
    SMALLEST_SHARE,
    View,
    coarsen,
    crop,
    mirror,
    plain_view,
    quarter,
    random_view,
    random_zoom,
    reduce_resolution,
    relight,
)
from regiontalk.lab.training.recipe.detector import AugmentationConfig

RED, GROUND = (200, 40, 40), (60, 90, 60)
BOX = (30, 20, 90, 70)
STRONG = AugmentationConfig(flip=0.5, zoom=1.8, colour=0.3, coarse=0.5)


def painted(
    box: tuple[int, int, int, int] = BOX, size: tuple[int, int] = (160, 100)
) -> Image.Image:
    picture = Image.new("RGB", size, GROUND)
    x0, y0, x1, y1 = box
    ImageDraw.Draw(picture).rectangle(
        (x0, y0, x1 - 1, y1 - 1), fill=RED
    )  # its last row and column are inside
    return picture


def find_red(pixels: np.ndarray) -> np.ndarray:
    redness = pixels[..., 0].astype(int) - pixels[..., 1]
    red = redness > (redness.min() + redness.max()) / 2  # whatever the light
    rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_the_box_moves_with_the_pixels(seed):
    random = np.random.default_rng(seed)
    view = random_view(painted(), np.array([BOX], dtype=float), 128, True, STRONG, random)
    if view.kept[0]:
        np.testing.assert_allclose(view.boxes_xyxy[0], find_red(view.pixels), atol=1.25)
    assert max(view.pixels.shape[:2]) <= 128


def test_every_kind_of_change_happens():
    sizes, mirrored, lit = set(), set(), set()
    for seed in range(40):
        view = random_view(
            painted(), np.array([BOX], dtype=float), 128, True, STRONG, np.random.default_rng(seed)
        )
        sizes.add(view.pixels.shape)
        red = find_red(view.pixels)
        mirrored.add(bool(red[0] + red[2] > view.pixels.shape[1]))
        lit.add(int(view.pixels[red[1] + 4, red[0] + 4, 0]))
    assert len(sizes) > 10
    assert mirrored == {True, False}
    assert len(lit) > 10


def test_the_same_seed_gives_the_same_view():
    first, second = (
        random_view(
            painted(), np.array([BOX], dtype=float), 128, True, STRONG, np.random.default_rng(5)
        )
        for _ in range(2)
    )
    assert np.array_equal(first.pixels, second.pixels)
    assert np.array_equal(first.boxes_xyxy, second.boxes_xyxy)


def detail(pixels: np.ndarray) -> float:
    return float(np.abs(np.diff(pixels.astype(float), axis=1)).mean())


def test_a_random_resolution_is_the_same_for_large_and_small_photos():
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    sharp = Image.fromarray(noise)
    small = sharp.resize((320, 240), Image.Resampling.BOX)
    config = AugmentationConfig(flip=0, resolution=(40, 160))
    box = np.array([[0, 0, 320, 240]], dtype=float)
    for seed in range(8):
        views = [
            random_view(photo, box * scale, 256, True, config, np.random.default_rng(seed))
            for photo, scale in ((sharp, 2), (small, 1))
        ]
        plain = plain_view(sharp, box * 2, 256)
        np.testing.assert_allclose(views[0].boxes_xyxy, [[0, 0, 256, 192]], atol=4)
        np.testing.assert_allclose(views[1].boxes_xyxy, [[0, 0, 256, 192]], atol=4)
        first, second = (detail(view.pixels) for view in views)
        assert first == pytest.approx(second, rel=0.35)
        assert first < 0.7 * detail(plain.pixels)


def test_resolutions_are_spread_evenly_over_their_range():
    photo = painted(size=(640, 400))
    random = np.random.default_rng(3)
    box = np.array([BOX], dtype=float)
    sizes = [max(reduce_resolution(photo, box, (160, 640), random)[0].size) for _ in range(200)]
    assert min(sizes) >= 160
    assert max(sizes) <= 640
    assert 80 <= sum(size < 320 for size in sizes) <= 120


def test_a_photo_smaller_than_the_resolution_stays_as_it_is():
    photo = painted(size=(80, 50))
    box = np.array([[1, 2, 30, 40]], dtype=float)
    reduced, moved = reduce_resolution(photo, box, (160, 640), np.random.default_rng(1))
    assert reduced is photo
    np.testing.assert_array_equal(moved, box)


@pytest.mark.parametrize("resolution", [(0, 100), (300, 200)])
def test_a_resolution_must_be_two_sizes_the_smaller_one_first(resolution):
    with pytest.raises(UsageError, match="smaller one first"):
        AugmentationConfig(resolution=resolution)


def test_a_coarse_photo_keeps_its_size_and_loses_detail():
    """Boxes are in the pixels of the photo: one of another size would be taught with boxes in wrong
    places."""
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    coarse = np.asarray(coarsen(Image.fromarray(noise), np.random.default_rng(1)))
    assert coarse.shape == noise.shape
    assert coarse.std() < 0.8 * noise.std()


def test_without_leave_a_photo_is_never_mirrored():
    always = AugmentationConfig(flip=1.0)
    for seed in range(20):
        random = np.random.default_rng(seed)
        view = random_view(painted(), np.array([BOX], dtype=float), 160, False, always, random)
        assert view.boxes_xyxy[0].tolist() == list(BOX)
    mirrored = random_view(
        painted(), np.array([BOX], dtype=float), 160, True, always, np.random.default_rng(0)
    )
    assert mirrored.boxes_xyxy[0].tolist() == [70, 20, 130, 70]


def test_mirroring_twice_changes_nothing():
    view = plain_view(painted(), np.array([BOX], dtype=float), 160)
    twice = mirror(mirror(view))
    assert np.array_equal(twice.pixels, view.pixels)
    assert np.array_equal(twice.boxes_xyxy, view.boxes_xyxy)


def test_plain_view_is_the_photo_at_its_size():
    view = plain_view(painted(), np.array([BOX], dtype=float), 80)
    assert view.pixels.shape == (50, 80, 3)
    assert view.boxes_xyxy.tolist() == [[15, 10, 45, 35]]
    assert view.kept.all()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.45, 0.55, 0.9, 1.0])
def test_a_box_that_is_mostly_lost_goes(share):
    """A window of 100 × 100 over a box of which `share` lies inside."""
    given_box = np.array([[100 - 40 * share, 10.0, 140 - 40 * share, 50.0]])
    view = View(np.zeros((100, 150, 3), np.uint8), given_box, np.ones(1, dtype=bool))

    class AlwaysFirst(np.random.Generator):
        def integers(self, *_: object, **__: object) -> int:
            return 0

    cropped = crop(view, 100, AlwaysFirst(np.random.PCG64(0)))
    assert cropped.pixels.shape == (100, 100, 3)
    assert bool(cropped.kept[0]) == (share >= SMALLEST_SHARE)
    assert cropped.boxes_xyxy[0].max() <= 100


def test_what_was_dropped_before_stays_dropped():
    view = View(
        np.zeros((50, 50, 3), np.uint8), np.array([[0.0, 0, 9, 9]]), np.zeros(1, dtype=bool)
    )
    assert not crop(view, 100, np.random.default_rng(0)).kept.any()


def test_light_changes_and_hues_stay():
    """Red stays red, whatever the light; else "a red ball" would no longer be true."""
    colours = [(180, 70, 60), (70, 150, 80), (70, 90, 170), (170, 150, 60)]
    picture = Image.new("RGB", (4, 1))
    picture.putdata(colours)
    changed = 0
    for seed in range(30):
        lit = relight(picture, 0.25, np.random.default_rng(seed))
        for x, colour in enumerate(colours):
            red, green, blue = lit.getpixel((x, 0))
            changed += (red, green, blue) != colour
            hue = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)[0]
            before = colorsys.rgb_to_hsv(*(value / 255 for value in colour))[0]
            assert abs((hue - before + 0.5) % 1 - 0.5) < 0.03
    assert changed > 100


def test_no_colour_no_change():
    view = random_view(
        painted(),
        np.array([BOX], dtype=float),
        160,
        False,
        AugmentationConfig(0.0),
        np.random.default_rng(0),
    )
    assert np.array_equal(view.pixels, np.asarray(painted()))


def test_zooms_go_both_ways_and_may_be_few() -> None:
    random = np.random.default_rng(0)
    any_zoom = [random_zoom(AugmentationConfig(zoom=2.0), random) for _ in range(200)]
    assert 0.5 <= min(any_zoom) < 0.6
    assert 1.7 < max(any_zoom) <= 2
    few = {random_zoom(AugmentationConfig(zoom=2.0, zooms=3), random) for _ in range(50)}
    assert few == {0.5, 1.0, 2.0}
    with pytest.raises(UsageError, match="zooms is 1"):
        AugmentationConfig(zooms=1)


def test_a_painted_rectangle_is_where_the_mosaic_says_it_is() -> None:
    photos = [painted(), painted(size=(100, 160)), painted(size=(300, 120)), painted()]
    mosaic, quarters = quarter(photos, (201, 141))
    assert mosaic.size == (201, 141)
    pixels = np.asarray(mosaic).astype(int)
    for number, place in enumerate(quarters):
        ((x0, y0, x1, y1),) = np.rint(place.boxes(np.array([BOX], dtype=float))).astype(int)
        assert 100 * (number % 2) <= x0 < x1 <= 100 * (number % 2 + 1)
        assert 70 * (number // 2) <= y0 < y1 <= 70 * (number // 2 + 1)
        inside = pixels[y0 + 2 : y1 - 2, x0 + 2 : x1 - 2]
        assert np.abs(inside - np.array(RED)).max() <= 2
    assert (pixels[-1, -1] == 127).all()  # what no photo fills is grey
