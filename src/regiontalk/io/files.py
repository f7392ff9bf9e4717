"""Files: written atomically, and read with limits."""

from __future__ import annotations

import ctypes
import errno
import functools
import gzip
import io
import json
import math
import os
import secrets
import shutil
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from regiontalk.errors import (
    DataError,
    DiskFull,
    InputError,
    OutputError,
    RegionTalkError,
    UsageError,
)
from regiontalk.io.typed import shorten

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Limits, so that a broken or hostile file takes neither too much memory nor too much time.
LONGEST_LINE = 1 << 24  # bytes
LARGEST_FILE = 1 << 28  # bytes of a file that is read into memory
MOST_UNPACKED = (
    300  # times the size of a compressed file of lines, where that is more than LARGEST_FILE
)
MOST_DIGITS = 300  # of an integer: it still is a float
MAX_NESTING = 100  # nested lists and objects
TOO_DEEP = f"lists and objects are nested more than {MAX_NESTING} deep"
LONGEST_NAME = 200  # bytes of a file name that we choose, before its ending

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a full disk

_PARTIAL = ".regiontalk-*.partial*"


def cache_folder() -> Path:
    """`REGIONTALK_CACHE`, or `regiontalk` in the system's cache folder. It may not exist yet."""
    import platformdirs

    chosen = os.environ.get("REGIONTALK_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("regiontalk", appauthor=False)


def data_folder() -> Path:
    """`REGIONTALK_DATA`, or `regiontalk` in the system's folder for a user's data. It may not exist
    yet."""
    import platformdirs

    chosen = os.environ.get("REGIONTALK_DATA")
    return Path(chosen) if chosen else platformdirs.user_data_path("regiontalk", appauthor=False)


# Writing


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Writers of a file take turns: holds the lock of `path`, a file next to it, within the
    block."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock_path = path.with_name(f".{path.name}.lock")
        lock_path.touch()
        lock = _lock(lock_path)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file next to `path`, which replaces it when the block ends without error, and is
    deleted otherwise."""
    with writing(path):
        if path.exists() and not path.is_file():
            raise OutputError(f"{path}: cannot be written: not a file")
        with _partial(path, functools.partial(Path.touch, exist_ok=False)) as partial:
            yield partial
            _flush(partial)
            partial.replace(path)


@contextmanager
def new_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A new folder next to `path`, which replaces it when the block ends without error, and is
    deleted otherwise.

    An existing folder is replaced if it is empty, or with `replace` if it has not changed since the
    beginning. A folder that appears in the meantime is never replaced.
    """
    with writing(path):
        _restore(path)
        before = _state(path)
        if before is not None and not replace:
            raise UsageError(
                f"{path}: already exists", hint="give another name, or delete it first"
            )
        with _partial(path, Path.mkdir) as partial:
            yield partial
            for file in partial.rglob("*"):
                if file.is_file() and not file.is_symlink():
                    _flush(file)
            _put_in_place(partial, path, before)


class FreeNames:
    """Gives unique file names, also if case is ignored, none of them too long."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def take(self, stem: str, suffix: str = "") -> str:
        """`stem` + `suffix`; with a number between them if that name is taken."""
        encoded = os.fsencode(stem)
        stem = (
            stem if len(encoded) <= LONGEST_NAME else encoded[:LONGEST_NAME].decode(errors="ignore")
        )
        first = name = f"{stem}{suffix}"
        while name.casefold() in self._numbers:
            self._numbers[first.casefold()] += 1
            name = f"{stem}-{self._numbers[first.casefold()]}{suffix}"
        self._numbers[name.casefold()] = 1
        return name


def json_file(value: Mapping[str, Any]) -> bytes:
    """Writes an indented JSON file."""
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()


def json_line(value: Mapping[str, Any]) -> bytes:
    """One line of JSON. A lone surrogate, which UTF-8 cannot encode, is escaped."""
    try:
        return (_encode(value) + "\n").encode()
    except UnicodeEncodeError:
        return (_encode_ascii(value) + "\n").encode()


def write_json_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> int:
    """Writes a file of JSON lines atomically, gzipped if its name ends in `.gz`; returns the number
    of lines."""
    count = 0
    with (
        replacing(path) as partial,
        (gzip.open if path.suffix == ".gz" else open)(partial, "wb") as file,
    ):
        for value in values:
            file.write(json_line(value))
            count += 1
    return count


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises an error that names the file if it cannot be written. A closed pipe is handled
    elsewhere."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(path, error) from error


def output_error(place: object, error: OSError, hint: str | None = None) -> OutputError:
    """The error for something that cannot be written; a full disk has the same error everywhere."""
    if error.errno is not None and error.errno in DISK_FULL_ERRORS:
        return DiskFull(f"{place}: cannot be written: {os.strerror(error.errno)}", hint=hint)
    return OutputError(f"{place}: cannot be written: {error.strerror or error}", hint=hint)


@contextmanager
def _partial(path: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """A new file or folder next to `path`, locked so that other processes do not delete it as a
    leftover."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path.parent)
    while True:
        partial = path.with_name(f".regiontalk-{secrets.token_hex(6)}.partial{path.suffix[:16]}")
        create(partial)
        lock = _lock(partial)
        if partial.exists():  # unless another process deleted it before it was locked
            break
    try:
        yield partial
    finally:
        if lock is not None:
            os.close(lock)
        _remove(partial)


@functools.cache
def _remove_leftovers(folder: Path) -> None:
    """Deletes what killed processes left in a folder, once per process."""
    for partial in folder.glob(_PARTIAL) if fcntl else ():
        with suppress(OSError):
            lock = _lock(partial, wait=False)  # fails if its process lives
            _remove(partial)
            os.close(lock)


def _lock(path: Path, wait: bool = True) -> Any:
    """An open handle that holds the lock; None if the system has no such locks."""
    if not fcntl:
        return None
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _state(path: Path) -> tuple[int, int] | None:
    """A value that changes when the folder is replaced or its files change; None for no folder or
    an empty one."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.replaced")


def _restore(path: Path) -> None:
    """Tidies up after a process that was killed while it replaced the folder."""
    if _aside(path).exists():
        if path.exists():
            _remove(_aside(path))
        else:
            _aside(path).rename(path)


def _put_in_place(partial: Path, path: Path, before: tuple[int, int] | None) -> None:
    now = _state(path)
    if now is not None and now != before:
        raise UsageError(f"{path}: another program wrote it in the meantime; it was not replaced")
    if now is not None and _exchange(partial, path):
        return  # `partial` is the old folder now, and is deleted
    if now is not None:
        path.rename(_aside(path))
    elif path.is_dir():
        path.rmdir()
    partial.rename(path)
    _remove(_aside(path))


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two folders atomically if the system can do that, so that `path` always exists."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):  # not Linux
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    done: int = rename(here, os.fsencode(first), here, os.fsencode(second), swap)
    return done == 0


# Reading


def open_file(path: Path, largest: int | None = None) -> io.BufferedReader:
    """Opens a file to read, like `open_regular`. Files of more than `largest` bytes are rejected
    too."""
    file = open_regular(path, str(path), "file", DataError)
    if largest is not None and os.fstat(file.fileno()).st_size > largest:
        file.close()
        raise DataError(f"{path}: larger than {largest >> 20} MiB")
    return file


def open_regular(
    path: str | Path, name: str, kind: str, error: type[InputError]
) -> io.BufferedReader:
    """Opens a file to read. Folders, pipes and devices are rejected before they are opened, so this
    never blocks.

    The `error` calls it `name`, and says that a folder is not a `kind`.
    """

    def check(mode: int) -> None:
        if not stat.S_ISREG(mode):
            others = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
            raise error(f"{name}: {others.get(stat.S_IFMT(mode), 'a device')}, not a {kind}")

    try:
        check(os.stat(path).st_mode)  # noqa: PTH116  (Path would drop the end of "photo.jpg/")
        # It may have become a pipe since: O_NONBLOCK, and a second check.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb")
        try:
            check(os.fstat(file.fileno()).st_mode)
        except InputError:
            file.close()
            raise
        return file
    except OSError as problem:
        raise error(f"{name}: {problem.strerror or problem}") from problem
    except ValueError as problem:  # a NUL or a lone surrogate in the name
        raise error(f"{name}: not a file name: {problem}") from problem


@contextmanager
def _unpacked(path: Path, largest: int | None = None) -> Iterator[BinaryIO]:
    """Opens a file to read, decompressed if its name ends in `.gz`; errors of damaged files name
    it."""
    with open_file(path, largest) as file:
        try:
            is_packed = path.suffix == ".gz"
            yield gzip.GzipFile(fileobj=file) if is_packed else file  # type: ignore[misc]
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: the file is cut off or damaged: {error}") from error


def read_file(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The bytes of a whole file; a `.gz` file is decompressed."""
    with _unpacked(path, largest) as file:
        # Python reserves as much memory as is asked for, so not more than the file has.
        size = largest if path.suffix == ".gz" else os.fstat(file.fileno()).st_size
        data = file.read(size + 1)
    if len(data) > largest:
        raise DataError(f"{path}: larger than {largest >> 20} MiB")
    return data


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, numbered from 1; a `.gz` file is decompressed."""
    with _unpacked(path) as file:
        number = 0
        left = max(LARGEST_FILE, path.stat().st_size * MOST_UNPACKED)
        while line := file.readline(LONGEST_LINE + 1):
            number = number + 1
            left = left - len(line)
            if len(line) > LONGEST_LINE:
                raise DataError(f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB")
            if left < 0:
                raise DataError(
                    f"{path}, line {number}: unpacks to more than {MOST_UNPACKED} times its size"
                )
            if not line.isspace():
                yield number, line


def read_object_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file of JSON lines, or of a JSON array with one object per line, as `-o
    x.json` writes it."""
    for number, line in read_lines(path):
        text = line.strip()
        if text not in (b"[", b"]"):
            yield number, text.removesuffix(b",")


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines, each with its place ("FILE, line 3")."""
    for number, line in read_object_lines(path):
        place = f"{path}, line {number}"
        yield place, parse_object(line, place)


def read_json(path: Path) -> Any:
    """The value of a whole JSON file; a `.gz` file is decompressed."""
    return parse_json(read_file(path), str(path))


def read_toml(path: Path, error: type[RegionTalkError] = DataError) -> dict[str, Any]:
    try:
        values = tomllib.loads(read_file(path, LONGEST_LINE).decode())
        _check_depth(values)
        return values
    except DataError as problem:
        raise error(problem.message) from problem
    except RecursionError as problem:
        raise error(f"{path}: not TOML: {TOO_DEEP}") from problem
    except ValueError as problem:  # not UTF-8, wrong TOML, nested too deeply
        raise error(f"{path}: not TOML: {problem}") from problem


def parse_json(data: bytes, place: str) -> Any:
    """The value of a JSON text in UTF-8. Rejected: NaN and infinity, which JSON does not have,
    numbers too large for a float, and values that are nested too deeply."""
    shape = data.translate(_DIGITS, b"+")
    large = b"0" * (MOST_DIGITS + 1) in shape or b"0e000" in shape
    hooks: dict[str, Any] = (
        {"parse_int": _parse_int, "parse_float": _parse_float} if large else {}
    )  # slow
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=refuse_constant, **hooks)
        if data.count(b"[") + data.count(b"{") > MAX_NESTING:
            _check_depth(value)
        return value
    except json.JSONDecodeError as error:
        raise DataError(f"{place}: wrong JSON at character {error.pos + 1}: {error.msg}") from error
    except RecursionError as error:
        raise DataError(f"{place}: wrong JSON: {TOO_DEEP}") from error
    except ValueError as error:
        raise DataError(f"{place}: wrong JSON: {error}") from error


_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")


def _parse_int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {shorten(text)} is too large")
    return value


def _check_depth(value: Any) -> None:
    containers = [value]
    for _ in range(MAX_NESTING + 1):
        inside = (part.values() if type(part) is dict else part for part in containers)
        parts = chain.from_iterable(inside)
        containers = [part for part in parts if type(part) in (dict, list)]
    if containers:
        raise ValueError(TOO_DEEP)


def parse_object(data: bytes, place: str) -> dict[str, Any]:
    value = parse_json(data, place)
    if type(value) is not dict:
        raise DataError(f"{place}: {shorten(value)} is not a JSON object")
    return value


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
