"""Photos in tar shards: upright, resized, as JPEG; a data set is then a few large files that can be
moved."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from PIL import Image

from regiontalk.errors import ImageError, UsageError
from regiontalk.images.photo import SHORTEST_SIDE, encode, open_photo, resize
from regiontalk.io.files import FreeNames
from regiontalk.lab.data.records import Record, TarShards
from regiontalk.lab.data.region_boxes import scale_region

SHARD_BYTES = 256_000_000
JPEG_QUALITY = 90


class Packer:
    """Writes the photos of records into shards of about 256 MB: the same bytes for the same
    photos."""

    def __init__(self, folder: Path, long_side: int) -> None:
        if long_side < SHORTEST_SIDE:
            raise UsageError(f"a packed photo needs a long side of at least {SHORTEST_SIDE} pixels")
        self.folder = folder
        self.long_side = long_side
        self._names = FreeNames()
        self._shards = 0
        self._tar: tarfile.TarFile | None = None

    def pack(self, record: Record, photo: Image.Image) -> Record:
        """Stores the photo; the record with its place in a shard and its boxes scaled."""
        if photo.size != (record.width, record.height):
            raise ImageError(
                f"{record.image}: the photo has {photo.width}×{photo.height} pixels, "
                f"its annotation says {record.width}×{record.height}"
            )
        if max(photo.size) > self.long_side:
            resized = resize(photo, self.long_side)
            photo = Image.fromarray(resized.pixels)
        name = self._names.take(PurePosixPath(record.image).stem, ".jpg")
        shard = self._store(name, encode(photo, "JPEG", quality=JPEG_QUALITY))
        x, y = photo.width / record.width, photo.height / record.height
        return replace(
            record,
            image=name,
            shard=shard,
            width=photo.width,
            height=photo.height,
            original_width=record.original_width or record.width,
            original_height=record.original_height or record.height,
            regions=tuple(scale_region(region, x, y) for region in record.regions),
        )

    def _store(self, name: str, data: bytes) -> str:
        if self._tar is None or self._tar.offset > SHARD_BYTES:
            self.close()
            path = self.folder / f"images-{self._shards:05d}.tar"
            # `close` closes it.
            self._tar = tarfile.open(path, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
            self._shards += 1
        add_member(self._tar, name, data)
        return Path(str(self._tar.name)).name

    def close(self) -> None:
        if self._tar is not None:
            self._tar.close()
            self._tar = None


@contextmanager
def packing(
    folder: Path, long_side: int | None, photos: TarShards
) -> Iterator[Callable[[Record], Record]]:
    """A function that packs the photo of a record into `folder`; without a long side photos are not
    copied."""
    if long_side is None:
        yield lambda record: record
        return
    with closing(Packer(folder, long_side)) as packer:
        yield lambda record: packer.pack(record, open_photo(photos.photo(record)))


def add_member(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)  # its defaults: no owner, time 0, mode 0o644
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
