"""Photos as a cluster reads them: paths that all its machines can reach, tar files, and addresses such as s3://."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import closing

from pyarrow import fs

from regiontalk.errors import InputError
from regiontalk.images import Limits
from regiontalk.photos import SUFFIXES, Photos, find_photos, in_order

ARCHIVE = ".tar"
READERS = 4  # photos that a worker fetches at a time from an object store

Source = tuple[str, str | bytes | InputError]
"""A photo's name, and what is opened: its path, its bytes, or why it cannot be."""


def find(given: Iterable[str]) -> Photos:
    """Photos and tar files, by full paths: workers have other working folders. Folders are searched, also those in an
    object store; a list of paths comes by stdin (`-`)."""
    given = list(given)
    found = find_photos([path for path in given if "://" not in path], suffixes=(*SUFFIXES, ARCHIVE))
    found.paths = [path if "://" in path else os.path.abspath(path) for path in found.paths]  # noqa: PTH100
    for address in (path for path in given if "://" in path):
        found.paths += _list(address)
    return found


def _list(address: str) -> list[str]:
    """The photos and tar files below an address, or itself."""
    try:
        system, path = fs.FileSystem.from_uri(address)
        if system.get_file_info(path).type == fs.FileType.File:
            return [address]
        inside = system.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as error:
        raise InputError(f"{address}: cannot be read: {error}") from error
    files = (info.path for info in inside if info.type == fs.FileType.File)
    start = address.rstrip("/").removesuffix(path.strip("/"))
    return sorted(start + one.lstrip("/") for one in files if one.lower().endswith((*SUFFIXES, ARCHIVE)))


def open_all(paths: Iterable[str], limits: Limits) -> Iterator[Source]:
    """What there is to look at: the photos themselves, and those in tar files, which are named FILE.tar/MEMBER."""
    for path in paths:
        if path.lower().endswith(ARCHIVE):
            yield from _members(path, limits)
        elif "://" not in path:
            yield path, path
    remote = [path for path in paths if "://" in path and not path.lower().endswith(ARCHIVE)]
    yield from in_order(lambda path: (path, _fetch(path, limits)), remote, READERS)


def _fetch(address: str, limits: Limits) -> bytes | InputError:
    try:
        system, path = fs.FileSystem.from_uri(address)
        with system.open_input_stream(path) as stream:
            data: bytes = stream.read(int(limits.file_bytes) + 1)
    except (OSError, ValueError) as error:
        return InputError(f"{address}: cannot be read: {error}")
    return data


def _members(path: str, limits: Limits) -> Iterator[Source]:
    try:
        system, inside = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
        with closing(system.open_input_stream(inside)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and member.name.lower().endswith(SUFFIXES):
                    yield f"{path}/{member.name}", file.read(int(limits.file_bytes) + 1)
    except (OSError, ValueError, tarfile.TarError, EOFError) as error:
        yield path, InputError(f"{path}: cannot be read: {error}")


def holds_photos(place: str) -> bool:
    """Whether it is a tar file or an address, by its name."""
    return "://" in place or place.lower().endswith(ARCHIVE)


def full_address(place: object) -> str:
    """A folder's full path; an address, which a Path has written with one slash, as it was given."""
    scheme, colon, rest = str(place).partition(":/")
    is_address = colon and scheme.isalnum() and len(scheme) > 1
    return f"{scheme}://{rest.lstrip('/')}" if is_address else os.path.abspath(str(place))  # noqa: PTH100
