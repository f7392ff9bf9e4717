"""How large the photos in AV1 data are, by its headers (AV1 specification, 5.3 to 5.9), which is
what a decoder allocates, and how many pixels it decodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from regiontalk.errors import ImageError, ImageTooLarge

Size = tuple[int, int]

_SEQUENCE_HEADER = 1  # types of a unit
_FRAME_HEADER = 3
_FRAME = 6
_KEY_FRAME = 0  # types of a frame
_SWITCH_FRAME = 3
_CHOSEN_BY_FRAMES = 2  # each frame has the setting itself
_MOST_UNITS = 20_000  # of all items; a photo, or a tile of one, has three
_LONGEST_LENGTH = 8  # bytes of a unit's length
_HEADER_BYTES = 1024  # of a unit that are read: a sequence header has 400 at most
_MOST_ZEROS = 31  # before a number of variable length; decoders read more in different ways


class Numbers:
    """Reads numbers of given widths in bits, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, bits: int) -> int:
        first, self.place = self.place, self.place + bits
        if self.place > 8 * len(self.data):
            raise IndexError
        whole = int.from_bytes(self.data[first // 8 : -(-self.place // 8)], "big")
        return whole >> (-self.place % 8) & ((1 << bits) - 1)


class Timing(NamedTuple):
    """How many bits of its times stand in each frame's header, if any do."""

    delay_bits: int = 0
    presentation_bits: int = 0


class Sequence(NamedTuple):
    """What a sequence header says, as far as the sizes of frames depend on it."""

    size: Size
    size_bits: Size
    """Bits of a width and of a height that a frame has instead."""
    is_still: bool = True
    has_decoder_model: bool = False
    presentation_bits: int = 0
    id_bits: int = 0
    screen_content: int = 0
    integer_motion: int = 0
    order_bits: int = 0


class Coded(NamedTuple):
    """What AV1 units hold."""

    sizes: list[Size]
    """The sizes of the sequences, one for each photo or tile, and of the frames that have another
    size than their sequence."""
    pixels: int
    """The pixels of all frames together. A decoder may decode each of them, however many a photo
    has."""


def read(photos: Iterable[bytes]) -> Coded:
    """What the photos or tiles have that a decoder gets one after another."""
    sizes = []
    pixels = 0
    count = 0
    sequence = None
    for data in photos:
        with suppress(IndexError):  # cut off, which the decoder will say
            for kind, unit in units(data):
                count += 1
                if count > _MOST_UNITS:
                    raise ImageTooLarge(f"more than {_MOST_UNITS:,} units of AV1")
                if kind == _SEQUENCE_HEADER:
                    sequence = read_sequence(Numbers(unit))
                    sizes.append(sequence.size)
                elif sequence is not None and kind in (_FRAME_HEADER, _FRAME):
                    own_size = frame_size(Numbers(unit), sequence)
                    sizes += [own_size] if own_size is not None else []
                    width, height = own_size or sequence.size
                    pixels += width * height
    return Coded(sizes, pixels)


def units(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and first bytes of each AV1 unit (5.3)."""
    place = 0
    while place < len(data):
        header, place = data[place], place + (2 if data[place] & 4 else 1)
        length = len(data) - place
        if header & 2:
            length, place = _read_length(data, place)
        yield header >> 3 & 15, data[place : place + min(length, _HEADER_BYTES)]
        place += length


def _read_length(data: bytes, place: int) -> tuple[int, int]:
    """The length of a unit, seven bits a byte (4.10.5), and the place after it."""
    length = 0
    for number in range(_LONGEST_LENGTH):
        byte = data[place + number]
        length |= (byte & 127) << 7 * number
        if not byte & 128:
            return length, place + number + 1
    raise ImageError("a broken photo: a length of its AV1 data does not end")


def read_sequence(numbers: Numbers) -> Sequence:
    """A sequence header (5.5.1)."""
    numbers.take(4)
    is_still = bool(numbers.take(1))
    timing = Timing()
    if is_still:
        numbers.take(5)
    else:
        timing = _read_operating_points(numbers)
    size_bits = numbers.take(4) + 1, numbers.take(4) + 1
    size = numbers.take(size_bits[0]) + 1, numbers.take(size_bits[1]) + 1
    if is_still:
        return Sequence(size, size_bits)
    id_bits = 0
    if numbers.take(1):
        id_bits = numbers.take(4) + 2 + numbers.take(3) + 1
    numbers.take(7)  # tools, five of them for several frames
    has_order = numbers.take(1)
    if has_order:
        numbers.take(2)
    screen_content = _CHOSEN_BY_FRAMES if numbers.take(1) else numbers.take(1)
    integer_motion = _CHOSEN_BY_FRAMES
    if screen_content and not numbers.take(1):
        integer_motion = numbers.take(1)
    order_bits = numbers.take(3) + 1 if has_order else 0
    return Sequence(
        size,
        size_bits,
        False,
        timing.delay_bits > 0,
        timing.presentation_bits,
        id_bits,
        screen_content,
        integer_motion,
        order_bits,
    )


def frame_size(numbers: Numbers, sequence: Sequence) -> Size | None:
    """The size that stands in a frame's header (5.9.2); None if it is its sequence's.

    Where more stands before it than of a common key frame, the largest that its bits allow.
    """
    if sequence.is_still or numbers.take(1):  # or an earlier frame is shown
        return None
    kind = numbers.take(2)
    is_shown = numbers.take(1)
    if is_shown:
        numbers.take(sequence.presentation_bits)
    else:
        numbers.take(1)
    is_shown_key = kind == _KEY_FRAME and bool(is_shown)
    if kind != _SWITCH_FRAME and not is_shown_key:
        numbers.take(1)
    numbers.take(1)
    screen_content = sequence.screen_content
    if screen_content == _CHOSEN_BY_FRAMES:
        screen_content = numbers.take(1)
    if screen_content and sequence.integer_motion == _CHOSEN_BY_FRAMES:
        numbers.take(1)
    numbers.take(sequence.id_bits)
    if kind != _SWITCH_FRAME and not numbers.take(1):
        return None
    width_bits, height_bits = sequence.size_bits
    if not is_shown_key or sequence.has_decoder_model:
        return 1 << width_bits, 1 << height_bits
    numbers.take(sequence.order_bits)
    return numbers.take(width_bits) + 1, numbers.take(height_bits) + 1


def _read_operating_points(numbers: Numbers) -> Timing:
    timing = Timing()
    if numbers.take(1):
        numbers.take(64)
        is_regular = numbers.take(1)
        if is_regular:
            zeros = 0
            while not numbers.take(1):
                zeros += 1
                if zeros > _MOST_ZEROS:
                    raise ImageError("a broken photo: a number of its AV1 data does not end")
            numbers.take(zeros)
        if numbers.take(1):  # decoder model
            delay_bits = numbers.take(5) + 1
            numbers.take(37)
            presentation_bits = numbers.take(5) + 1
            timing = Timing(delay_bits, 0 if is_regular else presentation_bits)
    display_delay = numbers.take(1)
    for _ in range(numbers.take(5) + 1):
        numbers.take(12)
        if numbers.take(5) > 7:
            numbers.take(1)
        if timing.delay_bits and numbers.take(1):
            numbers.take(2 * timing.delay_bits + 1)
        if display_delay and numbers.take(1):
            numbers.take(4)
    return timing
