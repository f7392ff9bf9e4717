"""The frame between a photo's pixels and the network's, on numbers made up here."""

from __future__ import annotations

import numpy as np

from made_up_detections import FRAME
from regiontalk.inference.regions import Frame


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
