"""Large JSON files item by item: only the current item is in memory, at about the speed of
`json.load`.

The file is decoded in chunks into a sliding window of text; the standard library's scanner reads
one item after the other from it. An item that is cut off by the end of the window is read again
with more text.

Not ijson, which is no faster: for an array nested 100,000 deep it ran out of memory.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from regiontalk.errors import DataError
from regiontalk.io.files import LONGEST_LINE, open_file, refuse_constant

CHUNK_BYTES = 1 << 22

_BLANKS = re.compile(r"[ \t\r\n]*")
_CUT_TOKEN = 16  # characters: an error nearer to the window's end may be a token cut in two


def stream_array(path: Path) -> Iterator[tuple[str, Any]]:
    """The items of a file that is one JSON array, each with its place ("FILE, item 3")."""
    return (
        (f"{path}, item {number}", item)
        for number, item in enumerate(_stream(path, _Window.array), start=1)
    )


def stream_members(path: Path) -> Iterator[tuple[str, Any]]:
    """The members of a file that is one JSON object: (key, value), an array as one (key, item) per
    item."""
    return _stream(path, _Window.members)


def _stream(path: Path, take: Callable[[_Window], Iterator[Any]]) -> Iterator[Any]:
    with open_file(path) as file:
        window = _Window(path, file)
        yield from take(window)
        window.expect_end()


class _Window:
    """The window of a file's text that is being read; `at` is the index of the next character in
    it."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.text = ""
        self.at = 0
        self._file = file
        self._passed = 0  # characters that have left the window
        self._ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._scan = json.JSONDecoder(parse_constant=refuse_constant).raw_decode

    def array(self) -> Iterator[Any]:
        self._take("[")
        if self.peek() == "]":
            self._take("]")
            return
        while True:
            yield self.value()
            if self.peek() != ",":
                break
            self._take(",")
        self._take("]")

    def members(self) -> Iterator[tuple[str, Any]]:
        self._take("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                self.fail(f"expected a member's name, found {key!r}")
            self._take(":")
            if self.peek() == "[":
                for item in self.array():
                    yield key, item
            else:
                yield key, self.value()
            if self.peek() != "}":
                self._take(",")
        self._take("}")

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = self._scan(self.text, self.at)
            except json.JSONDecodeError as error:
                self._read_on_or_fail(error)
            except RecursionError:
                self.fail("nested too deeply")
            except ValueError as error:
                self.fail(str(error))
            else:
                # A number near the window's end may go on after it: "1", "1." and "1e+" all scan as
                # 1.
                if end + 2 < len(self.text) or not self._read():
                    self.at = end
                    return value

    def peek(self) -> str:
        """The next character that is not blank; "" at the end of the file."""
        while True:
            blanks = _BLANKS.match(self.text, self.at)
            self.at = blanks.end() if blanks else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._read():
                return ""

    def expect_end(self) -> None:
        if self.peek():
            self.fail("text after the end of the JSON")

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        place = self._passed + (self.at if at is None else at) + 1
        raise DataError(f"{self.path}: wrong JSON at character {place}: {problem}")

    def _take(self, sign: str) -> None:
        next_sign = self.peek()
        if next_sign != sign:
            self.fail(
                f"expected {sign!r}, found {next_sign!r}"
                if next_sign
                else f"the file ends before {sign!r}"
            )
        self.at += 1

    def _read_on_or_fail(self, error: json.JSONDecodeError) -> None:
        cut = error.pos >= len(self.text) - _CUT_TOKEN or error.msg.startswith(
            "Unterminated string"
        )
        if cut and len(self.text) - self.at > LONGEST_LINE:
            self.fail(f"one item of more than {LONGEST_LINE} characters")
        if not cut or not self._read():
            self.fail(error.msg, error.pos)

    def _read(self) -> bool:
        """Moves the window on; False at the end of the file. Doubles its size, so that retries stay
        linear."""
        if self._ended:
            return False
        try:
            data = self._file.read(max(CHUNK_BYTES, len(self.text) - self.at))
            more = self._decoder.decode(data, final=not data)
        except OSError as error:
            raise DataError(f"{self.path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            self.fail(f"not UTF-8 text: {error.reason}", len(self.text))
        if not data:
            self._ended = True
            return False
        self._passed += self.at
        self.text = self.text[self.at :] + more
        self.at = 0
        return True
