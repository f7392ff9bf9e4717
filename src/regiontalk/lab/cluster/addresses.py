"""Addresses of photos and results such as s3://bucket/folder, accessed by pyarrow.

A name in an address is written as it is, without %-escapes. After a "?" come pyarrow's options,
such as `region=eu-west-1` or `scheme=http&endpoint_override=host:9000`; they are no part of a
photo's name.
"""

from __future__ import annotations

import os
from functools import cache

from pyarrow import fs

from regiontalk.errors import UsageError

SIGN = "://"


def split(address: str) -> tuple[str, str]:
    """An address without its options, and the options."""
    place, _, options = address.partition("?")
    scheme, _, rest = place.partition(SIGN)
    user, at, host = rest.partition("/")[0].rpartition("@")
    if at and ":" in user:
        hint = "use environment variables: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise UsageError(
            f"{scheme}{SIGN}…@{host}: a password in an address would be in every result", hint=hint
        )
    return place, options


def locate(place: str, options: str = "") -> tuple[fs.FileSystem, str]:
    """The file system of a place without options, and the place's path in it."""
    scheme, _, rest = place.partition(SIGN)
    host, _, inside = rest.partition("/")
    system, root = _open(f"{scheme}{SIGN}{host}/" + (f"?{options}" if options else ""))
    return system, f"{root.rstrip('/')}/{inside}".rstrip("/") or "/"


@cache
def _open(root: str) -> tuple[fs.FileSystem, str]:
    """Once per process, because finding the region of a bucket may need a request."""
    system, path = fs.FileSystem.from_uri(root)
    return system, path


def reason(error: Exception) -> str:
    """The error in one line; some file systems give long messages."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error).partition("\n")[0]


def full_address(place: object) -> str:
    """A folder's full path, or an address as it was given (a `Path` drops one of its slashes)."""
    scheme, colon, rest = str(place).partition(":/")
    if not colon or not scheme.isalnum() or len(scheme) < 2:
        return os.path.abspath(str(place))  # noqa: PTH100
    return f"{scheme}{SIGN}{'/' if scheme == 'file' else ''}{rest.lstrip('/')}"
