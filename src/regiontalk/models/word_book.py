"""A word book: words that people taught a model, each with region codes of its examples.

It is one file, and holds no photos: a code for each example, its word, and the name of its photo.
The region codes of different networks cannot be compared, so a book belongs to one network. Writers
take turns, and a book is replaced as a whole or not at all.

Shapes: E examples, D the size of a code with the appearance appended.
"""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.io.arrays import kinds_of, read_arrays
from regiontalk.io.files import data_folder, locked, parse_json, read_file, replacing
from regiontalk.io.typed import to_dataclass
from regiontalk.language.articles import ARTICLES
from regiontalk.language.object_names import singulars
from regiontalk.models.runtime import Floats
from regiontalk.results import BoxXYXY

FORMAT = 1
MAX_EXAMPLES = 20_000
MAX_WORD_LETTERS = 60
MAX_PHOTO_LETTERS = 4000
LARGEST_BOOK = 1 << 26  # bytes, of the file and of its content
_ARRAYS = {"codes": (np.float16, 2), "about": (np.uint8, 1)}
_START_AGAIN = "regiontalk teach forget --all starts a new one; the damaged file is kept beside it"


class DamagedBook(ModelError):
    """A file that is no word book, or no longer."""


@dataclass(frozen=True)
class Example:
    """A region that a word was taught with."""

    word: str
    photo: str
    """The photo's path or name, to recognise it in messages."""
    xyxy: BoxXYXY
    """The region, in pixels of the upright photo."""
    is_it: bool = True
    """False: the region does not show what the word means."""


@dataclass(frozen=True)
class WordBook:
    """Taught words of one network."""

    detector: str
    """`folder.detector_fingerprint` of the network whose codes it has."""
    model: str
    """The model's name, for messages."""
    examples: tuple[Example, ...] = ()
    codes: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32), repr=False)
    """(E, D) the codes of the examples."""

    @property
    def words(self) -> tuple[str, ...]:
        """All words, in the order in which they were taught."""
        return tuple(dict.fromkeys(example.word for example in self.examples))

    def spelled(self, text: str) -> str | None:
        """The taught word that a text asks for, if there is one: "some croissants" asks for
        "croissant"."""
        known = {word_key(word): word for word in self.words}
        return next((known[form] for form in forms_of(text) if form in known), None)

    def spelling(self, word: str) -> str:
        """The spelling that the book has of a word; the word itself if it is new."""
        spellings = {word_key(known): known for known in self.words}
        return spellings.get(word_key(word), word)

    def rows_of(self, word: str) -> list[int]:
        return [row for row, example in enumerate(self.examples) if example.word == word]

    def with_examples(self, examples: Sequence[Example], codes: Floats) -> WordBook:
        """The book and further examples (E,). A region that is in it already is replaced."""
        if not examples:
            return self
        spelling = {word_key(word): word for word in self.words}
        added = []
        for example in examples:
            word = spelling.setdefault(word_key(example.word), example.word)
            added.append(Example(word, example.photo, example.xyxy, example.is_it))
        again = {_place(example) for example in added}
        kept = [row for row, example in enumerate(self.examples) if _place(example) not in again]
        count = len(kept) + len(added)
        if count > MAX_EXAMPLES:
            raise UsageError(
                f"the word book would have {count} examples; the limit is {MAX_EXAMPLES}",
                hint="regiontalk teach forget WORD makes room",
            )
        rows = np.concatenate([self.codes[kept].reshape(-1, codes.shape[1]), codes])
        old = tuple(self.examples[row] for row in kept)
        return WordBook(self.detector, self.model, (*old, *added), rows.astype(np.float32))

    def without(self, words: Iterable[str]) -> WordBook:
        """The book without these words; raises `UsageError` for a word that it does not have."""
        keys = set()
        for word in words:
            if word_key(word) not in {word_key(known) for known in self.words}:
                raise UsageError(
                    f"{word[:MAX_WORD_LETTERS]!r} is not a taught word",
                    hint="regiontalk teach list shows them",
                )
            keys.add(word_key(word))
        return self._rows([n for n, e in enumerate(self.examples) if word_key(e.word) not in keys])

    def only(self, words: Iterable[str]) -> WordBook:
        """The book with these words alone."""
        keys = {word_key(word) for word in words}
        self.without(words)
        return self._rows([n for n, e in enumerate(self.examples) if word_key(e.word) in keys])

    def _rows(self, rows: list[int]) -> WordBook:
        examples = tuple(self.examples[row] for row in rows)
        return WordBook(self.detector, self.model, examples, self.codes[rows])

    def to_bytes(self) -> bytes:
        about = {
            "format": FORMAT,
            "detector": self.detector,
            "model": self.model,
            "examples": [asdict(example) for example in self.examples],
        }
        buffer = io.BytesIO()
        np.savez(
            buffer,
            codes=self.codes.astype(np.float16),
            about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        )
        return buffer.getvalue()


def word_key(word: str) -> str:
    """A key that is equal for all spellings of a word."""
    return unicodedata.normalize("NFKC", word).casefold()


def without_article(text: str) -> str:
    """The text in one line, without a leading article."""
    line = " ".join(text.split())
    key = line.casefold()
    starts = (f"{article} " for article in ARTICLES)
    return next((line[len(start) :] for start in starts if key.startswith(start)), line)


def forms_of(text: str) -> list[str]:
    """The keys of the words that a text may ask for: as it is, without article, in the singular."""
    key = word_key(" ".join(text.split()))
    plain = without_article(key)
    start, space, last = plain.rpartition(" ")
    singular = [f"{start}{space}{form}" for form in singulars(last)] if last else []
    return list(dict.fromkeys([key, plain, *singular]))


def clean_word(text: str) -> str:
    """The word as it is kept: any script, one space between its parts; raises `UsageError` for what
    is no word."""
    word = unicodedata.normalize("NFC", " ".join(text.split()))
    shown = repr(word[:MAX_WORD_LETTERS])
    if not any(sign.isalnum() for sign in word):
        raise UsageError(f"{shown} is not a word: it has no letter", hint='for example "croissant"')
    if len(word) > MAX_WORD_LETTERS:
        raise UsageError(
            f"{shown} …: a word of {len(word)} characters; the limit is {MAX_WORD_LETTERS}"
        )
    if not all(sign.isprintable() for sign in word):
        raise UsageError(f"{shown}: a word cannot have control characters")
    if any(sign in word for sign in ';"') or word.startswith("-"):
        raise UsageError(
            f"{shown}: a word cannot have a semicolon or a quotation mark, nor start with a minus",
            hint="they have a meaning in searches",
        )
    return word


def _place(example: Example) -> tuple[str, str, BoxXYXY]:
    return word_key(example.word), example.photo, example.xyxy


class _About(NamedTuple):
    detector: str
    model: str
    examples: tuple[Example, ...]


def read_word_book(path: Path) -> WordBook:
    """Raises `ModelError` for anything that is not a word book."""
    try:
        data = read_file(path, LARGEST_BOOK)
    except DataError as error:
        raise ModelError(error.message, hint="a word book of regiontalk teach") from error
    codes, about = _read_arrays(data, path)
    detector, model, examples = _read_about(about, path)
    if len(codes) != len(examples) or not 0 < len(examples) <= MAX_EXAMPLES or not detector:
        raise _damaged(path, "its examples and their codes do not belong together")
    if not np.isfinite(codes).all() or not codes.shape[1]:
        raise _damaged(path, "a code is not a finite number")
    return WordBook(detector, model, examples, codes.astype(np.float32))


def _read_arrays(data: bytes, path: Path) -> tuple[NDArray[np.float16], bytes]:
    try:
        arrays = read_arrays(data, LARGEST_BOOK)
    except MemoryError as error:  # the file may be fine: nobody should throw it away
        raise ModelError(f"{path}: there is not enough memory to read it") from error
    except ValueError as error:
        raise _damaged(path, f"not a word book: {error}") from error
    if kinds_of(arrays) != _ARRAYS:
        raise _damaged(path, "not a word book")
    return arrays["codes"], arrays["about"].tobytes()


def _read_about(data: bytes, path: Path) -> _About:
    try:
        about = parse_json(data, "its list of words")
        if type(about) is not dict:
            raise DataError("its list of words is not a JSON object")
        written = about.get("format")
        if isinstance(written, int) and written > FORMAT:
            raise ModelError(
                f"{path}: a word book of format {written}, this program reads {FORMAT}",
                hint="pip install --upgrade regiontalk",
            )
        examples = about.get("examples")
        if type(examples) is not list:
            raise DataError("its list of examples is missing")
        read = tuple(to_dataclass(Example, example, "an example") for example in examples)
        for example in read:
            is_long = len(example.photo) > MAX_PHOTO_LETTERS
            if (
                clean_word(example.word) != example.word
                or is_long
                or not np.isfinite(example.xyxy).all()
            ):
                raise DataError(f"the example {example.word[:MAX_WORD_LETTERS]!r} is not valid")
        return _About(str(about.get("detector", "")), str(about.get("model", "")), read)
    except (DataError, UsageError) as error:
        raise _damaged(path, error.message) from error


def _damaged(path: Path, reason: str) -> DamagedBook:
    return DamagedBook(f"{path}: {reason}", hint="regiontalk teach export writes word books")


def own_place(detector: str) -> Path:
    """The user's own word book for a network."""
    return data_folder() / f"words-{detector[:12]}.npz"


class BookFile:
    """The word book in a file; read again when the file has changed."""

    def __init__(self, path: Path, detector: str, model: str) -> None:
        self.path = path
        self._empty = WordBook(detector, model)
        self._book = self._empty
        self._state: tuple[int, int, int] | None = None

    def read(self) -> WordBook:
        """The book as it is now; an empty one if there is no file."""
        state = _state(self.path)
        if state != self._state:
            self._book = self._empty if state is None else self._read_file()
            self._state = state
        return self._book

    def _read_file(self) -> WordBook:
        try:
            book = read_word_book(self.path)
        except DamagedBook as error:
            raise ModelError(error.message, hint=_START_AGAIN) from error
        self.check_same(book, str(self.path))
        return book

    def check_same(self, other: WordBook, name: str) -> None:
        """Raises `ModelError` if the words of another book are not of this network."""
        if other.detector != self._empty.detector:
            raise ModelError(
                f"{name}: words of another model, {other.model[:60]!r}; "
                f"this is {self._empty.model!r}",
                hint="teach this model with the photos again; each model has a book of its own",
            )

    def change(self, edit: Callable[[WordBook], WordBook]) -> WordBook:
        """Writes the book that `edit` makes of the present one; other writers wait."""
        with locked(self.path):
            book = edit(self.read())
            if book.examples:
                data = book.to_bytes()
                if len(data) > LARGEST_BOOK:
                    raise UsageError(
                        f"the word book would be larger than {LARGEST_BOOK >> 20} MB",
                        hint="regiontalk teach forget WORD makes room",
                    )
                with replacing(self.path) as partial:
                    partial.write_bytes(data)
            else:
                self.path.unlink(missing_ok=True)
        return self.read()

    def start_again(self) -> Path | None:
        """An empty book; the old file, readable or not, is kept under the returned name."""
        with locked(self.path):
            if _state(self.path) is None:
                return None
            old = self.path.with_name(f"{self.path.name}.old")
            self.path.replace(old)
        return old


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from error
    return status.st_ino, status.st_size, status.st_mtime_ns
