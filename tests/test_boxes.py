from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regiontalk import boxes
from regiontalk.boxes import given_boxes
from regiontalk.errors import UsageError

coordinates = st.floats(-500, 500, width=32)


def arrays_of_boxes(most: int = 12) -> st.SearchStrategy[np.ndarray]:
    """Boxes (N, 4) as left, top, right, bottom, none turned inside out; some without area."""
    corners = hnp.arrays(
        np.float64, st.tuples(st.integers(0, most), st.just(2), st.just(2)), elements=coordinates
    )
    return corners.map(lambda pairs: np.sort(pairs, axis=1).reshape(-1, 4))


def whole_boxes(most: int = 25) -> st.SearchStrategy[np.ndarray]:
    """Boxes on a small grid, so that many overlap and many overlaps are equal."""
    corners = hnp.arrays(
        np.int64,
        st.tuples(st.integers(0, most), st.just(2), st.just(2)),
        elements=st.integers(0, 8),
    )
    return corners.map(lambda pairs: np.sort(pairs, axis=1).reshape(-1, 4).astype(float))


def plain_iou(a: np.ndarray, b: np.ndarray) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    overlap = max(width, 0.0) * max(height, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - overlap
    return overlap / union if union > 0 else 0.0


def plain_nms(
    boxes_xyxy: np.ndarray, scores: np.ndarray, threshold: float, limit: int | None
) -> list[int]:
    kept: list[int] = []
    for number in sorted(range(len(scores)), key=lambda n: (-scores[n], n)):
        if all(plain_iou(boxes_xyxy[number], boxes_xyxy[other]) <= threshold for other in kept):
            kept.append(number)
    return kept[:limit]


@given(arrays_of_boxes())
def test_conversions_go_there_and_back(boxes_xyxy: np.ndarray) -> None:
    np.testing.assert_allclose(
        boxes.cxcywh_to_xyxy(boxes.xyxy_to_cxcywh(boxes_xyxy)), boxes_xyxy, atol=1e-9
    )


def test_conversions_by_hand() -> None:
    np.testing.assert_array_equal(boxes.xywh_to_xyxy([[10, 20, 5, 7]]), [[10, 20, 15, 27]])
    np.testing.assert_array_equal(boxes.cxcywh_to_xyxy([[10, 20, 4, 6]]), [[8, 17, 12, 23]])
    np.testing.assert_array_equal(boxes.xyxy_to_cxcywh([[8, 17, 12, 23]]), [[10, 20, 4, 6]])


@pytest.mark.parametrize(
    "function",
    [boxes.xywh_to_xyxy, boxes.cxcywh_to_xyxy, boxes.xyxy_to_cxcywh],
)
def test_no_boxes_stay_no_boxes_and_single_precision_stays_single(function: object) -> None:
    assert function([]).shape == (0, 4)  # type: ignore[operator]
    assert function(np.zeros((3, 4), np.float32)).dtype == np.float32  # type: ignore[operator]


@given(arrays_of_boxes(), arrays_of_boxes())
def test_iou_is_symmetric_and_between_zero_and_one(a: np.ndarray, b: np.ndarray) -> None:
    for plus_one in (False, True):
        overlaps = boxes.iou(a, b, plus_one)
        assert overlaps.shape == (len(a), len(b))
        assert (overlaps >= 0).all()
        assert (overlaps <= 1 + 1e-9).all()
        np.testing.assert_allclose(overlaps, boxes.iou(b, a, plus_one).T, atol=1e-12)


@given(arrays_of_boxes(6), arrays_of_boxes(6))
def test_iou_equals_the_plain_formula(a: np.ndarray, b: np.ndarray) -> None:
    expected = np.array([[plain_iou(first, second) for second in b] for first in a]).reshape(
        len(a), len(b)
    )
    np.testing.assert_allclose(boxes.iou(a, b), expected, atol=1e-12)


@given(arrays_of_boxes())
def test_a_box_is_all_of_itself(boxes_xyxy: np.ndarray) -> None:
    own = np.diag(boxes.iou(boxes_xyxy, boxes_xyxy))
    np.testing.assert_allclose(own, (boxes.area(boxes_xyxy) > 0).astype(float))


def test_iou_by_hand() -> None:
    assert boxes.iou([[0, 0, 10, 10]], [[5, 0, 15, 10]])[0, 0] == pytest.approx(50 / 150)
    assert boxes.iou([[0, 0, 9, 9]], [[5, 0, 14, 9]], plus_one=True)[0, 0] == pytest.approx(
        50 / 150
    )
    assert boxes.iou([[0, 0, 10, 10]], [[10, 0, 20, 10]])[0, 0] == 0  # touching is not overlapping
    assert boxes.iou([[5, 5, 1, 1]], [[0, 0, 10, 10]])[0, 0] == 0  # turned inside out


def test_area_by_hand() -> None:
    np.testing.assert_array_equal(
        boxes.area([[0, 0, 4, 5], [4, 5, 0, 0], [2, 2, 2, 9]]), [20, 0, 0]
    )
    np.testing.assert_array_equal(boxes.area([[0, 0, 4, 5]], plus_one=True), [30])


@given(whole_boxes(), st.data())
def test_nms_equals_the_plain_one(boxes_xyxy: np.ndarray, data: st.DataObject) -> None:
    count = len(boxes_xyxy)
    scores = np.array(
        data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), dtype=float
    )
    threshold = data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    limit = data.draw(st.none() | st.integers(0, 30))
    kept = boxes.nms(boxes_xyxy, scores, threshold, limit)
    assert kept.tolist() == plain_nms(boxes_xyxy, scores, threshold, limit)


@pytest.mark.parametrize("threshold", [0.3, 0.7])
@pytest.mark.parametrize("limit", [None, 40])
def test_nms_over_several_chunks_equals_the_plain_one(threshold: float, limit: int | None) -> None:
    dice = np.random.default_rng(5)
    crowd = boxes.cxcywh_to_xyxy(
        np.concatenate([dice.random((900, 2)) * 200, 20 + dice.random((900, 2)) * 60], 1)
    )
    scores = dice.random(900).round(2)
    assert boxes.nms(crowd, scores, threshold, limit).tolist() == plain_nms(
        crowd, scores, threshold, limit
    )


@given(arrays_of_boxes(30), st.floats(0, 1), st.randoms(use_true_random=False))
def test_nms_keeps_boxes_apart_and_covers_the_rest(
    boxes_xyxy: np.ndarray, threshold: float, dice: object
) -> None:
    scores = np.array([dice.random() for _ in boxes_xyxy])  # type: ignore[attr-defined]
    kept = boxes.nms(boxes_xyxy, scores, threshold)
    assert (np.diff(scores[kept]) <= 0).all()
    assert len(set(kept.tolist())) == len(kept)
    overlaps = boxes.iou(boxes_xyxy, boxes_xyxy)
    among_kept = overlaps[np.ix_(kept, kept)]
    np.fill_diagonal(among_kept, 0)
    assert (among_kept <= threshold).all()
    for gone in set(range(len(scores))) - set(kept.tolist()):
        better = kept[scores[kept] >= scores[gone]]
        assert (overlaps[gone, better] > threshold).any()


@given(whole_boxes(), st.integers(0, 10))
def test_a_limit_only_cuts_the_end_off(boxes_xyxy: np.ndarray, limit: int) -> None:
    scores = np.arange(len(boxes_xyxy))[::-1]
    everything = boxes.nms(boxes_xyxy, scores, 0.5)
    assert boxes.nms(boxes_xyxy, scores, 0.5, limit).tolist() == everything[:limit].tolist()


def test_nms_takes_small_unsigned_scores() -> None:
    apart = [[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]]
    assert boxes.nms(apart, np.array([1, 200, 7], np.uint8), 0.5).tolist() == [1, 2, 0]


@given(arrays_of_boxes(), st.integers(1, 300), st.integers(1, 300))
def test_clipped_boxes_lie_in_the_image(boxes_xyxy: np.ndarray, width: int, height: int) -> None:
    clipped = boxes.clip(boxes_xyxy, width, height)
    assert (clipped >= 0).all()
    assert (clipped[:, 0::2] <= width).all()
    assert (clipped[:, 1::2] <= height).all()
    inside = (boxes_xyxy >= 0).all(axis=1) & (boxes_xyxy <= [width, height, width, height]).all(
        axis=1
    )
    np.testing.assert_array_equal(clipped[inside], boxes_xyxy[inside])
    np.testing.assert_array_equal(boxes.clip(clipped, width, height), clipped)


@given(arrays_of_boxes(), st.floats(0.01, 100), st.floats(0.01, 100))
def test_scaling_goes_there_and_back(
    boxes_xyxy: np.ndarray, factor_x: float, factor_y: float
) -> None:
    scaled = boxes.scale(boxes_xyxy, factor_x, factor_y)
    np.testing.assert_allclose(scaled[:, 0], boxes_xyxy[:, 0] * factor_x)
    np.testing.assert_allclose(scaled[:, 3], boxes_xyxy[:, 3] * factor_y)
    np.testing.assert_allclose(
        boxes.scale(scaled, 1 / factor_x, 1 / factor_y), boxes_xyxy, atol=1e-9
    )


@given(arrays_of_boxes(), st.integers(1, 500))
def test_flipping_twice_changes_nothing(boxes_xyxy: np.ndarray, width: int) -> None:
    flipped = boxes.flip(boxes_xyxy, width)
    assert (flipped[:, 2] >= flipped[:, 0]).all()
    np.testing.assert_allclose(boxes.area(flipped), boxes.area(boxes_xyxy), atol=1e-6)
    np.testing.assert_allclose(boxes.flip(flipped, width), boxes_xyxy, atol=1e-9)


def test_flip_by_hand() -> None:
    np.testing.assert_array_equal(boxes.flip([[10, 20, 30, 50]], 100), [[70, 20, 90, 50]])


@given(whole_boxes(), st.sampled_from([0.25, 0.5, 0.75]), st.booleans())
def test_merging_puts_every_box_in_one_group(
    boxes_xyxy: np.ndarray, threshold: float, plus_one: bool
) -> None:
    groups = boxes.merge_groups(boxes_xyxy, threshold, plus_one)
    assert sorted(member for group in groups for member in group) == list(range(len(boxes_xyxy)))
    overlaps = boxes.iou(boxes_xyxy, boxes_xyxy, plus_one)
    np.fill_diagonal(overlaps, 1)
    sizes = [len(group) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    for group in groups:  # one of them, its seed, overlaps all
        assert (overlaps[np.ix_(group, group)] >= threshold).all(axis=1).any()


def test_merging_order_by_hand() -> None:
    """Boxes 20 wide, moved to the right: a shift of 2 has IoU 18/22 = .82, of 4 16/24 = .67."""
    row = [[shift, 0, shift + 20, 10] for shift in (0, 2, 4, 100, 101)]
    # 0 and 2 are close to 1, not to each other: 1 takes both; then 3 and 4 go together
    assert boxes.merge_groups(row, 0.7) == [[0, 1, 2], [3, 4]]
    # 1 and 2 would each take three; the first of them wins, and 3 stays alone
    chain = [[shift, 0, shift + 20, 10] for shift in (0, 2, 4, 6)]
    assert boxes.merge_groups(chain, 0.7) == [[0, 1, 2], [3]]
    assert boxes.merge_groups([[0, 0, 20, 10], [50, 0, 70, 10]], 0.7) == [[0], [1]]
    assert boxes.merge_groups([], 0.7) == []


def test_merging_counts_a_box_of_no_area() -> None:
    assert boxes.merge_groups([[3, 3, 3, 3], [3, 3, 3, 3]], 0.7) == [[0], [1]]


@pytest.mark.parametrize(
    "given_by_user",
    [
        [[1, 2, 3]],
        [1, 2, 3, 4],
        [[1, 2, 3, 4], [5, 6]],
        [["a", "b", "c", "d"]],
        [[50, 50, 10, 10]],
        [[9000, 0, 9100, 10]],
        [[0, 0, float("nan"), 10]],
    ],
)
def test_impossible_boxes_are_refused(given_by_user: object) -> None:
    with pytest.raises(UsageError, match="box"):
        given_boxes(given_by_user, (96, 64))


def test_boxes_within_0_and_1_are_fractions_of_the_photo() -> None:
    assert given_boxes([[0.1, 0.25, 0.5, 0.5], [0, 0, 1, 1]], (100, 40)).tolist() == [
        [10, 10, 50, 20],
        [0, 0, 100, 40],
    ]
    assert given_boxes([[-50, -50, 9000, 9000]], (100, 40)).tolist() == [[0, 0, 100, 40]]
    assert given_boxes([], (100, 40)).shape == (0, 4)
    with pytest.raises(
        UsageError, match=r"box 0, .*: fractions of the photo among boxes in pixels"
    ):
        given_boxes([[0.1, 0.1, 0.5, 0.5], [10, 10, 40, 40]], (100, 40))
