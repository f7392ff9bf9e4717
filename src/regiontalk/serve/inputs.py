"""The inputs of a request: values, checked by the JSON schemas of the OpenAPI description, and the
photo."""

from __future__ import annotations

import asyncio
import codecs
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from regiontalk.errors import ImageError, UsageError
from regiontalk.serve.answers import Refused
from regiontalk.serve.settings import Settings

Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]
"""Name -> JSON schema of a value; `required`: it must be given."""

MOST_FIELDS = 20
LARGEST_FIELD = 1 << 20  # bytes; corrected regions are the largest field
ENCODINGS = ("utf-8", "ascii", "iso8859-1")  # of fields; others, such as punycode, take minutes
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
SEND = "multipart/form-data with a file named photo"


class Upload(NamedTuple):
    name: str
    data: bytes


def read_values(
    fields: Mapping[str, Any], schemas: Schemas, others: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The given values, converted by their schemas; raises `UsageError` for wrong, missing or
    unknown ones.

    `others`: other names that are allowed.
    """
    for name in fields:
        if name not in schemas and name not in others:
            raise UsageError(
                f"{name[:40]!r} is unknown", hint=f"known: {', '.join((*schemas, *others))}"
            )
    for name, schema in schemas.items():
        if schema.get("required") and name not in fields:
            raise UsageError(f"{name} is missing")
    return {
        name: _read_value(name, fields[name], schema)
        for name, schema in schemas.items()
        if name in fields
    }


def _read_value(name: str, text: object, schema: Schema) -> Any:
    if not isinstance(text, str):
        raise UsageError(f"{name} is a file, not text")
    if schema["type"] == "boolean":
        if text not in ("true", "false"):
            raise UsageError(f"{name} is {text[:40]!r}; it must be true or false")
        return text == "true"
    if schema["type"] != "string":
        return _number(name, text, schema)
    least = schema.get("minLength", 0)
    most = schema.get("maxLength", LARGEST_FIELD)
    if not least <= len(text) <= most:
        raise UsageError(f"{name} has {len(text)} characters; it must have {least} to {most}")
    if not re.search(schema.get("pattern", ""), text):
        raise UsageError(f"{name} is {text[:40]!r}", hint=schema["description"])
    return text


def _number(name: str, text: str, schema: Schema) -> float | int:
    try:
        value = int(text) if schema["type"] == "integer" else float(text)
    except ValueError as error:
        raise UsageError(f"{name} is {text[:40]!r}, not of type {schema['type']}") from error
    least = schema["minimum"]
    most = schema["maximum"]
    if not least <= value <= most:  # written so that NaN fails too
        raise UsageError(f"{name} is {text[:40]}; it must be from {least} to {most}")
    return value


def read_box(text: str) -> list[float]:
    """Four numbers, separated by commas."""
    try:
        box = [float(part) for part in text.split(",")]
    except ValueError:
        box = []
    if len(box) != 4 or not all(map(math.isfinite, box)):
        raise UsageError(f"xyxy is {text[:40]!r}", hint="left,top,right,bottom in pixels")
    return box


class _InMemory(MultiPartParser):
    """Keeps uploads in memory, without temporary files; their number and size are limited."""

    spool_max_size = 1 << 40


async def read_form(request: Request, settings: Settings) -> FormData:
    """The fields of a form, within the limits; none if there is no body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind:
        return FormData()
    if kind == "application/json":
        raise UsageError("JSON, where a form is expected", hint=SEND)
    async with _arriving(settings):
        if kind == "multipart/form-data":
            _check_encoding(request.headers["content-type"])
            body = _body(request, int(settings.megabytes * 1e6))
            limits = {"max_fields": MOST_FIELDS, "max_part_size": LARGEST_FIELD}
            return await _InMemory(request.headers, body, max_files=1, **limits).parse()
        if kind == "application/x-www-form-urlencoded":
            return _read_fields(await _read_small(request))
    raise Refused(415, f"a body of the type {kind[:80]!r}", hint=SEND)


def _check_encoding(content_type: str) -> None:
    """Fields are decoded in the process that answers everybody."""
    _, options = parse_options_header(content_type)
    name = options.get(b"charset", b"utf-8").decode("latin-1")
    if codecs.lookup(name).name not in ENCODINGS:
        raise Refused(400, f"the form cannot be read: its charset is {name[:40]!r}, not UTF-8")


async def read_regions(request: Request, settings: Settings) -> bytes:
    """A body that is not a form."""
    async with _arriving(settings):
        return await _read_small(request)


async def _read_small(request: Request) -> bytes:
    """A body without a photo."""
    return b"".join([part async for part in _body(request, LARGEST_FIELD)])


def _read_fields(body: bytes) -> FormData:
    if body.count(b"&") >= MOST_FIELDS:  # before they are read: each takes time
        raise Refused(400, f"the form cannot be read: more than {MOST_FIELDS} fields")
    fields = parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
    return FormData([(name, value) for name, value in fields])


@asynccontextmanager
async def _arriving(settings: Settings) -> AsyncIterator[None]:
    """Limits the time, and explains what may be wrong with a body."""
    try:
        async with asyncio.timeout(settings.seconds):
            yield
    except TimeoutError as error:
        raise Refused(
            408, f"the request took longer than {settings.seconds:g} seconds to arrive"
        ) from error
    except MultiPartException as error:
        raise Refused(400, f"the form cannot be read: {error.message}") from error
    except (
        LookupError,
        ValueError,
    ) as error:  # unknown encoding, or bytes that are not valid in it
        raise Refused(400, f"the form cannot be read: {error}") from error


async def _body(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    too_large = Refused(413, f"the request is larger than {most / 1e6:.3g} MB")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_large
    arrived = 0
    try:
        async for part in request.stream():
            arrived += len(part)
            if arrived > most:
                raise too_large
            yield part
    except ClientDisconnect as error:
        raise Refused(400, "the request ended too early") from error


async def read_upload(form: FormData) -> Upload:
    """The file named `photo`."""
    photo = form.get("photo")
    if isinstance(photo, str) and ADDRESS.match(photo):
        raise ImageError(
            "photo: an address, not a file; addresses are not fetched",
            hint="upload the photo itself",
        )
    if not isinstance(photo, UploadFile):
        raise UsageError("no file named photo in the request", hint=SEND)
    data = await photo.read()
    if not data:
        raise ImageError("photo: empty")
    return Upload((photo.filename or "").replace("\\", "/").rpartition("/")[2], data)
