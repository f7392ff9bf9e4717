"""Sentences as numbers: words, vectors from a file, parses that are kept."""

from __future__ import annotations

import builtins
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import DataError, MissingExtra
from regiontalk.lab.data.parse_tree import Token, Tree
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.lab.training.heads import sentence_encoding
from regiontalk.lab.training.heads.sentence_encoding import (
    EdgeReader,
    WordReader,
    load_parses,
    read_word_vectors,
    vector_table,
)
from regiontalk.language.vocabulary import UNKNOWN, Vocabulary

WORDS = Vocabulary(("a", "dog", "runs"), "karpathy")


def test_words_are_cleaned_cut_and_padded() -> None:
    reader = WordReader(WORDS)
    assert reader.read("A dog, unheard-of!").tolist() == [2, 3, UNKNOWN]
    assert len(reader.read("a " * 100)) == WINDOW_WORDS
    stacked = reader.stack([reader.read("a dog runs"), reader.read("dog")])
    assert stacked.tokens.tolist() == [[2, 3, 4], [3, 0, 0]]
    assert stacked.lengths.tolist() == [3, 1]


def test_edges_become_numbers_and_rare_relations_one() -> None:
    parses = {"x": [("det", "dog", "a"), ("nsubj", "runs", "dog")] * 50 + [("amod", "dog", "odd")]}
    reader = EdgeReader.build(WORDS, ["x"], parses)
    assert reader.relations == ("", "det", "nsubj")
    rows = reader.read("x")
    assert rows[0].tolist() == [1, 3, 2]
    assert rows[-1].tolist() == [0, 3, UNKNOWN]
    stacked = reader.stack([rows, rows[:0], rows[:2]])
    assert stacked.tokens.shape == (103, 3)
    assert stacked.lengths.tolist() == [101, 0, 2]


def test_word_vectors_find_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    np.savez(
        path, words=np.array(["dog", "cat"]), vectors=np.array([[1, 2], [3, 4]], dtype=np.float16)
    )
    table = vector_table(WORDS, read_word_vectors(path))
    assert table.tolist() == [[0, 0], [0, 0], [0, 0], [1, 2], [0, 0]]


@pytest.mark.parametrize(
    "arrays", [{"words": np.array(["a"])}, {"words": np.array(["a"]), "vectors": np.ones((2, 3))}]
)
def test_files_that_are_no_word_vectors(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(DataError, match=r"wrong\.npz"):
        read_word_vectors(tmp_path / "wrong.npz")
    with pytest.raises(DataError, match=r"none\.npz"):
        read_word_vectors(tmp_path / "none.npz")


def test_parses_are_kept_and_only_what_is_missing_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def parse(sentences: list[str], _: Vocabulary) -> list[sentence_encoding.Edges]:
        asked.append(sentences)
        return [[("det", "dog", "a")] for _ in sentences]

    monkeypatch.setattr(sentence_encoding, "_parse", parse)
    path = tmp_path / "parses.json.gz"
    load_parses(path, ["one", "two", "one"], WORDS)
    found = load_parses(path, ["two", "three"], WORDS)
    assert asked == [["one", "two"], ["three"]]
    assert found == {key: [("det", "dog", "a")] for key in ("one", "two", "three")}
    with gzip.open(path) as file:
        assert len(json.load(file)) == 3
    assert [item.name for item in tmp_path.iterdir()] == ["parses.json.gz"]


def test_a_broken_file_of_parses_is_named(tmp_path: Path) -> None:
    (tmp_path / "parses.json.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"parses\.json\.gz"):
        load_parses(tmp_path / "parses.json.gz", ["x"], WORDS)


def test_without_spacy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_spacy(name: str, *rest: Any) -> Any:
        if name == "spacy":
            raise ImportError("no spacy here")
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_spacy)
    with pytest.raises(MissingExtra) as caught:
        load_parses(tmp_path / "parses.json.gz", ["a dog runs"], WORDS)
    assert "regiontalk[parse]" in str(caught.value.hint)


def test_edges_join_words_and_no_punctuation() -> None:
    dog, runs, dot = (
        Token("Dog", "NN", "nsubj", 1),
        Token("runs", "VBZ", "ROOT", 1),
        Token(".", ".", "punct", 1),
    )
    assert sentence_encoding._edges(Tree([dog, runs, dot]), WORDS) == [("nsubj", "runs", "dog")]
