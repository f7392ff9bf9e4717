"""Anchors, eqs. 1–3 and suppression, each against a plain reference."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from regiontalk import boxes
from regiontalk.lab.nets.localization import (
    PAPER_ANCHORS,
    LocalizationConfig,
    LocalizationLayer,
    Suppression,
    box_iou,
    clip_boxes,
    crop_regions,
    decode_boxes,
    encode_boxes,
    sample_regions,
    to_cxcywh,
)

SMALL = LocalizationConfig(anchors=((16, 8), (32, 32), (10, 40)), filters=4)
coordinates = st.floats(0, 200, width=32)


def random_boxes(random: np.random.Generator, *shape: int, grid: float = 0.0) -> torch.Tensor:
    """Boxes in a 100 × 100 photo; a `grid` makes equal boxes and touching borders likely."""
    low = random.uniform(0, 80, (*shape, 2))
    corners = np.concatenate([low, low + random.uniform(1, 40, (*shape, 2))], axis=-1)
    if grid:
        corners = np.round(corners / grid) * grid
    return torch.from_numpy(corners.astype(np.float32))


def zeroed(config: LocalizationConfig, channels: int = 2) -> LocalizationLayer:
    """A layer whose convolutions say nothing, so that only what a test sets remains."""
    layer = LocalizationLayer(channels, config)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    return layer


def test_paper_photo_has_17820_anchors():
    """720 × 540: the paper's 17,280 is a slip for 45 · 33 · 12."""
    layer = LocalizationLayer(1, LocalizationConfig(filters=1))
    assert layer.anchors(540 // 16, 720 // 16).shape == (45 * 33 * 12, 4) == (17_820, 4)


def test_anchors_stand_round_the_middle_of_every_cell():
    anchors = LocalizationLayer(1, SMALL).anchors(2, 3).view(2, 3, 3, 4)
    for row, column in itertools.product(range(2), range(3)):
        for number, shape in enumerate(SMALL.anchors):
            assert anchors[row, column, number].tolist() == [8 + 16 * column, 8 + 16 * row, *shape]


def test_paper_anchors_are_four_sizes_of_three_shapes():
    areas = [width * height for width, height in PAPER_ANCHORS]
    assert len(areas) == 12
    for size in range(4):
        group = areas[3 * size : 3 * size + 3]
        assert max(group) / min(group) < 1.02
    assert all(
        pytest.approx(4, rel=0.03) == big / small
        for small, big in zip(areas[::3], areas[3::3], strict=False)
    )


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("ways", [1, 2])
def test_outputs_belong_to_the_anchor_they_are_named_after(number, ways):
    layer = zeroed(LocalizationConfig(SMALL.anchors, filters=4, score_ways=ways))
    with torch.no_grad():
        layer.scores.bias[number * ways + ways - 1] = 5.0
        layer.transforms.bias[4 * number + 0] = 0.25  # tx
        layer.transforms.bias[4 * number + 3] = math.log(2)  # th
    proposals = layer(torch.zeros(2, 2, 3, 4))
    width, height = SMALL.anchors[number]
    logits = proposals.logits.view(2, 3, 4, 3)
    assert (logits[..., number] == 5).all()
    assert (logits.sum(dim=-1) == 5).all()
    found = to_cxcywh(proposals.boxes_xyxy).view(2, 3, 4, 3, 4)
    for row, column, other in itertools.product(range(3), range(4), range(3)):
        expected = [8 + 16 * column, 8 + 16 * row, *SMALL.anchors[other]]
        if other == number:
            expected = [8 + 16 * column + 0.25 * width, 8 + 16 * row, width, 2 * height]
        torch.testing.assert_close(
            found[0, row, column, other], torch.tensor(expected, dtype=torch.float32)
        )


def test_two_way_score_is_the_logit_of_the_softmax():
    layer = LocalizationLayer(2, LocalizationConfig(SMALL.anchors, filters=4, score_ways=2))
    features = torch.randn(1, 2, 2, 2, generator=torch.Generator().manual_seed(0))
    hidden = torch.relu(layer.conv(features))
    softmax = layer.scores(hidden).permute(0, 2, 3, 1).reshape(1, -1, 2).softmax(dim=-1)[..., 1]
    torch.testing.assert_close(torch.sigmoid(layer(features).logits), softmax)


def test_a_score_moves_with_what_it_sees():
    """One bright cell: the highest score is that of the anchors there."""
    layer = zeroed(SMALL)
    with torch.no_grad():
        layer.conv.weight[:, :, 1, 1] = 1.0
        layer.scores.weight[1] = 1.0
    features = torch.zeros(1, 2, 5, 7)
    features[0, :, 3, 6] = 1.0
    best = layer(features).logits[0].argmax()
    assert layer.anchors(5, 7)[best].tolist() == [8 + 16 * 6, 8 + 16 * 3, 32, 32]


@settings(deadline=None)
@given(st.data())
def test_encoding_is_the_inverse_of_decoding(data):
    anchors = torch.tensor(
        data.draw(
            st.lists(
                st.tuples(coordinates, coordinates, *[st.floats(4, 300)] * 2),
                min_size=1,
                max_size=8,
            )
        ),
        dtype=torch.float64,
    )
    transforms = torch.from_numpy(
        data.draw(np_st.arrays(np.float64, anchors.shape, elements=st.floats(-3, 3)))
    )
    back = encode_boxes(anchors, decode_boxes(anchors, transforms))
    torch.testing.assert_close(back, transforms, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_decoding_is_the_inverse_of_encoding(seed):
    random = np.random.default_rng(seed)
    anchors, target = to_cxcywh(random_boxes(random, 6).double()), random_boxes(random, 6).double()
    torch.testing.assert_close(decode_boxes(anchors, encode_boxes(anchors, target)), target)


def test_no_transform_leaves_the_anchor_and_a_wild_one_stays_finite():
    anchor = torch.tensor([[50.0, 40.0, 20.0, 10.0]])
    assert decode_boxes(anchor, torch.zeros(1, 4)).tolist() == [[40.0, 35.0, 60.0, 45.0]]
    assert decode_boxes(anchor, torch.full((1, 4), 1e4)).isfinite().all()


def test_equations_1_and_2_by_hand():
    anchor = torch.tensor([100.0, 50.0, 40.0, 20.0])
    transform = torch.tensor([0.5, -0.25, math.log(2), math.log(0.5)])
    # centre 100 + 0.5 · 40, 50 − 0.25 · 20; size 80 × 10
    torch.testing.assert_close(
        decode_boxes(anchor, transform), torch.tensor([80.0, 40.0, 160.0, 50.0])
    )


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 4.0]))
def test_iou_equals_the_numpy_one(seed, grid):
    random = np.random.default_rng(seed)
    a, b = random_boxes(random, 2, 7, grid=grid), random_boxes(random, 2, 5, grid=grid)
    a[0, 0, 2:] = a[0, 0, :2]  # a box without area
    for n, found in enumerate(box_iou(a, b)):
        np.testing.assert_allclose(
            found, boxes.iou(a[n].numpy(), b[n].numpy()), rtol=1e-6, atol=1e-7
        )


def test_boxes_are_cut_to_their_own_photo():
    given_boxes = torch.tensor([[[-5.0, 10.0, 90.0, 70.0]], [[-5.0, 10.0, 90.0, 70.0]]])
    cut = clip_boxes(given_boxes, torch.tensor([[80.0, 60.0], [100.0, 20.0]]))
    assert cut.tolist() == [[[0, 10, 80, 60]], [[0, 10, 90, 20]]]


@pytest.mark.parametrize("form", [Suppression.one_by_one, Suppression.in_rounds])
class TestSuppression:
    """Equal to `boxes.nms`, photo by photo, both in the form for the CPU and in the one for a
    GPU."""

    @settings(deadline=None, max_examples=60)
    @given(
        seed=st.integers(0, 2**32 - 1),
        count=st.integers(1, 60),
        threshold=st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
        limit=st.integers(1, 70),
        grid=st.sampled_from([0.0, 5.0, 20.0]),
    )
    def test_equals_nms(self, form, seed, count, threshold, limit, grid):
        ranked = random_boxes(np.random.default_rng(seed), 3, count, grid=grid)
        places, counts = form(Suppression(threshold, limit), ranked)
        assert places.shape == (3, min(limit, count))
        for n in range(3):
            expected = boxes.nms(ranked[n].numpy(), -np.arange(count), threshold, limit)
            assert places[n, : counts[n]].tolist() == expected.tolist()

    def test_long_chain_of_suppressions(self, form):
        """Each box overlaps only its neighbours, so that what goes depends on all boxes before."""
        left = torch.arange(150, dtype=torch.float32) * 4
        chain = torch.stack([left, torch.zeros(150), left + 10, torch.full((150,), 10.0)], dim=1)[
            None
        ]
        places, counts = form(Suppression(0.4, 150), chain)
        assert places[0, : counts[0]].tolist() == list(range(0, 150, 2))

    def test_boxes_without_area_and_inside_out(self, form):
        """They neither suppress nor are suppressed, as in `boxes.nms`."""
        whole, empty = [0.0, 0, 10, 10], [5.0, 5, 5, 9]
        turned_once, turned_twice = [8.0, 2, 2, 8], [8.0, 8, 2, 2]
        ranked = torch.tensor(
            [[turned_twice, whole, empty, turned_once, empty, turned_twice, whole]]
        )
        for threshold in (0.0, 0.2):
            places, counts = form(Suppression(threshold, 7), ranked)
            assert (
                places[0, : counts[0]].tolist()
                == boxes.nms(ranked[0], -np.arange(7), threshold).tolist()
            )
            assert counts.tolist() == [6]

    def test_photos_do_not_meddle(self, form):
        two = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 10]], [[0, 0, 10, 10], [50, 50, 60, 60]]])
        places, counts = form(Suppression(0.5, 2), two)
        assert counts.tolist() == [1, 2]
        assert places[0, 0] == 0
        assert places[1].tolist() == [0, 1]


def test_a_long_chain_is_followed_no_further_than_to_the_last_box_wanted(monkeypatch):
    looks = []
    rounds = Suppression._rounds
    monkeypatch.setattr(
        Suppression, "_rounds", lambda self, *inputs: looks.append(1) or rounds(self, *inputs)
    )
    left = torch.arange(150, dtype=torch.float32) * 4
    chain = torch.stack([left, torch.zeros(150), left + 10, torch.full((150,), 10.0)], dim=1)[None]
    places, counts = Suppression(0.4, 3).in_rounds(chain)
    assert places.tolist() == [[0, 2, 4]]
    assert counts.tolist() == [3]
    assert len(looks) == 1


def ramp(height: int, width: int) -> torch.Tensor:
    """Features that say where they are: channel 0 the x of the cell's middle in pixels, channel 1
    its y."""
    y, x = torch.meshgrid(
        torch.arange(height) * 16.0 + 8, torch.arange(width) * 16.0 + 8, indexing="ij"
    )
    return torch.stack([x, y])[None]


def test_grid_corners_lie_on_the_corners_of_the_box():
    box = torch.tensor([[[20.0, 30.0, 70.0, 90.0]]])
    sampled = sample_regions(ramp(8, 8), box, cells=6)  # (1, 2, 6, 6)
    x = np.linspace(20, 70, 6, dtype=np.float32)
    y = np.linspace(30, 90, 6, dtype=np.float32)
    np.testing.assert_allclose(sampled[0, 0], np.broadcast_to(x, (6, 6)), rtol=1e-5)
    np.testing.assert_allclose(sampled[0, 1], np.broadcast_to(y[:, None], (6, 6)), rtol=1e-5)


def test_each_region_reads_its_own_photo():
    features = torch.stack([torch.full((1, 4, 4), 1.0), torch.full((1, 4, 4), 2.0)])
    box = torch.tensor([[10.0, 10.0, 50.0, 50.0]]).expand(2, 3, 4)
    sampled = sample_regions(features, box, cells=2)
    assert sampled.shape == (6, 1, 2, 2)
    torch.testing.assert_close(sampled.flatten(1).mean(dim=1), torch.tensor([1.0, 1, 1, 2, 2, 2]))


def test_equation_3_by_hand():
    """V = Σ U k(i′ − x) k(j′ − y) with k(d) = max(0, 1 − |d|); what lies outside the map counts as
    zero."""
    random = np.random.default_rng(5)
    features = torch.from_numpy(random.normal(size=(1, 3, 4, 5)))
    box = torch.tensor([[[-13.0, 5.0, 61.0, 77.0]]], dtype=torch.float64)
    sampled = sample_regions(features, box, cells=3)[0]
    for i, j in itertools.product(range(3), range(3)):
        x = (-13 + (61 + 13) * j / 2) / 16 - 0.5  # in cells, 0 in the middle of the first
        y = (5 + (77 - 5) * i / 2) / 16 - 0.5
        kernel_x = np.maximum(0, 1 - np.abs(np.arange(5) - x))
        kernel_y = np.maximum(0, 1 - np.abs(np.arange(4) - y))
        expected = np.einsum("chw,h,w->c", features[0].numpy(), kernel_y, kernel_x)
        np.testing.assert_allclose(sampled[:, i, j], expected, rtol=1e-9, atol=1e-12)


def test_several_samples_a_cell_are_averaged():
    features = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(1))
    box = torch.tensor([[[8.0, 8.0, 88.0, 72.0]]])
    fine = sample_regions(features, box, cells=6)
    coarse = sample_regions(features, box, cells=3, samples_per_cell=2)
    torch.testing.assert_close(coarse, fine.view(1, 2, 3, 2, 3, 2).mean(dim=(3, 5)))


@pytest.mark.parametrize("samples", [1, 2])
def test_the_identity_samples_the_box_itself(samples: int) -> None:
    generator = torch.Generator().manual_seed(7)
    features = torch.rand((2, 3, 6, 9), generator=generator)
    boxes = torch.tensor([[[8.0, 8.0, 88.0, 72.0], [-60.0, -20.0, 300.0, 110.0]]] * 2)
    identity = torch.eye(2, 3).expand(2, 2, 2, 3)
    torch.testing.assert_close(
        sample_regions(features, boxes, 5, samples, identity),
        sample_regions(features, boxes, 5, samples),
    )


def test_an_affine_map_turns_scales_and_shifts_the_grid_inside_the_box():
    box = torch.tensor([[[20.0, 30.0, 80.0, 70.0]]])  # centre 50, 50, half sizes 30, 20
    quarter_turn = torch.tensor([[[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]]])
    x, y = sample_regions(ramp(8, 8), box, 3, affine=quarter_turn)[0]
    torch.testing.assert_close(
        (x[0, 0], y[0, 0]), (torch.tensor(80.0), torch.tensor(30.0))
    )  # where the right top is
    torch.testing.assert_close((x[0, 2], y[0, 2]), (torch.tensor(80.0), torch.tensor(70.0)))
    smaller = torch.tensor([[[[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]]])  # the lower right quarter
    x, y = sample_regions(ramp(8, 8), box, 3, affine=smaller)[0]
    torch.testing.assert_close(x, torch.tensor([50.0, 65.0, 80.0]).expand(3, 3))
    torch.testing.assert_close(y, torch.tensor([50.0, 60.0, 70.0])[:, None].expand(3, 3))


@pytest.mark.parametrize("samples", [2, 3])
def test_means_over_cells_are_means_of_points(samples: int) -> None:
    """Outside the photo, and for a box without area, too."""
    generator = torch.Generator().manual_seed(samples)
    features = torch.rand((2, 5, 6, 9), generator=generator)
    boxes = torch.rand((2, 20, 2, 2), generator=generator).sort(dim=2).values.flatten(2) * 150
    boxes[0, 0] = torch.tensor([-60.0, -20.0, 300.0, 110.0])
    boxes[1, 0] = torch.tensor([40.0, 30.0, 40.0, 30.0])
    points = sample_regions(features, boxes, 7 * samples)
    means = sample_regions(features, boxes, 7, samples)
    torch.testing.assert_close(means, torch.nn.functional.avg_pool2d(points, samples))


def test_a_crop_of_its_own_size_is_a_piece_of_the_photo() -> None:
    images = torch.rand(2, 3, 40, 50)
    boxes = torch.tensor([[[8.0, 4.0, 24.0, 20.0], [30.0, 20.0, 46.0, 36.0]]]).expand(2, 2, 4)
    crops = crop_regions(images, boxes, 16)  # (N·B, 3, 16, 16), photo after photo
    expected = [photo[:, y : y + 16, x : x + 16] for photo in images for x, y in ((8, 4), (30, 20))]
    torch.testing.assert_close(crops, torch.stack(expected), atol=1e-5, rtol=0)
