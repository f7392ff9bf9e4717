"""Photos as a cluster reads them: paths that all its machines can reach, tar files, and addresses
such as s3://."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import closing

from pyarrow import fs

from regiontalk.errors import InputError, RegionTalkError, UsageError
from regiontalk.images.limits import Limits
from regiontalk.images.paths import SUFFIXES, Photos, find_photos, in_order
from regiontalk.lab.cluster.addresses import SIGN, locate, reason, split

ARCHIVE = ".tar"
FETCHES_AT_A_TIME = 4  # photos that a worker fetches at a time from an object store

Source = str | bytes | InputError
"""What to open: a photo's path or its bytes; or the error."""


def find(given: Iterable[str]) -> Photos:
    """Photos and tar files, by full paths: workers have other working folders. Folders are
    searched, also those in an object store; a list of paths comes by stdin (`-`)."""
    given = list(given)
    photos = find_photos(
        [path for path in given if SIGN not in path], suffixes=(*SUFFIXES, ARCHIVE)
    )
    photos.paths = [
        path if SIGN in path else os.path.abspath(path)  # noqa: PTH100
        for path in photos.paths
    ]
    for address in (path for path in given if SIGN in path):
        photos.paths += _list(*split(address))
    photos.paths = list(dict.fromkeys(photos.paths))
    return photos


def options_of(given: Iterable[str]) -> str:
    """The options that all given addresses share."""
    options = {split(address)[1] for address in given if SIGN in address}
    if len(options) > 1:
        raise UsageError(
            f"addresses with different options: {', '.join(sorted(options))}",
            hint="give them one by one",
        )
    return "".join(options)


def _list(place: str, options: str) -> list[str]:
    """The photos and tar files below a place, or the place itself."""
    try:
        system, path = locate(place, options)
        if system.get_file_info(path).type == fs.FileType.File:
            return [place]
        inside = system.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, ValueError) as error:
        raise InputError(f"{place}: cannot be read: {reason(error)}") from error
    files = (info.path for info in inside if info.type == fs.FileType.File)
    names = (
        file.removeprefix(path).lstrip("/")
        for file in files
        if file.lower().endswith((*SUFFIXES, ARCHIVE))
    )
    return sorted(f"{place.rstrip('/')}/{name}" for name in names)


def open_all(paths: Iterable[str], options: str, limits: Limits) -> Iterator[tuple[str, Source]]:
    """Names of photos, and what to open: the photos themselves, and those in tar files, which are
    named FILE.tar/MEMBER. `options`: of the addresses among them."""
    for path in paths:
        if path.lower().endswith(ARCHIVE):
            yield from _members(path, options, limits)
        elif SIGN not in path:
            yield path, path
    remote = [path for path in paths if SIGN in path and not path.lower().endswith(ARCHIVE)]
    yield from in_order(
        lambda path: (path, _fetch(path, options, limits)), remote, FETCHES_AT_A_TIME
    )


def _fetch(place: str, options: str, limits: Limits) -> bytes | InputError:
    try:
        system, path = locate(place, options)
        with system.open_input_stream(path) as stream:
            data: bytes = stream.read(int(limits.file_bytes) + 1)
    except (OSError, ValueError) as error:
        return InputError(f"{place}: cannot be read: {reason(error)}")
    return data


def _members(path: str, options: str, limits: Limits) -> Iterator[tuple[str, Source]]:
    try:
        system, inside = locate(path, options) if SIGN in path else (fs.LocalFileSystem(), path)
        with (
            closing(system.open_input_stream(inside)) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and member.name.lower().endswith(SUFFIXES):
                    yield f"{path}/{member.name}", file.read(int(limits.file_bytes) + 1)
    except (OSError, ValueError, tarfile.TarError, EOFError) as error:
        yield path, InputError(f"{path}: cannot be read: {reason(error)}")


def readable(source: Source) -> str | bytes:
    if isinstance(source, InputError):
        raise source
    return source


def why_skipped(name: str, source: Source, error: RegionTalkError) -> str:
    """Adds the photo's name to the error, because bytes have none."""
    if isinstance(source, bytes):
        return f"{name}: {error.message.removeprefix('these bytes: ')}"
    return error.message


def holds_photos(place: str) -> bool:
    """Whether it is a tar file or an address, by its name."""
    return SIGN in place or place.lower().endswith(ARCHIVE)
