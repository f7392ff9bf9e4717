"""Whole photos and regions as rows of codes, and files of snippets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regiontalk.codes.build import CodedPhotos
from regiontalk.data.records import Record
from regiontalk.errors import DataError, UsageError
from regiontalk.training.heads.caption_targets import (
    Snippet,
    Subject,
    Text,
    known_tokens,
    read_snippets,
    regions,
    shown,
    whole_photos,
    write_snippets,
)
from regiontalk.vocabulary import Vocabulary


@pytest.fixture
def coded() -> CodedPhotos:
    """Photo a of 100×50 pixels has two regions, photo b of 20×40 one; a code counts photo and row."""
    codes = np.arange(6, dtype=np.float16).reshape(2, 3, 1)
    boxes = np.array([[[0, 0, 100, 50], [10, 5, 60, 30], [0, 0, 50, 50]], [[0, 0, 20, 40], [5, 10, 10, 40], [0] * 4]])
    counts, scores = np.array([3, 2]), np.ones((2, 3), dtype=np.float32)
    return CodedPhotos(("a", "b"), counts, boxes.astype(np.float32), scores, codes, "detector", codes + 10)


RECORDS = [Record("b", 20, 40, sentences=("A dog .", "Two dogs .")), Record("a", 100, 50)]


def test_whole_photos_with_their_sentences(coded: CodedPhotos) -> None:
    assert whole_photos(RECORDS, coded, "here") == [Subject(1, 0, (Text("A dog ."), Text("Two dogs .")))]
    with pytest.raises(DataError, match="no codes of the photo 'c'"):
        whole_photos([Record("c", 9, 9, sentences=("A cat .",))], coded, "here")


def test_regions_with_their_snippets(coded: CodedPhotos) -> None:
    snippets = {"a": [Snippet(2, Text("a dog", 0.5)), Snippet(1, Text("grass")), Snippet(2, Text("brown"))], "b": []}
    assert regions(RECORDS, snippets, coded, "here") == [
        Subject(0, 1, (Text("grass"),)),
        Subject(0, 2, (Text("a dog", 0.5), Text("brown"))),
    ]
    with pytest.raises(DataError, match="here: b: no region 2"):
        regions(RECORDS, {"b": [Snippet(2, Text("a dog"))]}, coded, "here")


def test_what_is_shown_of_them(coded: CodedPhotos) -> None:
    views, codes, places = shown(coded, [Subject(0, 2, ()), Subject(1, 0, ())], 3)
    assert views[:, :, 0].tolist() == [[2, 12, 0], [3, 13, 3]], "the region, its surroundings, its photo"
    assert codes[:, :, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    np.testing.assert_allclose(places[0, 1], [0.1, 0.1, 0.6, 0.6, 0.25], rtol=1e-6)
    np.testing.assert_allclose(places[1, :2, 4], [1, 0.1875])
    assert places[1, 2].tolist() == [0] * 5, "no region"
    assert shown(coded, [Subject(0, 2, ())], 1)[0].shape == (1, 1, 1)


def test_views_need_surroundings(coded: CodedPhotos) -> None:
    without = CodedPhotos(coded.names, coded.counts, coded.boxes_xyxy, coded.scores, coded.codes, "detector")
    with pytest.raises(DataError, match="without surroundings"):
        shown(without, [Subject(0, 1, ())], 3)


def test_rare_words_are_dropped() -> None:
    words = Vocabulary(("a", "dog"), "karpathy")
    assert known_tokens("A tabby dog !", words) == words.encode(["a", "dog"])


def test_a_file_of_snippets_is_read_as_it_was_written(tmp_path: Path) -> None:
    snippets = [Snippet(1, Text("a dog", 0.25)), Snippet(0, Text("grass"))]
    assert write_snippets(tmp_path / "s.jsonl", [("a", snippets), ("b", [])]) == 2
    assert read_snippets(tmp_path / "s.jsonl") == {"a": snippets, "b": []}


@pytest.mark.parametrize("line", ['{"image": "x"}', "[]", "{", '{"image": "x", "snippets": [{"row": "first"}]}'])
def test_broken_snippets_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "s.jsonl").write_text(f'{{"image": "a", "snippets": []}}\n{line}\n')
    with pytest.raises(DataError, match=r"s\.jsonl, line 2: "):
        read_snippets(tmp_path / "s.jsonl")


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_snippets(tmp_path / "gone.jsonl")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        write_snippets(tmp_path / "file" / "s.jsonl", [])
