"""What a request brings: values by their JSON schemas, which the OpenAPI description has too, and the photo."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from regiontalk.errors import ImageError, RegionTalkError, UsageError
from regiontalk.errors import ImageTooLarge as TooLarge
from regiontalk.serve.settings import Settings

Schema = Mapping[str, Any]
Schemas = Mapping[str, Schema]

MOST_FIELDS = 20
LARGEST_FIELD = 1 << 20  # bytes; corrected regions are the largest
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


class BadRequest(UsageError):
    """Not a request that can be read."""

    http_status = 400


class WrongType(UsageError):
    """A body that is no form."""

    http_status = 415


class TooSlow(RegionTalkError):
    """A body that does not arrive in time."""

    http_status = 408


class Upload(NamedTuple):
    name: str
    data: bytes


def read_values(given: Mapping[str, Any], schemas: Schemas) -> dict[str, Any]:
    """The values that are given, as their schemas want them; fails on missing ones, and names the wrong one."""
    values = {}
    for name, schema in schemas.items():
        if isinstance(given.get(name), str):
            values[name] = _read_value(name, given[name], schema)
        elif schema.get("required"):
            raise UsageError(f"{name} is missing")
    return values


def _read_value(name: str, text: str, schema: Schema) -> Any:
    kind = schema["type"]
    if kind == "string":
        longest = schema.get("maxLength", LARGEST_FIELD)
        if not schema.get("minLength", 0) <= len(text) <= longest:
            raise UsageError(
                f"{name} has {len(text)} characters; it may have {schema.get('minLength', 0)} to {longest}"
            )
        if not re.search(schema.get("pattern", ""), text):
            raise UsageError(f"{name} is not as it should be", hint=schema.get("description"))
        return text
    if kind == "array":
        numbers = [_number(name, part, schema["items"]) for part in text.strip("[] ").split(",")]
        if len(numbers) != schema["minItems"]:
            raise UsageError(f"{name} has {len(numbers)} numbers; it should have {schema['minItems']}")
        return numbers
    return _number(name, text, schema)


def _number(name: str, text: str, schema: Schema) -> float | int:
    try:
        value = int(text) if schema["type"] == "integer" else float(text)
    except ValueError as error:
        raise UsageError(f"{name} is {text[:40]!r}, not a number of the kind {schema['type']}") from error
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not (math.isfinite(value) and least <= value <= most):
        raise UsageError(f"{name} is {text[:40]}; it may be from {least} to {most}")
    return value


class _InMemory(MultiPartParser):
    """Keeps uploads in memory, which their number and size bound: no temporary file is written."""

    spool_max_size = 1 << 40


async def read_form(request: Request, settings: Settings) -> FormData:
    """The fields of a form, within the limits; an empty one where there is no body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind or kind == "application/json":
        raise UsageError("a form is missing", hint="multipart/form-data with a file named photo")
    body = _body(request, settings)
    try:
        async with asyncio.timeout(settings.seconds):
            if kind == "multipart/form-data":
                limits = {"max_files": 1, "max_fields": MOST_FIELDS, "max_part_size": LARGEST_FIELD}
                return await _InMemory(request.headers, body, **limits).parse()
            if kind == "application/x-www-form-urlencoded":
                return await FormParser(
                    request.headers, body, max_fields=MOST_FIELDS, max_part_size=LARGEST_FIELD
                ).parse()
    except TimeoutError as error:
        raise TooSlow(f"the request took longer than {settings.seconds:g} seconds to arrive") from error
    except MultiPartException as error:
        raise BadRequest(f"the form cannot be read: {error.message}") from error
    except (LookupError, ValueError) as error:
        raise BadRequest(f"the form cannot be read: {error}") from error
    raise WrongType(f"a body of the type {kind[:80]!r}", hint="multipart/form-data with a file named photo")


async def read_body(request: Request, settings: Settings) -> bytes:
    try:
        async with asyncio.timeout(settings.seconds):
            return b"".join([part async for part in _body(request, settings)])
    except TimeoutError as error:
        raise TooSlow(f"the request took longer than {settings.seconds:g} seconds to arrive") from error


async def _body(request: Request, settings: Settings) -> AsyncGenerator[bytes, None]:
    most = int(settings.megabytes * 1e6)
    said = request.headers.get("content-length", "0")
    arrived = int(said) if said.isdecimal() else 0
    problem = TooLarge(f"the request is larger than {settings.megabytes:g} MB", hint="send a smaller photo")
    if arrived > most:
        raise problem
    arrived = 0
    try:
        async for part in request.stream():
            arrived += len(part)
            if arrived > most:
                raise problem
            yield part
    except ClientDisconnect as error:
        raise BadRequest("the request ended too early") from error


async def read_upload(form: FormData) -> Upload:
    """The file named `photo`."""
    photo = form.get("photo")
    if isinstance(photo, str) and ADDRESS.match(photo):
        raise ImageError("photo: an address, not a file; nothing is ever fetched", hint="upload the photo itself")
    if not isinstance(photo, UploadFile):
        raise UsageError("no file named photo in the request", hint="multipart/form-data with a file named photo")
    data = await photo.read()
    if not data:
        raise ImageError("photo: empty")
    return Upload((photo.filename or "").replace("\\", "/").rpartition("/")[2], data)
