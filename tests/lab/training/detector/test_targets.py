"""The sampler's rules (DenseCap 3.1.2, "box sampling"), on boxes made by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from regiontalk import boxes as geometry
from regiontalk.lab.nets.localization import LearnedProposals, to_cxcywh
from regiontalk.lab.training.detector.targets import (
    Sample,
    Truths,
    inference_proposals,
    random_keys,
    sample_anchors,
    sample_boxes,
    sample_proposals,
)
from regiontalk.lab.training.recipe.detector import ProposalSamplerConfig
from regiontalk.models.settings import PredictionConfig

PAPER = ProposalSamplerConfig()
SIZE = torch.tensor([[1000.0, 1000.0]])


def overlapping(truth: tuple[float, ...], iou: float) -> tuple[float, ...]:
    """A box inside `truth`, as high as it, with this IoU."""
    x0, y0, x1, y1 = truth
    return x0, y0, x0 + iou * (x1 - x0), y1


def make_truths(*boxes: tuple[float, ...], padding: int = 0) -> Truths:
    count = len(boxes) + padding
    corners = torch.zeros(1, count, 4)
    corners[0, : len(boxes)] = torch.tensor(boxes)
    valid = torch.arange(count)[None] < len(boxes)
    words, starts = (
        torch.zeros(1, count, 2, dtype=torch.long),
        torch.zeros(1, count, dtype=torch.long),
    )
    return Truths(corners, valid, words, starts, torch.ones(1, count))


def sample(
    boxes: list[tuple[float, ...]],
    truths: Truths,
    config: ProposalSamplerConfig = PAPER,
    seed: int = 0,
) -> Sample:
    given = torch.tensor(boxes)[None]
    return sample_boxes(given, torch.zeros(1, len(boxes)), truths, SIZE, [seed], config)


def sets(found: Sample) -> tuple[set[int], set[int]]:
    """The positives and the negatives of the only photo."""
    index, positive, used = found.index[0], found.positive[0], found.used[0]
    return set(index[positive].tolist()), set(index[used & ~positive].tolist())


A, B = (100.0, 100.0, 200.0, 200.0), (500.0, 500.0, 600.0, 600.0)
FAR = (800.0, 800.0, 850.0, 850.0)


def test_thresholds():
    boxes = [
        A,
        overlapping(A, 0.75),
        overlapping(A, 0.65),
        overlapping(A, 0.35),
        overlapping(A, 0.25),
        FAR,
    ]
    positives, negatives = sets(sample(boxes, make_truths(A)))
    assert positives == {0, 1}
    assert negatives == {4, 5}  # 2 and 3 are neither


def test_thresholds_hold_at_their_very_values():
    """Of powers of two IoU is exact: at least 0.5 is positive, below 0.25 negative."""
    config = replace(PAPER, positive_iou=0.5, negative_iou=0.25)
    square = (0.0, 0.0, 64.0, 64.0)
    boxes = [
        square,
        overlapping(square, 0.5),
        overlapping(square, 0.25),
        overlapping(square, 0.2421875),
    ]
    positives, negatives = sets(sample(boxes, make_truths(square), config))
    assert positives == {0, 1}
    assert negatives == {3}


def test_a_second_truth_nearby_does_not_blur_the_thresholds():
    """The lot that breaks ties between phrases must not make a positive of one truth a miss of
    another."""
    config = replace(PAPER, positive_iou=0.5, negative_iou=0.5)
    square = (0.0, 0.0, 64.0, 64.0)
    almost = (0.0, 0.0, 64.001, 64.0)
    for seed in range(20):
        positives, negatives = sets(
            sample([square, overlapping(square, 0.5)], make_truths(square, almost), config, seed)
        )
        assert positives == {0, 1}
        assert not negatives


def test_the_best_box_of_a_truth_is_positive_however_bad():
    boxes = [overlapping(A, 0.1), overlapping(A, 0.05), FAR, overlapping(B, 0.9)]
    positives, negatives = sets(sample(boxes, make_truths(A, B)))
    assert positives == {0, 3}
    assert negatives == {1, 2}


def test_the_best_box_can_be_asked_to_overlap_somewhat():
    boxes = [overlapping(A, 0.1), FAR, overlapping(B, 0.5)]
    positives, negatives = sets(sample(boxes, make_truths(A, B), replace(PAPER, best_iou=0.2)))
    assert positives == {2}
    assert negatives == {0, 1}


def test_a_negative_is_far_from_all_truths():
    between = (100.0, 100.0, 150.0, 200.0)  # IoU 0.5 with A, 0 with B
    _, negatives = sets(sample([A, B, between, FAR], make_truths(A, B)))
    assert negatives == {3}


def test_at_most_half_are_positive_and_the_rest_is_filled_up():
    near = [overlapping(A, 0.8 + 0.001 * n) for n in range(50)]
    far = [(600.0 + n, 0.0, 620.0 + n, 20.0) for n in range(100)]
    config = replace(PAPER, regions=16)
    found = sample(near + far, make_truths(A), config)
    assert found.index.shape == (1, 16)
    assert int(found.positive.sum()) == 8
    assert int(found.used.sum()) == 16
    few = sample([*near[:3], *far], make_truths(A), config)
    assert int(few.positive.sum()) == 3
    assert int(few.used.sum()) == 16  # 13 negatives stand in


def test_what_cannot_be_filled_says_so():
    found = sample([A, overlapping(A, 0.5), FAR], make_truths(A), replace(PAPER, regions=8))
    assert sets(found) == ({0}, {2})
    assert int(found.used.sum()) == 2


def test_nothing_is_drawn_twice():
    near = [overlapping(A, 0.8 + 0.001 * n) for n in range(20)]
    far = [(600.0 + n, 0.0, 620.0 + n, 20.0) for n in range(20)]
    for seed in range(10):
        found = sample(near + far, make_truths(A), replace(PAPER, regions=24), seed)
        used = found.index[0][found.used[0]].tolist()
        assert len(set(used)) == len(used)


def test_positives_and_negatives_are_drawn_evenly():
    near = [overlapping(A, 0.8 + 0.001 * n) for n in range(8)]
    far = [(600.0 + n, 0.0, 620.0 + n, 20.0) for n in range(16)]
    counts: Counter[int] = Counter()
    for seed in range(600):
        counts.update(
            sample(near + far, make_truths(A), replace(PAPER, regions=8), seed).index[0].tolist()
        )
    positives = [counts[n] for n in range(8)]
    negatives = [counts[n] for n in range(8, 24)]
    assert min(positives) > 0.8 * 600 * 4 / 8  # 4 of 8 each time
    assert max(positives) < 1.2 * 600 * 4 / 8
    assert min(negatives) > 0.7 * 600 * 4 / 16
    assert max(negatives) < 1.3 * 600 * 4 / 16


@pytest.mark.parametrize(
    "config", [PAPER, replace(PAPER, balance=True, best_iou=0.2, drop_crossing=True)]
)
def test_padding_is_no_truth(config):
    boxes = [(0.0, 0.0, 0.5, 0.5), A, overlapping(B, 0.6), FAR]
    plain, padded = (
        sample(boxes, make_truths(A, B), config),
        sample(boxes, make_truths(A, B, padding=3), config),
    )
    assert sets(plain) == sets(padded)
    assert (padded.truth[padded.used] < 2).all()
    assert torch.equal(plain.index, padded.index)


def test_regions_know_their_truth():
    found = sample([overlapping(B, 0.9), overlapping(A, 0.8)], make_truths(A, B))
    by_index = dict(zip(found.index[0].tolist(), found.truth[0].tolist(), strict=True))
    assert (by_index[0], by_index[1]) == (1, 0)


def test_boxes_that_cross_the_border_are_left_out_except_the_best():
    crossing, best = (-10.0, 0.0, 90.0, 100.0), (-5.0, 0.0, 95.0, 100.0)
    outside = (950.0, 950.0, 1010.0, 990.0)
    truth = (-4.0, 0.0, 96.0, 100.0)
    boxes = [crossing, best, outside, FAR]
    assert sets(sample(boxes, make_truths(truth))) == ({0, 1}, {2, 3})
    assert sets(sample(boxes, make_truths(truth), replace(PAPER, drop_crossing=True))) == ({1}, {3})


def test_balanced_truths_get_as_many_positives():
    many = [overlapping(A, 0.8 + 0.001 * n) for n in range(60)]
    few = [overlapping(B, 0.8 + 0.001 * n) for n in range(6)]
    shares = {}
    for balance in (False, True):
        config = replace(PAPER, regions=8, balance=balance)
        found = [sample(many + few, make_truths(A, B), config, seed) for seed in range(200)]
        shares[balance] = float(
            torch.cat([one.truth[one.positive] for one in found]).float().mean()
        )
    assert shares[False] == pytest.approx(6 / 66, abs=0.04)
    assert 0.35 < shares[True] < 0.55


def test_hard_negatives_are_drawn_more_often():
    boxes = [A, *((600.0 + n, 0.0, 620.0 + n, 20.0) for n in range(40))]
    logits = torch.zeros(1, 41)
    logits[0, 1:11] = 2.0  # these look like regions to the net
    given = torch.tensor(boxes)[None]
    for hardness, low, high in ((0.0, 0.2, 0.3), (1.0, 0.55, 0.85)):
        config = replace(PAPER, regions=4, hardness=hardness)
        found = [
            sample_boxes(given, logits, make_truths(A), SIZE, [seed], config) for seed in range(300)
        ]
        negatives = torch.cat([one.index[one.used & ~one.positive] for one in found])
        assert low < float((negatives <= 10).float().mean()) < high


def test_phrases_on_one_box_are_equally_likely():
    counts = Counter(
        int(sample([A, FAR], make_truths(A, A, A), seed=seed).truth[0, 0]) for seed in range(600)
    )
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 150


def random_photos(count: int) -> tuple[LearnedProposals, Truths, torch.Tensor]:
    random = np.random.default_rng(0)
    low = random.uniform(0, 80, (count, 60, 2))
    corners = torch.from_numpy(
        np.concatenate([low, low + random.uniform(5, 50, (count, 60, 2))], axis=2)
    ).float()
    anchors = to_cxcywh(corners[0])
    truths = Truths(
        corners[:, ::20] + 1.0,
        torch.ones(count, 3, dtype=torch.bool),
        torch.zeros(count, 3, 2, dtype=torch.long),
        torch.zeros(count, 3, dtype=torch.long),
        torch.ones(count, 3),
    )
    proposals = LearnedProposals(
        corners, torch.from_numpy(random.normal(size=(count, 60))).float(), corners * 0, anchors
    )
    return proposals, truths, torch.full((count, 2), 100.0)


def part(truths: Truths, rows: slice) -> Truths:
    return Truths(*(getattr(truths, field.name)[rows] for field in fields(truths)))


@pytest.mark.parametrize("function", [sample_proposals, sample_anchors])
def test_a_photo_is_sampled_alike_however_its_batch_is_split(function):
    proposals, truths, sizes = random_photos(4)
    seeds = [11, 12, 13, 14]
    config = replace(PAPER, regions=16, clip=True, hardness=0.5, positive_iou=0.5)
    whole = function(proposals, truths, sizes, seeds, config)
    for rows in (slice(0, 1), slice(1, 4), slice(0, 4, 2)):
        boxes, logits = proposals.boxes_xyxy[rows], proposals.logits[rows]
        share = LearnedProposals(
            boxes, logits, proposals.transforms[rows], proposals.anchors_cxcywh
        )
        found = function(share, part(truths, rows), sizes[rows], seeds[rows], config)
        assert torch.equal(found.index, whole.index[rows])
        assert torch.equal(found.truth, whole.truth[rows])
    assert not torch.equal(
        whole.index[0],
        function(proposals, truths, sizes, [seed + 1 for seed in seeds], config).index[0],
    )


def test_random_keys_are_each_photos_own():
    keys = random_keys([5, 6, 5], 100, torch.device("cpu"))
    assert torch.equal(keys[0], keys[2])
    assert not torch.equal(keys[0], keys[1])
    assert torch.equal(random_keys([5], 130, torch.device("cpu"))[0, :100], keys[0])


def test_proposals_are_compared_as_predicted_and_anchors_as_they_stand():
    proposals, truths, sizes = random_photos(1)
    away = LearnedProposals(
        proposals.boxes_xyxy + 500, proposals.logits, proposals.transforms, proposals.anchors_cxcywh
    )
    config = replace(PAPER, positive_iou=0.5, best_iou=0.5)
    seeds = [1]
    assert not sample_proposals(away, truths, sizes, seeds, config).positive.any()
    assert sample_anchors(away, truths, sizes, seeds, config).positive.any()


def test_cut_proposals_are_compared_and_sampled_cut():
    proposals, truths, sizes = random_photos(1)
    small = torch.full_like(sizes, 60.0)
    found = sample_proposals(proposals, truths, small, [1], replace(PAPER, clip=True))
    assert found.boxes_xyxy.max() <= 60
    assert sample_proposals(proposals, truths, small, [1], PAPER).boxes_xyxy.max() > 60


def test_proposals_at_inference_are_each_right_or_wrong():
    proposals, truths, sizes = random_photos(3)
    settings = PredictionConfig(candidates=30, proposal_nms=0.4)
    config = ProposalSamplerConfig(inference_proposals=10, positive_iou=0.3)
    found = inference_proposals(proposals, truths, sizes, config, settings)
    for n, (width, height) in enumerate(sizes.tolist()):
        cut = geometry.clip(proposals.boxes_xyxy[n].numpy(), width, height)
        logits = proposals.logits[n].numpy()
        best = np.argsort(-logits, kind="stable")[:30]
        expected = best[geometry.nms(cut[best], logits[best], 0.4, 10)]
        count = int(found.used[n].sum())
        assert found.index[n, :count].tolist() == expected.tolist()
        iou = geometry.iou(cut[expected], truths.boxes_xyxy[n][truths.valid[n]].numpy()).max(axis=1)
        assert found.positive[n, :count].tolist() == (iou >= 0.3).tolist()
    assert found.positive.any()
    assert (found.used & ~found.positive).any()
