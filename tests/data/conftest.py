"""Parses made by hand, for tests that do without a parser."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from regiontalk.data.parse_tree import Token, Tree


def tree_of(lines: str) -> Tree:
    rows = [line.split() for line in lines.strip().splitlines()]
    words = [row[0] for row in rows]

    def place_of(head: str, place: int) -> int:
        return min((n for n, word in enumerate(words) if word == head), key=lambda n: abs(n - place))

    return Tree([Token(word, tag, dep, place_of(head, place)) for place, (word, tag, dep, head) in enumerate(rows)])


@pytest.fixture
def parse() -> Callable[[str], Tree]:
    """A tree from lines of `word tag dep head`; the head is the nearest word of that name, a root's is itself."""
    return tree_of
