from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFont

from regiontalk.show import drawing
from regiontalk.show.drawing import Rectangle

FONT = ImageFont.load_default(size=12)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[Rectangle], list[tuple[int, int]], tuple[int, int]]:
    """Boxes and labels on a small image; the labels fit on it one by one, not always all
    together."""
    width, height = draw(st.integers(8, 40)), draw(st.integers(8, 40))
    count = draw(st.integers(0, 12))
    wishes, labels = [], []
    for _ in range(count):
        left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
        right, bottom = draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height))
        wishes.append(Rectangle(left, top, right - left, bottom - top))
        labels.append((draw(st.integers(1, min(20, width))), draw(st.integers(1, min(8, height)))))
    return wishes, labels, (width, height)


def has_free_place(width: int, height: int, others: list[Rectangle], size: tuple[int, int]) -> bool:
    return any(
        not any(Rectangle(left, top, width, height).overlaps(other) for other in others)
        for left in range(size[0] - width + 1)
        for top in range(size[1] - height + 1)
    )


@settings(max_examples=150)
@given(crowds())
def test_labels_stay_inside_and_cover_each_other_only_when_there_is_no_room(
    crowd: tuple[list[Rectangle], list[tuple[int, int]], tuple[int, int]],
) -> None:
    wishes, labels, size = crowd
    placed = drawing.place_labels(wishes, labels, size)
    assert [(place.width, place.height) for place in placed] == labels
    for number, place in enumerate(placed):
        assert place.left >= 0
        assert place.right <= size[0]
        assert place.top >= 0
        assert place.bottom <= size[1]
        before = placed[:number]
        if any(place.overlaps(other) for other in before):
            assert not has_free_place(place.width, place.height, before, size)


def test_a_normal_number_of_regions_gets_labels_apart() -> None:
    dice = np.random.default_rng(3)
    wishes = [Rectangle(int(x), int(y), 90, 70) for x, y in dice.integers(0, 400, (20, 2))]
    placed = drawing.place_labels(wishes, [(110, 18)] * 20, (500, 480))
    assert not any(a.overlaps(b) for a, b in combinations(placed, 2))


def test_a_label_prefers_the_place_above_its_box() -> None:
    assert drawing.place_labels([Rectangle(30, 40, 50, 20)], [(40, 10)], (200, 100)) == [
        Rectangle(30, 30, 40, 10)
    ]


def test_the_second_label_of_a_box_goes_inside_it() -> None:
    box = Rectangle(30, 40, 50, 30)
    assert drawing.place_labels([box, box], [(40, 10)] * 2, (200, 100))[1] == Rectangle(
        30, 40, 40, 10
    )


def test_regions_are_drawn_on_a_copy(scene: Image.Image) -> None:
    before = scene.tobytes()
    drawn = drawing.draw_regions(scene, [[10, 20, 60, 50]], [""])
    assert scene.tobytes() == before
    assert drawn.size == scene.size
    assert drawn.getpixel((10, 20)) == drawing.PALETTE[0]
    assert drawn.getpixel((59, 49)) == drawing.PALETTE[0]
    assert drawn.getpixel((60, 50)) == scene.getpixel((60, 50))
    assert drawn.getpixel((30, 30)) == scene.getpixel((30, 30))


def test_what_is_not_sure_is_grey(scene: Image.Image) -> None:
    boxes_xyxy = [(10, 30, 40, 60), (50, 30, 90, 60)]
    picture = drawing.draw_regions(scene, boxes_xyxy, ["", ""], [True, False])
    assert picture.getpixel((10, 45)) == drawing.PALETTE[0]
    assert picture.getpixel((50, 45)) == drawing.GREY
    below = drawing.draw_sentence(scene, "a dog", sure=False).crop((0, scene.height, *(999, 999)))
    colours = {colour for _, colour in below.crop((0, 0, scene.width, 20)).getcolors() or ()}
    assert drawing.GREY in colours
    assert drawing.WHITE not in colours


@pytest.mark.parametrize("ground", ["black", "white", drawing.PALETTE[0]])
def test_a_box_is_seen_on_any_photo(ground: str | drawing.Colour) -> None:
    photo = Image.new("RGB", (300, 200), ground)
    drawn = drawing.draw_regions(photo, [[50, 60, 250, 190]], [""])
    line = [drawn.getpixel((x, 100)) for x in range(45, 65)]
    assert max(drawing.contrast(colour, photo.getpixel((0, 0))) for colour in line) >= 4.5  # type: ignore[arg-type]


def test_labels_are_readable_on_every_colour_of_the_palette() -> None:
    for colour in drawing.PALETTE:
        assert drawing.contrast(drawing.ink(colour), colour) >= 4.5
        for strength in np.linspace(0, 1, 21):
            plate = drawing.faded(colour, strength)
            assert drawing.contrast(drawing.ink(plate), plate) >= 4.5, (
                "also a weak word of an alignment"
            )


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_ink_is_readable_on_any_plate(plate: drawing.Colour) -> None:
    assert drawing.contrast(drawing.ink(plate), plate) >= 4.5


def test_contrast_is_that_of_wcag() -> None:
    assert drawing.contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert drawing.contrast((118, 118, 118), (255, 255, 255)) == pytest.approx(
        4.54, abs=0.01
    )  # WCAG's example grey
    assert drawing.contrast((60, 180, 75), (255, 255, 255)) == pytest.approx(2.7, abs=0.05)


def test_a_label_is_drawn_in_ink_on_its_plate() -> None:
    drawn = drawing.draw_regions(
        Image.new("RGB", (300, 200), "grey"), [[50, 60, 250, 190]], ["a red mug"]
    )
    plate = np.asarray(drawn.crop((50, 42, 110, 58)))
    assert (plate == drawing.PALETTE[0]).all(axis=-1).mean() > 0.4
    assert (plate.max(axis=-1) < 60).sum() > 10  # thin letters with soft edges


def test_labels_and_lines_grow_with_the_photo() -> None:
    shares = []
    for side in (1000, 4000):
        drawn = drawing.draw_regions(
            Image.new("RGB", (side, side)),
            [[0.1 * side, 0.1 * side, 0.9 * side, 0.9 * side]],
            ["a mug"],
        )
        shares.append((np.asarray(drawn) == drawing.PALETTE[0]).all(axis=-1).mean())
    assert shares[1] == pytest.approx(shares[0], rel=0.1)


@pytest.mark.parametrize(
    "size", [(1, 1), (2, 2), (15, 15), (40, 30), (1, 3000), (3000, 1), (900, 700)]
)
def test_every_size_of_photo_takes_every_box(size: tuple[int, int]) -> None:
    width, height = size
    wild = [
        [0, 0, width, height],
        [-9, -9, 2 * width, 2 * height],
        [5, 5, 1, 1],
        [width, height, width, height],
    ]
    captions = ["a cat", "", "word" * 400, "many words " * 50]
    drawn = drawing.draw_regions(Image.new("RGB", size), wild, captions)
    assert drawn.size == size


def test_no_regions_leave_the_photo_as_it_is(scene: Image.Image) -> None:
    assert drawing.draw_regions(scene, [], []).tobytes() == scene.tobytes()


@given(st.text(max_size=200), st.integers(1, 200), st.integers(1, 4))
def test_wrapped_lines_fit(text: str, width: int, most_lines: int) -> None:
    lines = drawing.wrap(text, FONT, width, most_lines)
    assert len(lines) <= most_lines
    assert all(FONT.getlength(line) <= width for line in lines)


def test_wrapping_keeps_every_word_where_there_is_room() -> None:
    text = "a brown dog runs over the green grass"
    lines = drawing.wrap(text, FONT, 80, 20)
    assert len(lines) > 1
    assert " ".join(lines) == text
    assert drawing.wrap(text, FONT, 80, 2)[-1].endswith("...")


def test_palette_colours_are_distinct() -> None:
    assert len(set(drawing.PALETTE)) == len(drawing.PALETTE)
    differences = [np.abs(np.subtract(a, b)).sum() for a, b in combinations(drawing.PALETTE, 2)]
    assert min(differences) >= 60


def test_contact_sheet_lays_pictures_in_rows(scene: Image.Image) -> None:
    one = drawing.contact_sheet([scene], ["first"], 3)
    three = drawing.contact_sheet([scene] * 3, ["a", "b", "c"], 3)
    four = drawing.contact_sheet([scene] * 4, ["a", "b", "c", "d"], 3)
    assert three.width > one.width
    assert three.height == one.height
    assert four.width == three.width
    assert four.height > three.height
    assert one.getpixel((drawing.MARGIN + 1, drawing.MARGIN + 1)) == scene.getpixel((1, 1))


def test_contact_sheet_shrinks_large_pictures_and_takes_none() -> None:
    sheet = drawing.contact_sheet([Image.new("RGB", (4000, 100), "red")], ["wide " * 90], 1)
    assert sheet.width < 600
    assert drawing.contact_sheet([], [], 3).width > 0


class TestAlignment:
    SEGMENTS = ((("a", 0.1), ("dog", 0.9)), (("runs", 0.5),))

    def test_the_photo_stays_on_top_and_the_words_stand_below(self) -> None:
        photo = Image.new("RGB", (300, 200), "white")
        picture = drawing.draw_alignment(
            photo, [(10, 10, 100, 100), (50, 50, 250, 150)], self.SEGMENTS
        )
        assert picture.width == 300
        assert picture.height > 200
        colours = {
            colour for _, colour in picture.crop((0, 200, 300, picture.height)).getcolors(100_000)
        }
        assert drawing.PALETTE[0] in colours, "the strongest word has its region's full colour"
        assert drawing.PALETTE[1] not in colours, "a weaker one stands on a darker plate"
        assert picture.getpixel((10, 10)) == drawing.PALETTE[0]
        assert photo.getcolors() == [(60_000, (255, 255, 255))], (
            "the photo itself is left as it was"
        )

    def test_segments_of_one_region_share_its_colour(self) -> None:
        photo = Image.new("RGB", (300, 200), "white")
        picture = drawing.draw_alignment(photo, [(10, 10, 100, 100)] * 2, self.SEGMENTS)
        colours = {colour for _, colour in picture.getcolors(100_000)}
        assert drawing.PALETTE[1] not in colours

    def test_a_very_long_sentence_does_not_make_a_very_tall_picture(self) -> None:
        words = [("word", 1.0)] * 5000
        picture = drawing.draw_alignment(Image.new("RGB", (200, 100)), [(0, 0, 9, 9)], [words])
        assert picture.height < 600

    def test_weak_words_can_be_read(self) -> None:
        picture = drawing.draw_alignment(
            Image.new("RGB", (300, 200)), [(9, 9, 90, 90)], [[("dog", -0.5)]]
        )
        below = picture.crop((0, 200, 300, picture.height))
        assert (
            max(
                drawing.contrast(colour, drawing.BACKDROP) for _, colour in below.getcolors(1 << 20)
            )
            > 7
        )

    def test_weak_words_and_tiny_photos(self) -> None:
        drawing.draw_alignment(Image.new("L", (1, 1)), [(0, 0, 1, 1)], [[("dog", -0.5)]])
