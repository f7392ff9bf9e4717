"""Checks that an AVIF or HEIF file contains what its metadata says, because its decoder trusts
that.

Its `meta` box lists items (ISO/IEC 23008-12): photos coded with AV1, EXIF, and others. A size
stands in the `ispe` property, and again in the AV1 data itself (`av1`), which is what the decoder
allocates.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import IO, NamedTuple

from regiontalk.errors import ImageError, ImageTooLarge
from regiontalk.images import av1
from regiontalk.images.av1 import Numbers

# coded photos may be this many times larger or smaller than the given size: tiles and padding
_MAX_SIZE_RATIO = 2
# times the allowed pixels that all frames may have: a photo, its transparency, layers, thumbnails
_MAX_FRAMES_RATIO = 4
_MAX_DEPTH = 20  # parts of parts
_MOST_TURNS = 4  # of an item: it may be cropped, mirrored and turned, once each
_TURNS = (b"clap", b"irot", b"imir")
_SAMPLES = (b"trak", b"mdia", b"minf", b"stbl")  # from `moov` to where samples are listed


class Item(NamedTuple):
    kind: bytes
    extents: list[tuple[int, int]]
    """Offset and length."""
    in_meta: bool
    """Offsets are those in the `idat` box, else in the file."""


def exif_bytes(meta: bytes) -> int:
    """How long the EXIF of the `meta` box (without its header) is."""
    parts = chain.from_iterable(item.extents for item in _items(meta) if item.kind == b"Exif")
    return sum(length for _, length in parts)


def profile_bytes(meta: bytes) -> int:
    """How long the colour profiles in the `meta` box are; that of a printer has half a megabyte."""
    return sum(map(len, _properties(meta, b"colr")))


def check_sizes(file: IO[bytes], meta: bytes, most_pixels: float) -> tuple[int, int]:
    """The largest size of a coded photo, (0, 0) if there is none; rejects a file that gives another
    size, or has far more frames than photos of `most_pixels` have."""
    declared = [
        struct.unpack(">II", ispe[4:12]) for ispe in _properties(meta, b"ispe") if len(ispe) >= 12
    ]
    photos = [item for item in _items(meta) if item.kind == b"av01"]
    end = file.seek(0, os.SEEK_END)
    parts = chain.from_iterable(item.extents for item in photos)
    if sum(length or end for _, length in parts) > end:
        raise ImageError("a broken photo: its parts overlap")
    inside = io.BytesIO(_child(meta[4:], b"idat"))
    coded = _coded_sizes(
        (_read(inside if item.in_meta else file, item.extents) for item in photos), most_pixels
    )
    if not declared or not coded:
        return 0, 0
    width, height = max(declared, key=lambda size: size[0] * size[1])
    largest = max(coded, key=lambda size: size[0] * size[1])
    pixels = largest[0] * largest[1]
    all_coded = sum(width * height for width, height in coded)
    if pixels > _MAX_SIZE_RATIO * width * height or width * height > _MAX_SIZE_RATIO * all_coded:
        raise ImageError(
            f"a broken photo: it says {width}×{height} pixels and holds {largest[0]}×{largest[1]}"
        )
    return largest


def _coded_sizes(photos: Iterable[bytes], most_pixels: float) -> list[av1.Size]:
    """The sizes in AV1 data (`av1.Coded`); rejects data whose frames take a minute or more."""
    coded = av1.read(photos)
    if coded.pixels > _MAX_FRAMES_RATIO * most_pixels:
        limit = f"{_MAX_FRAMES_RATIO * most_pixels / 1e6:g} megapixels"
        raise ImageTooLarge(f"its frames have more than {limit} together")
    return coded.sizes


def largest_in_tracks(file: IO[bytes], moov: bytes, most_pixels: float) -> tuple[int, int]:
    """The largest size in the first samples of the tracks of an animation (ISO/IEC 14496-12,
    8.7)."""
    tables = [moov]
    for name in _SAMPLES:
        boxes = chain.from_iterable(map(_boxes, tables))
        tables = [content for kind, content in boxes if kind == name]
    frames = [frame for frame in map(_first_frame, tables) if frame[1]]
    if sum(length for _, length in frames) > file.seek(0, os.SEEK_END):
        raise ImageError("a broken photo: its parts overlap")
    sizes = _coded_sizes((_read(file, [frame]) for frame in frames), most_pixels)
    if not sizes:
        raise ImageError("a broken photo: its frames cannot be found")
    return max(sizes, key=lambda size: size[0] * size[1])


def _first_frame(table: bytes) -> tuple[int, int]:
    """Offset and length of the first sample of a track, from its `stbl` box."""
    wide = 8 if _child(table, b"co64") else 4
    start = int.from_bytes((_child(table, b"co64") or _child(table, b"stco"))[8 : 8 + wide])
    samples = _child(table, b"stsz")
    return start, int.from_bytes(samples[4:8]) or int.from_bytes(samples[12:16])


def check_derived(meta: bytes, most_pixels: float) -> None:
    """Rejects photos put together from so many others (grids, overlays), or turned so often, that
    decoding takes minutes: an item may be named any number of times, and is decoded each time."""
    sizes, turns = _associated(meta)
    if max(turns.values(), default=0) > _MOST_TURNS:
        raise ImageTooLarge(f"more than {_MOST_TURNS} turns of a photo")
    parts = _parts(_child(meta[4:], b"iref"))
    known: dict[int, float] = {}

    def pixels_of(number: int, depth: int = 0) -> float:
        if depth > _MAX_DEPTH:
            raise ImageError("a broken photo: its parts contain each other")
        if number not in known:
            inside = [pixels_of(part, depth + 1) for part in parts.get(number, ())]
            known[number] = sum(inside) or sizes.get(number, 0)
        return known[number]

    if max(map(pixels_of, parts), default=0) > _MAX_SIZE_RATIO * most_pixels:
        raise ImageTooLarge(
            f"its parts have more than {_MAX_SIZE_RATIO * most_pixels / 1e6:g} megapixels"
        )


def _associated(meta: bytes) -> tuple[dict[int, int], dict[int, int]]:
    """Pixels, and number of turns, of each item (`ipma`)."""
    table = _child(meta[4:], b"iprp")
    properties = list(_boxes(_child(table, b"ipco")))
    sizes: dict[int, int] = {}
    turns: dict[int, int] = {}
    for name, content in _boxes(table):
        if name == b"ipma":
            with suppress(IndexError):  # cut off, which the decoder will say
                for item, index in _associations(Numbers(content)):
                    known = 0 < index <= len(properties)
                    kind, value = properties[index - 1] if known else (b"", b"")
                    if kind == b"ispe":
                        width, height = (int.from_bytes(value[at : at + 4]) for at in (4, 8))
                        sizes[item] = width * height
                    elif kind in _TURNS:
                        turns[item] = turns.get(item, 0) + 1
    return sizes, turns


def _associations(numbers: Numbers) -> Iterator[tuple[int, int]]:
    """Items, each with the number of one of its properties."""
    version = numbers.take(8)
    wide = 15 if numbers.take(24) & 1 else 7
    for _ in range(numbers.take(32)):
        item = numbers.take(32 if version else 16)
        for _ in range(numbers.take(8)):
            numbers.take(1)
            yield item, numbers.take(wide)


def _parts(references: bytes) -> dict[int, list[int]]:
    """The items that each derived one is made of (`dimg` in `iref`)."""
    wide = 4 if references[:1] == b"\1" else 2
    parts = {}
    for name, content in _boxes(references[4:]):
        if name == b"dimg":
            numbers = [
                int.from_bytes(content[at : at + wide])
                for at in range(wide + 2, len(content) - wide + 1, wide)
            ]
            parts[int.from_bytes(content[:wide])] = numbers
    return parts


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of each box."""
    place = 0
    while place + 8 <= len(data):
        length, name = struct.unpack_from(">I4s", data, place)
        header = 8
        if length == 1:  # it follows, in 64 bits
            length = int.from_bytes(data[place + 8 : place + 16])
            header = 16
        length = length if length >= header else len(data) - place
        yield name, data[place + header : place + length]
        place += length


def _child(data: bytes, name: bytes) -> bytes:
    return next((content for kind, content in _boxes(data) if kind == name), b"")


def _properties(meta: bytes, name: bytes) -> list[bytes]:
    properties = _child(_child(meta[4:], b"iprp"), b"ipco")
    return [content for kind, content in _boxes(properties) if kind == name]


def _items(meta: bytes) -> list[Item]:
    kinds = _kinds(_child(meta[4:], b"iinf"))
    try:
        return list(_located(_child(meta[4:], b"iloc"), kinds))
    except IndexError:  # cut off, which the decoder will say
        return []


def _kinds(table: bytes) -> dict[int, bytes]:
    """The type of each item, by its number (`infe`, version 2 or 3)."""
    kinds = {}
    for _, entry in _boxes(table[6 if table[:1] == b"\0" else 8 :]):
        wide = 4 if entry[:1] == b"\3" else 2
        kinds[int.from_bytes(entry[4 : 4 + wide], "big")] = entry[6 + wide : 10 + wide]
    return kinds


def _located(table: bytes, kinds: dict[int, bytes]) -> Iterator[Item]:
    """Items with their places (`iloc`)."""
    numbers = Numbers(table)
    version = numbers.take(32) >> 24
    offset, length, base, index = (8 * numbers.take(4) for _ in range(4))
    wide = 32 if version == 2 else 16
    for _ in range(numbers.take(wide)):
        number = numbers.take(wide)
        method = numbers.take(16) & 15 if version else 0
        numbers.take(16)
        start, extents = numbers.take(base), []
        count = numbers.take(16)
        for _ in range(count if offset + length else min(count, 1)):
            numbers.take(index if version else 0)
            extents.append((start + numbers.take(offset), numbers.take(length)))
        yield Item(kinds.get(number, b""), extents, method == 1)


def _read(source: IO[bytes], extents: list[tuple[int, int]]) -> bytes:
    parts = []
    end = source.seek(0, os.SEEK_END)
    for start, length in extents:
        source.seek(min(start, end))  # further on, a system may refuse
        parts.append(source.read(length or -1))
    return b"".join(parts)
