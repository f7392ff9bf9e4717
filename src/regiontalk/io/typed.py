"""Reads dataclasses from the plain values of JSON and TOML, strictly: errors name the key, in one
line.

Libraries such as cattrs convert too much ("5" becomes an int) and do not keep unknown keys. Errors
of one line that name the key would need as much code on top of them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from regiontalk.errors import DataError, RegionTalkError

Loaded = TypeVar("Loaded")


@dataclasses.dataclass(frozen=True)
class WithMore:
    """A dataclass that allows unknown keys: they are kept in `more`."""

    more: Mapping[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)


def shorten(value: object) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def to_dataclass(
    kind: type[Loaded], data: object, place: str, error: Callable[[str], Exception] = DataError
) -> Loaded:
    """A dataclass from the plain values of JSON or TOML: every key known and of its type, every
    number finite.

    A key may be missing if its field has a default. The `error` names the place and the key in one
    line.
    """
    try:
        loaded: Loaded = _reader(kind)(data)  # type: ignore[arg-type]
        return loaded
    except _Wrong as wrong:
        raise error(": ".join(part for part in (place, wrong.key, wrong.problem) if part)) from None


class _Wrong(Exception):
    """An error and its key (`net.anchors[2]`)."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.key = ""

    def inside(self, key: str) -> _Wrong:
        self.key = key + ("." if self.key and self.key[0] != "[" else "") + self.key
        return self


@functools.cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """A function that turns a plain value into one of a type, or raises `_Wrong`."""
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if hint is Any:
        return lambda value: value
    if hint is float:
        return _read_float
    if origin is typing.Literal:
        return functools.partial(_read_choice, parts)
    if _is_optional(hint):
        inner = _reader(_without_none(hint))
        return lambda value: None if value is None else inner(value)
    if dataclasses.is_dataclass(hint):
        return _dataclass_reader(hint)
    if origin is tuple:
        return _tuple_reader(parts)
    if origin in (dict, Mapping):
        return _dict_reader(_reader(parts[1]))
    return _read_int if hint is int else functools.partial(_expect, hint)


def _is_optional(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _without_none(hint: Any) -> Any:
    """The type of an optional value where it is not None."""
    if not _is_optional(hint):
        return hint
    (part,) = (part for part in typing.get_args(hint) if part is not type(None))
    return part


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Wrong(f"{shorten(value)} is not of type {kind.__name__}")
    return value


def _read_int(value: Any) -> int:
    if abs(_expect(int, value)) >= 1 << 63:
        raise _Wrong(f"{shorten(value)} is too large")
    return int(value)


def _read_choice(choices: tuple[Any, ...], value: Any) -> Any:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise _Wrong(f"{shorten(value)}; it must be one of {', '.join(map(str, choices))}")
    return value


def _read_float(value: Any) -> float:
    try:
        number = float(value) if type(value) is int else value
    except OverflowError:
        number = None
    if type(number) is not float or not math.isfinite(number):
        raise _Wrong(f"{shorten(value)} is not a finite number")
    return number


def _tuple_reader(parts: tuple[Any, ...]) -> Callable[[Any], tuple[Any, ...]]:
    readers = [_reader(part) for part in parts if part is not Ellipsis]

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) not in (list, tuple):
            raise _Wrong(f"{shorten(value)} is not a list")
        if parts[-1] is not Ellipsis and len(value) != len(parts):
            raise _Wrong(f"{shorten(value)} is not a list of {len(parts)} values")
        done: list[Any] = []
        try:
            for item, reader in zip(value, itertools.cycle(readers), strict=False):
                done.append(reader(item))
        except _Wrong as wrong:
            raise wrong.inside(f"[{len(done)}]") from None
        return tuple(done)

    return read


def _dict_reader(inner: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        done = {}
        for key, item in _expect(dict, value).items():
            try:
                done[key] = inner(item)
            except _Wrong as wrong:
                raise wrong.inside(key) from None
        return done

    return read


def _dataclass_reader(kind: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    takes_more = issubclass(kind, WithMore)
    known = [field.name for field in fields if not (takes_more and field.name == "more")]
    optional = {name for name in known if _is_optional(hints[name])}
    readers = {name: _reader(_without_none(hints[name])) for name in known}
    missing = dataclasses.MISSING
    required = [
        field.name
        for field in fields
        if field.default is missing and field.default_factory is missing
    ]

    def read(value: Any) -> Any:
        values: dict[str, Any] = {}
        unknown = {}
        for key, item in _expect(dict, value).items():
            if key not in readers:
                unknown[key] = item
                continue
            if item is None and key in optional:
                values[key] = None
                continue
            try:
                values[key] = readers[key](item)
            except _Wrong as wrong:
                raise wrong.inside(key) from None
        for name in required:
            if name not in values:
                raise _Wrong(f"{name!r} is missing")
        if unknown and not takes_more:
            raise _Wrong(
                f"unknown key {shorten(next(iter(unknown)))} (known: {', '.join(readers)})"
            )
        if unknown:
            values["more"] = unknown
        try:
            return kind(**values)
        except RegionTalkError as error:
            raise _Wrong(error.message) from None

    return read
