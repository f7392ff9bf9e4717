"""Whole photos and regions as rows of codes, and files of snippets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import DataError, UsageError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.training.heads.caption_targets import (
    CaptionTarget,
    Snippet,
    known_tokens,
    pad_texts,
    photo_targets,
    read_snippets,
    region_targets,
    stack_codes,
    write_snippets,
)
from regiontalk.language.vocabulary import END, Vocabulary


@pytest.fixture
def coded() -> CodedPhotos:
    """Photo a of 100×50 pixels has two regions, photo b of 20×40 one; a code counts photo and
    row."""
    codes = np.arange(6, dtype=np.float16).reshape(2, 3, 1)
    boxes = np.array(
        [
            [[0, 0, 100, 50], [10, 5, 60, 30], [0, 0, 50, 50]],
            [[0, 0, 20, 40], [5, 10, 10, 40], [0] * 4],
        ]
    )
    counts, scores = np.array([3, 2]), np.ones((2, 3), dtype=np.float32)
    return CodedPhotos(
        ("a", "b"), counts, boxes.astype(np.float32), scores, codes, "detector", codes + 10
    )


RECORDS = [Record("b", 20, 40, sentences=("A dog .", "Two dogs .")), Record("a", 100, 50)]


def test_whole_photos_with_their_sentences(coded: CodedPhotos) -> None:
    assert photo_targets(RECORDS, coded, "here") == [
        CaptionTarget(1, 0, ("A dog .", "Two dogs ."), (1.0, 1.0))
    ]
    with pytest.raises(DataError, match="no codes of the photo 'c'"):
        photo_targets([Record("c", 9, 9, sentences=("A cat .",))], coded, "here")


def test_regions_with_their_snippets(coded: CodedPhotos) -> None:
    snippets = {"a": [Snippet(2, "a dog", 0.5), Snippet(1, "grass"), Snippet(2, "brown")], "b": []}
    assert region_targets(RECORDS, snippets, coded, "here") == [
        CaptionTarget(0, 1, ("grass",), (1.0,)),
        CaptionTarget(0, 2, ("a dog", "brown"), (0.5, 1.0)),
    ]
    with pytest.raises(DataError, match="here: b: no region 2"):
        region_targets(RECORDS, {"b": [Snippet(2, "a dog")]}, coded, "here")


def test_the_codes_of_targets(coded: CodedPhotos) -> None:
    views, codes, places = stack_codes(coded, [CaptionTarget(0, 2), CaptionTarget(1, 0)], 3)
    assert views[:, :, 0].tolist() == [[2, 12, 0], [3, 13, 3]], (
        "the region, its surroundings, its photo"
    )
    assert codes[:, :, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    np.testing.assert_allclose(places[0, 1], [0.1, 0.1, 0.6, 0.6, 0.25], rtol=1e-6)
    np.testing.assert_allclose(places[1, :2, 4], [1, 0.1875])
    assert places[1, 2].tolist() == [0] * 5, "no region"
    assert stack_codes(coded, [CaptionTarget(0, 2)], 1)[0].shape == (1, 1, 1)


def test_views_need_surroundings(coded: CodedPhotos) -> None:
    without = CodedPhotos(
        coded.names, coded.counts, coded.boxes_xyxy, coded.scores, coded.codes, "detector"
    )
    with pytest.raises(DataError, match="have no surroundings"):
        stack_codes(without, [CaptionTarget(0, 1)], 3)


def test_rare_words_are_dropped() -> None:
    words = Vocabulary(("a", "dog"), "karpathy")
    assert known_tokens("A tabby dog !", words) == words.encode(["a", "dog"])


def test_texts_are_padded_with_end() -> None:
    fed, words, lengths = pad_texts([[5, 6], [7], []], 9)
    assert fed.tolist() == [[9, 5, 6], [9, 7, END], [9, END, END]]
    assert words.tolist() == [[5, 6, END], [7, END, END], [END, END, END]]
    assert lengths.tolist() == [3, 2, 1]


def test_a_file_of_snippets_is_read_as_it_was_written(tmp_path: Path) -> None:
    snippets = [Snippet(1, "a dog", 0.25), Snippet(0, "grass")]
    assert write_snippets(tmp_path / "s.jsonl", [("a", snippets), ("b", [])]) == 2
    assert read_snippets(tmp_path / "s.jsonl") == {"a": snippets, "b": []}


@pytest.mark.parametrize(
    "line", ['{"image": "x"}', "[]", "{", '{"image": "x", "snippets": [{"row": "first"}]}']
)
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
