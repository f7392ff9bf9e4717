"""The frame between a photo's pixels and the network's, and the table of regions, on numbers made
up here."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from made_up_detections import FRAME, TWO_AND_A_RIVAL
from regiontalk.inference.decoding import Caption
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.results import Name


def test_boxes_go_into_the_input_and_back() -> None:
    boxes = np.array([[10.0, 20.0, 50.0, 60.0]])
    assert FRAME.to_input(boxes).tolist() == [[5, 10, 25, 30]]
    assert FRAME.to_photo(FRAME.to_input(boxes)).tolist() == boxes.tolist()
    assert FRAME.to_photo(np.array([[-1, 0, 120, 51]], dtype=np.float32)).tolist() == [
        [0, 0, 200, 100]
    ]
    assert FRAME.whole_xyxy.tolist() == [[0, 0, 100, 50]]


def test_size_features_of_boxes() -> None:
    boxes = np.array([[0, 0, 40, 30], [0, 0, 20, 30]], dtype=np.float32)
    small = Frame((20, 15), (40, 30), (2.0, 2.0))
    assert small.size_features(boxes).tolist() == [[1.0, 1.0], [0.5, 1.0]]
    large = Frame((400, 300), (40, 30), (0.1, 0.1))
    assert large.size_features(boxes).tolist() == [[1.0, 0.0], [0.5, 0.0]]
    assert large.size_features(boxes[:0]).shape == (0, 2)


def full_table() -> RegionTable:
    """Every column of three rows differs from row to row."""
    columns = np.arange(6, dtype=np.float32).reshape(3, 2)
    return replace(
        TWO_AND_A_RIVAL,
        recognition_codes=columns,
        codes=columns + 10,
        surroundings=columns + 20,
        vectors=columns + 30,
        colours=columns + 40,
        votes=np.array([1, 2, 3]),
        captions=tuple(Caption((token,), (-1.0,)) for token in (4, 5, 6)),
        confidences=np.array([0.1, 0.2, 0.3]),
        usual_captions=tuple(Caption((token,), (-1.0,)) for token in (7, 8, 9)),
        usual_confidences=np.array([0.4, 0.5, 0.6]),
        names=tuple(Name(name, 0.5) for name in ("a", "b", "c")),
        called=(True, False, False),
    )


def test_taking_rows_takes_them_of_every_column() -> None:
    table = full_table()
    taken = table.take(np.array([2, 0]))
    assert len(taken) == 2
    for column in fields(table):
        whole, part = getattr(table, column.name), getattr(taken, column.name)
        if column.name == "frame":
            assert part == whole
        elif column.name == "state":
            assert [rows.tolist() for rows in part] == [rows[[2, 0]].tolist() for rows in whole]
        else:
            assert len(whole) == 3, column.name
            assert list(map(str, part)) == [str(whole[2]), str(whole[0])], column.name
    assert len(table.take(np.array([], dtype=np.intp))) == 0


def test_columns_that_were_not_computed_stay_so() -> None:
    table = RegionTable(FRAME, np.zeros((3, 4)), np.arange(3.0))
    taken = table.take(np.array([1]))
    assert taken.scores.tolist() == [1]
    assert (len(taken.codes), taken.vectors, taken.captions, taken.state) == (0, None, (), ())


def test_the_first_rows_are_no_more_than_there_are() -> None:
    assert full_table().first(2).votes.tolist() == [1, 2]
    assert len(full_table().first(9)) == 3
