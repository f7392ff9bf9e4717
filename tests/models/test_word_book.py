"""Word books: what is kept of taught words, written whole or not at all, read strictly."""

from __future__ import annotations

import io
import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import ModelError, UsageError
from regiontalk.models import word_book
from regiontalk.models.word_book import (
    BookFile,
    Example,
    WordBook,
    clean_word,
    read_word_book,
    without_article,
)
from taught_things import DETECTOR, SIZE, a_book, things, write_examples


def a_file(tmp_path: Path, **words: Any) -> BookFile:
    file = BookFile(tmp_path / "words.npz", DETECTOR, "a model")
    file.change(lambda _: a_book(**words))
    return file


def test_a_book_is_read_back(tmp_path: Path) -> None:
    file = a_file(tmp_path, Rex=things(0, 3), not_Rex=things(1, 2))
    back = read_word_book(file.path)
    assert back.examples == a_book(Rex=things(0, 3), not_Rex=things(1, 2)).examples
    assert np.allclose(back.codes, np.concatenate([things(0, 3), things(1, 2)]), atol=1e-3)
    assert (back.detector, back.model, back.words) == (DETECTOR, "a model", ("Rex",))


def test_a_region_that_is_taught_again_is_replaced() -> None:
    book = a_book(mug=things(0, 2))
    first = book.examples[0]
    again = book.with_examples([replace(first, word="MUG", is_it=False)], things(3))
    assert len(again.examples) == 2
    assert [one.is_it for one in again.examples] == [True, False]
    assert again.words == ("mug",)  # the first spelling stays


@pytest.mark.parametrize("asked", ["croissant", "a Croissant", "croissants", "  the croissants "])
def test_a_query_asks_for_a_word_in_its_forms(asked: str) -> None:
    assert a_book(croissant=things(0)).spelled(asked) == "croissant"


def test_other_phrases_ask_for_no_taught_word() -> None:
    book = a_book(croissant=things(0))
    assert [book.spelled(text) for text in ("", "a", "a croissant on a plate")] == [None] * 3


def test_words_are_forgotten_and_chosen() -> None:
    book = a_book(mug=things(0, 2), Rex=things(1, 3))
    assert book.without(["REX"]).words == ("mug",)
    assert len(book.only(["rex"]).examples) == 3
    with pytest.raises(UsageError, match="not a taught word"):
        book.without(["spoon"])


@pytest.mark.parametrize(
    "text", ["", " ", "…", "x" * 61, "a\x1b[31mb", "a\u202eb", "a; b", '"a"', "-a", "\x00a"]
)
def test_what_is_no_word_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        clean_word(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [(" our  mug ", "our mug"), ("крот", "крот"), ("é", "é"), ("<b>x</b>", "<b>x</b>")],
)
def test_words_of_any_script_are_taken(text: str, word: str) -> None:
    assert clean_word(text) == word


def test_articles_are_no_part_of_a_word() -> None:
    assert [without_article(text) for text in ("A red mug", "another", "the")] == [
        "red mug",
        "another",
        "the",
    ]


def changed(book: WordBook, about: dict[str, Any] | None = None, **arrays: Any) -> bytes:
    with np.load(io.BytesIO(book.to_bytes())) as stored:
        whole = dict(stored) | arrays
    if about is not None:
        values = json.loads(whole["about"].tobytes()) | about
        whole["about"] = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **whole)
    return buffer.getvalue()


BOOK = a_book(mug=things(0, 2))
EXAMPLE = {"word": "mug", "photo": "a", "xyxy": [0, 0, 1, 1]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 nothing",
        BOOK.to_bytes()[:-50],
        BOOK.to_bytes()[:200],
        changed(BOOK, codes=np.zeros((1, SIZE), np.float16)),
        changed(BOOK, codes=np.full((2, SIZE), np.inf, np.float16)),
        changed(BOOK, codes=np.array([[{}]], dtype=object)),  # a pickle
        changed(BOOK, {"examples": 3}),
        changed(BOOK, {"examples": [EXAMPLE, {**EXAMPLE, "word": "\x1b[31m"}]}),
        changed(BOOK, {"examples": [EXAMPLE, {**EXAMPLE, "xyxy": [0, 0, 1]}]}),
        changed(BOOK, {"examples": [EXAMPLE, {**EXAMPLE, "more": 1}]}),
        changed(BOOK, {"detector": ""}),
    ],
)
def test_a_damaged_book_is_an_error_that_names_the_file(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"words\.npz") as raised:
        read_word_book(path)
    assert raised.value.exit_code == 6
    assert path.read_bytes() == data


def test_a_lack_of_memory_does_not_blame_the_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody should be told to throw away a book that is fine."""
    file = a_file(tmp_path, Rex=things(0, 1))

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "load", no_memory)
    with pytest.raises(ModelError, match="there is not enough memory to read it") as caught:
        read_word_book(file.path)
    assert caught.value.hint is None


def test_a_newer_book_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    path.write_bytes(changed(BOOK, {"format": 99}))
    with pytest.raises(ModelError, match="format 99") as raised:
        read_word_book(path)
    assert raised.value.hint == "pip install --upgrade regiontalk"


def test_a_book_of_100_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(ModelError, match="larger than 64 MiB"):
        read_word_book(path)


def test_a_folder_or_a_pipe_is_no_book(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a folder"):
        read_word_book(tmp_path)


def test_the_words_of_another_model_are_refused(tmp_path: Path) -> None:
    path = a_file(tmp_path, mug=things(0)).path
    with pytest.raises(ModelError, match="words of another model, 'a model'; this is 'b'"):
        BookFile(path, "another", "b").read()


def test_what_another_process_writes_is_seen(tmp_path: Path) -> None:
    mine = a_file(tmp_path, mug=things(0))
    theirs = BookFile(mine.path, DETECTOR, "a model")
    assert mine.read().words == ("mug",)
    theirs.change(lambda book: book.with_examples([Example("Rex", "b", (0, 0, 1, 1))], things(1)))
    assert mine.read().words == ("mug", "Rex")
    assert mine.read() is mine.read()
    theirs.change(lambda book: book.without(["mug", "Rex"]))
    assert mine.read().words == ()
    assert not mine.path.exists()


def test_two_writers_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_examples, args=(path, writer)) for writer in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(read_word_book(path).examples) == 20


def test_a_book_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_book, "MAX_EXAMPLES", 3)
    file = a_file(tmp_path, mug=things(0, 3))
    before = file.path.read_bytes()
    example = Example("mug", "more.jpg", (0, 0, 1, 1))
    with pytest.raises(UsageError, match="4 examples; the limit is 3"):
        file.change(lambda book: book.with_examples([example], things(0)))
    assert file.path.read_bytes() == before


def test_a_new_start_keeps_the_damaged_file(tmp_path: Path) -> None:
    file = BookFile(tmp_path / "words.npz", DETECTOR, "a model")
    assert file.start_again() is None
    file.path.write_bytes(b"damaged")
    old = file.start_again()
    assert old is not None
    assert old.read_bytes() == b"damaged"
    assert file.read().words == ()
