"""Codes of made-up things for tests of taught words: each kind of thing is a direction."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regiontalk.models.background import Space, to_length_1
from regiontalk.models.runtime import Floats
from regiontalk.models.word_book import BookFile, Example, WordBook

SIZE = 16
DETECTOR = "0123456789abcdef"


def a_space(seed: int = 0) -> Space:
    random = np.random.default_rng(seed)
    places = random.normal(size=(200, SIZE)).astype(np.float32)
    return Space(np.zeros(SIZE, np.float32), np.eye(SIZE, dtype=np.float32), to_length_1(places))


def things(kind: int, count: int = 1, seed: int = 0, noise: float = 0.1) -> Floats:
    """Codes (count, SIZE) of things of one kind."""
    random = np.random.default_rng([seed, kind])
    codes = noise * random.normal(size=(count, SIZE))
    codes[:, kind] += 1
    return codes.astype(np.float32)


def a_book(**words: Floats) -> WordBook:
    """A word book with the codes (E, SIZE) of each word; `not_WORD` are what it does not mean."""
    book = WordBook(DETECTOR, "a model")
    for name, codes in words.items():
        word = name.removeprefix("not_")
        examples = [
            Example(word, f"{name}-{number}.jpg", (0.0, 0.0, 10.0, 10.0), word == name)
            for number in range(len(codes))
        ]
        book = book.with_examples(examples, codes)
    return book


def write_examples(path: Path, writer: int) -> None:
    """Ten examples, one write each; a process of its own can import this."""
    file = BookFile(path, DETECTOR, "a model")
    for number in range(10):
        example = Example(f"word {writer}", f"{number}.jpg", (0, 0, 1, 1))
        file.change(lambda book, one=example: book.with_examples([one], things(writer)))
