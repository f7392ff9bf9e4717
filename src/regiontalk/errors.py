"""The errors of the package. Each class has an exit code and an HTTP status; an error may have a
hint how to fix it.

The library raises these; only `cli/` and `serve/` translate them.
"""

import importlib.util
import math


def one_line(text: str) -> str:
    """Escapes line breaks and control characters, because names and texts come from users."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


class RegionTalkError(Exception):
    """Base of everything this package raises on purpose."""

    exit_code = 1
    http_status = 500

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RegionTalkError):
    """Options or arguments that are wrong, or that cannot be used together."""

    exit_code = 2
    http_status = 422


def check_range(least: float, most: float = math.inf, **values: float | None) -> None:
    """Raises `UsageError` if a value is not a number from `least` to `most`; None is skipped."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            allowed = (
                f"it must be {least} or more"
                if most == math.inf
                else f"it must be from {least} to {most}"
            )
            raise UsageError(f"{name} is {value}; {allowed}")


class OutputError(UsageError):
    """A result cannot be written to the given file or folder."""

    http_status = 507


class DiskFull(OutputError):
    """There is no space left for a result."""

    exit_code = 5


class SkippedInputs(RegionTalkError):
    """Some inputs were skipped, and the caller wanted all of them (`--strict`)."""

    exit_code = 3
    http_status = 422


class InputError(RegionTalkError):
    """An input file cannot be read."""

    exit_code = 4
    http_status = 422


class ImageError(InputError):
    """A photo cannot be opened."""


class UnsupportedImage(ImageError):
    """Not a photo, or a kind of photo that is not on the allow-list."""

    http_status = 415


class ImageTooLarge(ImageError):
    """More bytes or pixels than the limits allow."""

    http_status = 413


class DataError(InputError):
    """A data set or a file of records is broken; the message names file and line."""


class IndexProblem(RegionTalkError):
    """A search index is missing, corrupt, busy or newer than this program."""

    exit_code = 5
    http_status = 503


class ClusterProblem(RegionTalkError):
    """A cluster does not answer, or has failed."""

    exit_code = 5
    http_status = 503


class ModelError(RegionTalkError):
    """A model or checkpoint is corrupt, incomplete or of another kind."""

    exit_code = 6
    http_status = 503


class MissingExtra(RegionTalkError):
    """An optional part is not installed; the hint is the command that installs it."""

    exit_code = 7
    http_status = 501

    def __init__(self, message: str, *, extra: str = "", package: str = "") -> None:
        """`extra`: one of the package's extras. `package`: an optional package that is not
        installed."""
        super().__init__(message, hint="pip install " + (package or f"'regiontalk[{extra}]'"))
        self.extra = extra


def need(extra: str, purpose: str, *modules: str) -> None:
    """Raises `MissingExtra` if a module is not installed; imports nothing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(f"{purpose} needs {module}, which is not installed", extra=extra)
