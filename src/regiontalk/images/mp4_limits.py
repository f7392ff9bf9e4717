"""How many frames the tables of an MP4 or MOV file speak of, before FFmpeg makes room for each.

A table may say in a few bytes that there are billions. Tables are looked for anywhere outside of
the frames' own bytes, because FFmpeg reads them wherever they stand (ISO/IEC 14496-12, section 8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from regiontalk.errors import ImageError, ImageTooLarge

MOST_FRAMES = 2_000_000  # of pictures, sound and data together; FFmpeg takes 70 bytes for each
MOST_TABLE_BYTES = 64_000_000
MOST_BOXES = 400_000
USUAL_EDITS = 2  # of a list: FFmpeg lists the frames of each edit
LEAST_SAMPLES = 160  # of plain sound that FFmpeg lists as one frame

_MEDIA = b"mdat"
_NAMES = re.compile(rb"trak|hdlr|stsz|stz2|stts|stsc|stco|co64|elst|trun|cmov")


def check_tables(file: IO[bytes]) -> None:
    """Raises `ImageTooLarge` for a file with more frames than hours of video have."""
    frames = 0
    edits = 0
    for track in _tracks(_all_but_media(file)):
        frames += track.frames
        edits += track.unusual_edits
        if frames * (1 + edits) > MOST_FRAMES:
            raise ImageTooLarge(f"its tables have more than {MOST_FRAMES:,} frames")


def _all_but_media(file: IO[bytes]) -> bytes:
    """The content of all boxes of the file but those with its frames."""
    parts: list[bytes] = []
    taken = 0
    place = 0
    end = file.seek(0, os.SEEK_END)
    for _ in range(MOST_BOXES):
        if place >= end:
            return b"".join(parts)
        file.seek(place)
        header = file.read(16)
        length = int.from_bytes(header[:4], "big")
        if length == 1:  # it follows, in 64 bits
            length = int.from_bytes(header[8:], "big")
        length = length if length >= 8 else end - place  # 0: to the end of the file
        if header[4:8] != _MEDIA:
            file.seek(place)
            parts.append(file.read(min(length, MOST_TABLE_BYTES)))
            taken += length if place + length <= end else end - place
            if taken > MOST_TABLE_BYTES:
                raise ImageTooLarge(f"its tables have more than {MOST_TABLE_BYTES / 1e6:.0f} MB")
        place += length
    raise ImageTooLarge(f"more than {MOST_BOXES:,} parts")


@dataclass
class _Track:
    """What the tables of a track, or of a fragment, say."""

    samples: int = 0
    fragments: int = 0
    """Frames of fragments."""
    chunks: int = 0
    samples_per_chunk: int = 0
    unusual_edits: int = 0
    is_sound: bool = False
    is_pictures: bool = False
    times: tuple[bytes, ...] = ()
    """The beginning of each table of times."""

    @property
    def frames(self) -> int:
        """FFmpeg lists samples of plain sound by chunks, all others one by one."""
        plain_sound = self.times == (b"\0\0\0\1",)
        if self.is_sound and not self.is_pictures and plain_sound:
            listed = self.chunks * (1 + self.samples_per_chunk // LEAST_SAMPLES)
        else:
            listed = self.samples
        return listed + self.fragments


def _tracks(tables: bytes) -> Iterator[_Track]:
    track = _Track()
    for match in _NAMES.finditer(tables):
        name = match[0]
        if name == b"trak":
            yield track
            track = _Track()
        elif name == b"cmov":
            raise ImageError("its tables are compressed")
        else:
            _read(name, tables, match.end(), track)
    yield track


def _read(name: bytes, tables: bytes, start: int, track: _Track) -> None:
    """Adds a table, or what the track is."""

    def number(at: int) -> int:
        return int.from_bytes(tables[start + at : start + at + 4], "big")

    if name in (b"stsz", b"stz2"):
        track.samples += number(8)
    elif name == b"trun":
        track.fragments += number(4)
    elif name == b"elst":
        track.unusual_edits += max(0, number(4) - USUAL_EDITS)
    elif name in (b"stco", b"co64"):
        track.chunks += number(4)
    elif name == b"stsc":
        rows = range(min(number(4), MOST_TABLE_BYTES // 12))
        end = len(tables) - start
        counts = (number(12 + 12 * row) for row in rows if 12 + 12 * row < end)
        track.samples_per_chunk = max(track.samples_per_chunk, max(counts, default=0))
    elif name == b"stts":
        is_one = number(4) == 1
        track.times += (tables[start + 12 : start + 16] if is_one else b"",)
    elif name == b"hdlr":
        kind = tables[start + 8 : start + 12]
        track.is_sound |= kind == b"soun"
        track.is_pictures |= kind == b"vide"
