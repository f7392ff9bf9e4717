"""The sizes that stand in AV1 data."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import heif_bombs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import ImageError, ImageTooLarge
from regiontalk.images import av1
from regiontalk.images.limits import Limits
from regiontalk.images.photo import open_photo

STILL = av1.Sequence((64, 48), (6, 6))
ANIMATED = STILL._replace(is_still=False, order_bits=7, screen_content=2, integer_motion=2)


@dataclass
class Bits:
    """A header, field by field."""

    written: str = field(default="")

    def add(self, value: int, width: int = 1) -> Bits:
        return Bits(self.written + f"{value:0{width}b}")

    def numbers(self) -> av1.Numbers:
        padded = self.written + "0" * (-len(self.written) % 8)
        return av1.Numbers(int(padded, 2).to_bytes(len(padded) // 8))


def key_frame() -> Bits:
    """Up to the flag: not shown before, a key frame, shown, updates, no screen content."""
    return Bits().add(0).add(0, 2).add(1).add(0).add(0)


def test_a_frame_may_have_a_size_of_its_own() -> None:
    header = key_frame().add(1).add(5, 7).add(40, 6).add(30, 6)
    assert av1.frame_size(header.numbers(), ANIMATED) == (41, 31)


def test_most_frames_have_the_size_of_their_sequence() -> None:
    assert av1.frame_size(key_frame().add(0).numbers(), ANIMATED) is None
    assert av1.frame_size(Bits().add(1).numbers(), ANIMATED) is None, "an earlier frame, again"
    assert av1.frame_size(Bits().add(0).numbers(), STILL) is None


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_where_the_size_is_hard_to_find_it_is_the_largest_that_is_possible(kind: int) -> None:
    header = Bits().add(0).add(kind, 2).add(1)
    header = header.add(0).add(0) if kind == 3 else header.add(0).add(0).add(0).add(1)
    assert av1.frame_size(header.numbers(), ANIMATED) == (64, 64)


def test_screen_content_and_ids_stand_before_the_flag() -> None:
    screen = Bits().add(0).add(0, 2).add(1).add(0).add(1).add(0)
    with_id = ANIMATED._replace(id_bits=5)
    header = screen.add(9, 5).add(1).add(5, 7).add(40, 6).add(30, 6)
    assert av1.frame_size(header.numbers(), with_id) == (41, 31)


def test_a_photo_whose_frame_overrides_all_sizes_is_refused() -> None:
    """A kilobyte whose decoding took a second: libavif scales what it decoded to what was said."""
    bomb = heif_bombs.overridden(1000, 64)
    assert len(bomb) < 2000
    with pytest.raises(ImageError, match="it says 64×64 pixels and holds 1000×1000"):
        open_photo(bomb)
    honest = heif_bombs.overridden(70, 64)
    assert open_photo(honest).size == (64, 64)
    with pytest.raises(ImageTooLarge, match="megapixels"):
        open_photo(heif_bombs.overridden(1000, 900), Limits(megapixels=0.9))


def test_what_is_cut_off_ends_quietly() -> None:
    bomb = heif_bombs.overridden(128, 64)
    data = bomb[bomb.rindex(b"mdat") + 4 :]
    assert av1.read([data]).sizes == [(64, 64), (128, 128)]
    assert av1.read([data[:8]]).sizes == []


def test_a_photo_that_is_cut_off_does_not_hide_the_next() -> None:
    bomb = heif_bombs.overridden(128, 64)
    data = bomb[bomb.rindex(b"mdat") + 4 :]
    assert av1.read([data[:8], data]).sizes == [(64, 64), (128, 128)]
    assert av1.read([data[:8], data]).pixels == 128 * 128


def test_a_length_has_at_most_eight_bytes() -> None:
    """Of one that does not end, 300 kB took minutes."""
    assert [unit for _, unit in av1.units(b"\x0a\x82\x80\x80\x80\x80\x80\x80\0ab")] == [b"ab"]
    with pytest.raises(ImageError, match="length of its AV1 data does not end"):
        av1.read([b"\x0a\x82\x80\x80\x80\x80\x80\x80\x80\0ab"])


def test_a_number_has_at_most_31_zeros_before_it() -> None:
    """Decoders stop there, so what follows would be read differently."""
    before = Bits().add(0, 5).add(1).add(0, 64).add(1)
    after = (
        Bits().add(0, 2).add(0, 5).add(0, 12).add(0, 5).add(5, 4).add(5, 4).add(40, 6).add(30, 6)
    )
    usual = Bits(before.written + "001" + "11" + after.written + "0" * 40)
    assert av1.read_sequence(usual.numbers()).size == (41, 31)
    with pytest.raises(ImageError, match="number of its AV1 data does not end"):
        av1.read_sequence(before.add(1, 33).add(0, 32).add(0, 99).numbers())


def test_only_the_headers_of_units_are_kept() -> None:
    kept = [len(unit) for _, unit in av1.units(b"\x32\x90\x4e" + bytes(10_000) + b"\x32\x02ab")]
    assert kept == [1024, 2]


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ImageError):
        assert all(min(size) > 0 for size in av1.read([data]).sizes)
