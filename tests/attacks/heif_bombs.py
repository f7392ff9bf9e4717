"""HEIF photos put together from parts, and AVIF files whose sizes differ: small files that take
minutes or gigabytes.

Needs pillow-heif, which writes the parts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hostile_files import encode
from photo_bombs import box, flat

from regiontalk.images import av1

Property = tuple[bytes, bytes]
IN_FILE, IN_META = 0, 1
TURN: Property = (b"irot", b"\1")


class Item(NamedTuple):
    kind: bytes
    data: bytes
    place: int
    parts: Sequence[int] = ()
    """The items that it is made of."""


def full_box(name: bytes, content: bytes, version: int = 0) -> bytes:
    return box(name, bytes([version, 0, 0, 0]) + content)


def extent(width: int, height: int) -> Property:
    return b"ispe", struct.pack(">III", 0, width, height)


def coded(side: int) -> tuple[Property, bytes]:
    """The decoder's configuration and the coded bytes of a square photo of one colour."""
    data = encode(flat(side, side), "HEIF")
    start = data.index(b"hvcC")
    (length,) = struct.unpack_from(">I", data, start - 4)
    pixels = data.index(b"mdat") + 4
    (size,) = struct.unpack_from(">I", data, pixels - 8)
    return (b"hvcC", data[start + 4 : start - 4 + length]), data[pixels : pixels - 8 + size]


def heif(
    items: Mapping[int, Item], properties: Sequence[Property], owned: Mapping[int, Sequence[int]]
) -> bytes:
    """`owned`: the numbers of the properties of each item, from 1. The last item is the photo."""
    kinds = b"".join(
        full_box(b"infe", struct.pack(">HH", number, 0) + item.kind + b"\0", 2)
        for number, item in items.items()
    )
    references = b"".join(
        box(b"dimg", struct.pack(f">HH{len(item.parts)}H", number, len(item.parts), *item.parts))
        for number, item in items.items()
        if item.parts
    )
    associations = b"".join(
        struct.pack(">HB", number, len(own)) + bytes(own) for number, own in owned.items()
    )
    known = box(b"ipco", b"".join(box(name, content) for name, content in properties))
    described = (
        full_box(b"hdlr", bytes(4) + b"pict" + bytes(13))
        + full_box(b"pitm", struct.pack(">H", max(items)))
        + full_box(b"iinf", struct.pack(">H", len(items)) + kinds)
        + full_box(b"iref", references)
        + box(b"iprp", known + full_box(b"ipma", struct.pack(">I", len(owned)) + associations))
    )
    stored = {
        place: b"".join(item.data for item in items.values() if item.place == place)
        for place in (IN_FILE, IN_META)
    }

    def meta(start: int) -> bytes:
        places = {IN_FILE: start, IN_META: 0}
        rows = []
        for number, item in items.items():
            row = (number, item.place, 0, 1, places[item.place], len(item.data))
            rows.append(struct.pack(">HHHHII", *row))
            places[item.place] += len(item.data)
        located = struct.pack(">BBH", 0x44, 0, len(items)) + b"".join(rows)
        return full_box(
            b"meta", described + box(b"idat", stored[IN_META]) + full_box(b"iloc", located, 1)
        )

    kind = box(b"ftyp", b"heic" + bytes(4) + b"mif1heicmiaf")
    start = len(kind) + len(meta(0)) + 8
    return kind + meta(start) + box(b"mdat", stored[IN_FILE])


def grid(rows: int, columns: int, size: tuple[int, int], tile: int) -> bytes:
    """One tile, again and again."""
    configuration, pixels = coded(tile)
    layout = bytes([0, 1, rows - 1, columns - 1]) + struct.pack(">II", *size)
    items = {
        1: Item(b"hvc1", pixels, IN_FILE),
        2: Item(b"grid", layout, IN_META, [1] * (rows * columns)),
    }
    return heif(items, [configuration, extent(tile, tile), extent(*size)], {1: [0x81, 2], 2: [3]})


def overlays(levels: int, each: int, side: int) -> bytes:
    """A photo laid over itself, and the result again."""
    configuration, pixels = coded(side)
    layout = struct.pack(">HHHHHII", 1, 0, 0, 0, 0xFFFF, side, side) + bytes(8 * each)
    items = {1: Item(b"hvc1", pixels, IN_FILE)}
    items |= {
        level: Item(b"iovl", layout, IN_META, [level - 1] * each) for level in range(2, levels + 2)
    }
    owned = {1: [0x81, 2], **{level: [2] for level in range(2, levels + 2)}}
    return heif(items, [configuration, extent(side, side)], owned)


def round_and_round() -> bytes:
    """Two overlays that contain each other."""
    configuration, pixels = coded(64)
    layout = struct.pack(">HHHHHII", 1, 0, 0, 0, 0xFFFF, 64, 64) + bytes(8)
    items = {
        1: Item(b"hvc1", pixels, IN_FILE),
        2: Item(b"iovl", layout, IN_META, [3]),
        3: Item(b"iovl", layout, IN_META, [2]),
    }
    owned = {1: [0x81, 2], 2: [2], 3: [2]}
    return heif(items, [configuration, extent(64, 64)], owned)


def turned(times: int, side: int) -> bytes:
    configuration, pixels = coded(side)
    items = {1: Item(b"hvc1", pixels, IN_FILE)}
    return heif(items, [configuration, extent(side, side), TURN], {1: [0x81, 2, *[3] * times]})


def animation(side: int) -> bytes:
    frames = [flat(side, side), flat(side, side)]
    frames[1].paste((200, 30, 60), (0, 0, side // 2, side // 2))
    return encode(frames[0], "AVIF", save_all=True, append_images=frames[1:], speed=10)


def lying_animation(side: int, said: int) -> bytes:
    """All sizes are `said`, and so is the photo in front; the frames of the track are larger."""
    data, small = bytearray(animation(side)), animation(said)
    (first,) = struct.unpack_from(">I", small, small.index(b"stsz") + 16)
    pixels = small.index(b"mdat") + 4
    photo = small[pixels : pixels + first]
    struct.pack_into(">II", data, data.index(b"tkhd") + 80, said << 16, said << 16)
    struct.pack_into(">HH", data, data.index(b"av01", data.index(b"stsd")) + 28, said, said)
    struct.pack_into(">II", data, data.index(b"ispe") + 8, said, said)
    struct.pack_into(">II", data, data.index(b"iloc") + 18, len(data) + 8, len(photo))
    return bytes(data) + box(b"mdat", photo)


def frames_again(count: int, side: int) -> bytes:
    """A still AVIF whose one frame follows again and again, which a decoder decodes too."""
    data = bytearray(encode(flat(side, side), "AVIF", speed=10))
    photo = bytes(data[data.index(b"mdat") + 4 :])
    (frame,) = (content for kind, content in av1.units(photo) if kind == 6)
    photo += _unit(6, frame) * count
    struct.pack_into(">II", data, data.index(b"iloc") + 18, len(data) + 8, len(photo))
    return bytes(data) + box(b"mdat", photo)


def with_long_box(data: bytes, name: bytes) -> bytes:
    """An AVIF of one item in which a box of `meta` gives its length in 64 bits."""
    changed = bytearray(data)
    for parent in (b"meta", b"iprp") if name == b"ipco" else (b"meta",):
        place = data.index(parent) - 4
        struct.pack_into(">I", changed, place, int.from_bytes(data[place : place + 4]) + 8)
    pixels = data.index(b"iloc") + 18
    struct.pack_into(">I", changed, pixels, int.from_bytes(data[pixels : pixels + 4]) + 8)
    place = data.index(name) - 4
    length = int.from_bytes(data[place : place + 4]) + 8
    header = struct.pack(">I4sQ", 1, name, length)
    return bytes(changed[:place] + header + changed[place + 8 :])


def overridden(side: int, said: int) -> bytes:
    """A still AVIF whose sequence, like all else, says `said`; its one frame overrides that."""
    of_side = animation(side)
    (length,) = struct.unpack_from(">I", of_side, of_side.index(b"stsz") + 16)
    start = of_side.index(b"mdat") + 4
    coded_units = dict(av1.units(of_side[start : start + length]))
    read = av1.read_sequence(av1.Numbers(coded_units[1]))
    assert read.size == (side, side)
    own_bits = read.size_bits[0]
    own_size = f"{own_bits - 1:04b}" * 2 + f"{side - 1:0{own_bits}b}" * 2
    other_size = f"{16 - 1:04b}" * 2 + f"{said - 1:016b}" * 2
    sequence = _bits(coded_units[1]).replace(own_size, other_size, 1).rstrip("0")
    sequence += "0" * (-len(sequence) % 8)
    frame = _bits(coded_units[6])
    assert frame[:4] == "0001", "a key frame that is shown"
    flag = 5
    if read.screen_content == 2:
        flag += 1 + (frame[flag] == "1" and read.integer_motion == 2)
    assert frame[flag] == "0"
    after_order = flag + 1 + read.order_bits
    size = f"{side - 1:016b}" * 2  # whole bytes: what follows stays as it was coded
    frame = frame[:flag] + "1" + frame[flag + 1 : after_order] + size + frame[after_order:]
    photo = b"\x12\0" + _unit(1, _bytes(sequence)) + _unit(6, _bytes(frame))
    data = bytearray(encode(flat(said, said), "AVIF", speed=10))
    struct.pack_into(">II", data, data.index(b"iloc") + 18, len(data) + 8, len(photo))
    return bytes(data) + box(b"mdat", photo)


def _bits(data: bytes) -> str:
    return "".join(f"{byte:08b}" for byte in data)


def _bytes(bits: str) -> bytes:
    return int(bits, 2).to_bytes(len(bits) // 8)


def _unit(kind: int, content: bytes) -> bytes:
    """An AV1 unit with its length (LEB128)."""
    length = len(content)
    coded_length = bytearray()
    while True:
        coded_length.append(length & 127 | (128 if length > 127 else 0))
        length >>= 7
        if not length:
            return bytes([kind << 3 | 2]) + coded_length + content
