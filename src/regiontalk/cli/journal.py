"""The journal of a run over many photos, stored next to its output: the same command continues
where it stopped.

`x.jsonl.partial` (or `regiontalk.partial` in a folder) has a first line with the options and the
model, and a line for each finished photo: its size and time of change, and its result. It is
deleted when the output is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from regiontalk import __version__
from regiontalk.cli import console
from regiontalk.errors import DataError, UsageError
from regiontalk.images.moments import file_of
from regiontalk.io.files import json_line, parse_object, read_lines, writing
from regiontalk.io.typed import to_dataclass
from regiontalk.results import (
    AltText,
    Description,
    ImageRegions,
    Region,
    Sentence,
    Shown,
    Tag,
    Tags,
)

Result = ImageRegions | Description | AltText | Tags

PARTIAL = ".partial"
KEY = "regiontalk"  # of the first line
_KINDS: dict[str, type[Result]] = {
    kind.__name__: kind for kind in (ImageRegions, Description, AltText, Tags)
}
_PARTS: dict[str, Any] = {"regions": Region, "alternatives": Sentence, "tags": Tag}


@dataclass
class Journal:
    """The finished photos of a run. The file exists from the first one on; without a place, nothing
    is stored."""

    place: Path | None = None
    header: bytes = b""
    finished: dict[str, Result] = field(default_factory=dict)
    """Path -> result, of earlier runs of the same command and of photos that have not changed
    since."""
    length: int = 0
    """Valid bytes of an earlier run's file."""
    added: int = 0
    file: BinaryIO | None = None

    def add(self, photo: str, result: Result) -> None:
        state = _state(photo)
        if self.place is None or photo in self.finished or not state:  # stdin has none
            return
        with writing(self.place):
            if self.file is None:
                self._open(self.place)
            assert self.file is not None
            self.file.write(json_line({"photo": photo, **state, "result": _plain(result)}))
            self.file.flush()
        self.added += 1

    def after(self, put: Callable[[Result], object]) -> Callable[[Result], None]:
        """`put`, which then also keeps the result here."""

        def put_and_keep(result: Result) -> None:
            put(result)
            self.add(result.path, result)

        return put_and_keep

    def _open(self, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        self.file = place.open("r+b" if self.length else "wb")
        self.file.truncate(self.file.seek(self.length))  # the last line may be incomplete
        if not self.length:
            self.file.write(self.header)

    def close(self) -> None:
        if self.place is not None and self.file is not None:
            with writing(self.place):  # tries once more what a full disk did not take
                self.file.close()


@contextmanager
def keeping(output: Path | None, run: Mapping[str, Any], quiet: bool) -> Iterator[Journal]:
    """A journal next to `output`, deleted when the block ends without error. Equal runs share
    it."""
    if output is None:
        yield Journal()
        return
    place = (
        output / f"{KEY}{PARTIAL}"
        if output.is_dir() or not output.suffix
        else Path(f"{output}{PARTIAL}")
    )
    header = json_line({KEY: __version__, **run})
    journal = Journal(place, header, *_read(place, header, quiet))
    try:
        yield journal
    except BaseException:
        if kept := len(journal.finished) + journal.added:
            kept_photos = console.count(kept, "finished photo")
            text = f"{kept_photos} kept in {place}: the same command continues there"
            console.message(text, quiet and not journal.added)
        elif journal.file is not None:  # there was no room for a single photo
            place.unlink(missing_ok=True)
        raise
    else:
        place.unlink(missing_ok=True)
    finally:
        journal.close()


def _read(place: Path, header: bytes, quiet: bool) -> tuple[dict[str, Result], int]:
    """The finished photos and the number of valid bytes; none and 0 if the journal is of another
    command."""
    if not os.path.lexists(place):
        return {}, 0
    lines = read_lines(place)
    first = next(lines, (0, b""))[1]
    beginning = b'{"%s":' % KEY.encode()
    if beginning.startswith(first):  # of a run that was stopped before it had written more
        return {}, 0
    if not first.startswith(beginning):
        raise UsageError(
            f"{place}: already exists and was not written by regiontalk",
            hint="give another place for the output",
        )
    if first != header:
        console.message(f"{place}: of another command, model or version; starting again", quiet)
        return {}, 0
    finished: dict[str, Result] = {}
    length = len(first)
    for number, line in lines:
        try:
            entry = parse_object(line, f"{place}, line {number}")
            photo = entry.pop("photo")
            result = _restored(entry.pop("result"))
        except (DataError, LookupError, TypeError, AttributeError):
            break
        if not line.endswith(b"\n"):
            break
        length += len(line)
        if entry == _state(photo):
            finished[photo] = result
    return finished, length


def _state(photo: str) -> dict[str, int]:
    """Values that change when a photo changes."""
    try:
        status = os.stat(file_of(photo))  # noqa: PTH116
    except (OSError, ValueError):
        return {}
    return {"size": status.st_size, "changed": status.st_mtime_ns}


def _plain(result: Result) -> dict[str, Any]:
    """Everything but the photo's pixels."""
    values = asdict(replace(result, photo=None))
    del values["photo"]
    return {"kind": type(result).__name__, **values}


def _restored(values: dict[str, Any]) -> Result:
    kind = _KINDS[values.pop("kind")]
    for name, part in _PARTS.items():
        if name in values:
            values[name] = tuple(to_dataclass(part, value, name) for value in values[name])
    if "shown" in values:
        values["shown"] = Shown(**values["shown"])
    return kind(**values)
