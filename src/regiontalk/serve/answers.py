"""Answers in JSON: results and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from regiontalk.errors import RegionTalkError
from regiontalk.io.files import json_line

RETRY_SECONDS = 2  # of the header Retry-After if the server is busy


class Refused(RegionTalkError):
    """A rejected request, with its HTTP status."""

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.http_status = status


def json_response(
    value: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(json_line(value), status, headers, "application/json")


def error_response(error: RegionTalkError) -> Response:
    retry = {"Retry-After": str(RETRY_SECONDS)} if error.http_status == 503 else None
    return json_response({"error": error.message, "hint": error.hint}, error.http_status, retry)
