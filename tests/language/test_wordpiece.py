"""WordPiece tokens: hard cases over a small made-up vocabulary, with the ids that the package
`tokenizers` gives for it (`benchmarks/wordpiece.py` compares many texts with it)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import ModelError
from regiontalk.language.wordpiece import WordPieces, pad_together, split_words

VOCABULARY = """
[PAD] [UNK] [CLS] [SEP] [MASK] a dog dogs cat ##s ##ing run ##n cafe strasse ss ##e un ##aff ##able
, . ! ' - 中 文 i σας σασ ##b ß fi ##a $ 東
"""
PIECES = WordPieces(tuple(VOCABULARY.split()))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", [2, 3]),
        (" \t\n ", [2, 3]),
        ("A Dog", [2, 5, 6, 3]),
        ("dogs cats", [2, 7, 8, 9, 3]),  # the longest piece wins
        ("running", [2, 11, 12, 10, 3]),
        ("unaffable!", [2, 17, 18, 19, 22, 3]),
        ("unaffablex", [2, 1, 3]),  # a word with an unknown part is unknown as a whole
        ("dog's-cat.", [2, 6, 23, 1, 24, 8, 21, 3]),
        ("Café CAFÉ cafe\u0301", [2, 13, 13, 13, 3]),
        ("中文dog", [2, 25, 26, 6, 3]),
        ("a$dog", [2, 5, 34, 6, 3]),  # a sign of ASCII, though Unicode calls it no punctuation
        ("a—dog", [2, 5, 1, 6, 3]),  # an em dash
        ("\u0130", [2, 27, 3]),  # İ
        ("ΣΑΣ", [2, 29, 3]),  # no final sigma
        ("do\u00adg d\u200bog dog\x00", [2, 6, 6, 6, 3]),  # signs that nobody sees are dropped
        ("a\u00a0dog\u3000cat\u2028a", [2, 5, 6, 8, 5, 3]),
        ("a\u000bb", [2, 5, 30, 3]),  # a vertical tab is dropped, not a blank
        ("\ufffddog", [2, 6, 3]),
        ("dog\u0378", [2, 1, 3]),  # a character that Unicode has not assigned
        ("ﬁ", [2, 1, 3]),  # a ligature stays one
        ("Straße", [2, 1, 3]),
        ("ß", [2, 31, 3]),
        ("a" + "a" * 99, [2, 5, *[33] * 99, 3]),
        ("a" + "a" * 100, [2, 1, 3]),  # longer than 100 characters
        ("a [SEP]dog [mask]", [2, 5, 3, 6, 1, 1, 1, 3]),
        ("東京", [2, 35, 1, 3]),
    ],
)
def test_hard_cases(text: str, ids: list[int]) -> None:
    assert PIECES.encode(text) == ids


def test_long_texts_are_cut_off_before_the_end_token() -> None:
    assert PIECES.encode("a dog a dog", longest=5) == [2, 5, 6, 5, 3]
    assert PIECES.encode("a dog", longest=2) == [2, 3]


@given(st.text())
def test_any_text_has_tokens_of_the_vocabulary(text: str) -> None:
    tokens = PIECES.tokens(text)
    assert all(token in PIECES.pieces for token in tokens)
    assert PIECES.tokens(f" {text}  ") == tokens
    assert all(word and not word.isspace() for word in split_words(text))


def test_a_vocabulary_is_read_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES.pieces) + "\n", encoding="utf-8")
    assert WordPieces.load(path) == PIECES
    assert WordPieces.from_dict(PIECES.to_dict()) == PIECES
    path.write_text("dog\ncat\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"without \[PAD\]"):
        WordPieces.load(path)
    path.write_bytes(b"[PAD]\n\xff\xfe")
    with pytest.raises(ModelError, match="UTF-8"):
        WordPieces.load(path)


def test_rows_get_one_length() -> None:
    assert pad_together([[2, 3], [2, 5, 3]], 0) == [[2, 3, 0], [2, 5, 3]]
    assert pad_together([], 0) == []
