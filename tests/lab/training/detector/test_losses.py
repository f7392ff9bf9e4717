"""The five losses (DenseCap 3.2) against values computed by hand, the paper's way and the
release's."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest
import torch

from regiontalk.lab.nets.fcln import Recognized
from regiontalk.lab.nets.localization import LearnedProposals
from regiontalk.lab.training.detector.losses import (
    box_loss,
    caption_loss,
    counted_words,
    final_losses,
    mean_over_photos,
    paired_iou,
    proposal_losses,
    score_loss,
)
from regiontalk.lab.training.detector.targets import CaptionTargets, Sample, Truths
from regiontalk.lab.training.recipe.detector import LossConfig
from regiontalk.language.vocabulary import END, UNKNOWN

PAPER = LossConfig()


def make_sample(positive: list[list[bool]], used: list[list[bool]] | None = None) -> Sample:
    shape = (len(positive), len(positive[0]))
    return Sample(
        index=torch.arange(shape[1]).expand(shape),
        boxes_xyxy=torch.zeros(*shape, 4),
        positive=torch.tensor(positive),
        used=torch.ones(shape, dtype=torch.bool) if used is None else torch.tensor(used),
        truth=torch.zeros(shape, dtype=torch.long),
    )


def logistic(logit: float, target: float) -> float:
    p = 1 / (1 + math.exp(-logit))
    return -target * math.log(p) - (1 - target) * math.log(1 - p)


def test_score_loss_is_logistic_and_leaves_filling_out():
    sample = make_sample([[True, False, False, False]], [[True, True, True, False]])
    logits = torch.tensor([[2.0, -1.0, 0.5, 99.0]])
    expected = (logistic(2, 1) + logistic(-1, 0) + logistic(0.5, 0)) / 3
    assert float(score_loss(logits, sample, torch.zeros_like(logits), PAPER)) == pytest.approx(
        expected
    )
    released = LossConfig(separate_means=True)
    expected = logistic(2, 1) + (logistic(-1, 0) + logistic(0.5, 0)) / 2
    assert float(score_loss(logits, sample, torch.zeros_like(logits), released)) == pytest.approx(
        expected
    )


def test_soft_scores_of_positives_have_their_iou_as_target():
    sample = make_sample([[True, False]])
    iou = torch.tensor([[0.8, 0.2]])
    found = score_loss(torch.tensor([[1.0, -2.0]]), sample, iou, LossConfig(soft_scores=True))
    assert float(found) == pytest.approx((logistic(1, 0.8) + logistic(-2, 0)) / 2)


def test_every_photo_counts_the_same():
    """A photo with one region weighs as much as a photo with three."""
    values = torch.tensor([[4.0, 9.0, 9.0], [1.0, 2.0, 3.0], [7.0, 7.0, 7.0]])
    counted = torch.tensor([[True, False, False], [True, True, True], [False, False, False]])
    assert float(mean_over_photos(values, counted)) == pytest.approx((4 + 2 + 0) / 3)


def smooth_l1(error: float, beta: float = 1.0) -> float:
    return 0.5 * error**2 / beta if abs(error) < beta else abs(error) - 0.5 * beta


def test_box_loss_is_smooth_l1_over_positives():
    transforms = torch.tensor([[[0.5, 0.0, -3.0, 0.1], [9.0, 9.0, 9.0, 9.0]]])
    targets = torch.zeros(1, 2, 4)
    positive = torch.tensor([[True, False]])
    expected = sum(smooth_l1(error) for error in (0.5, 0.0, -3.0, 0.1))
    assert float(box_loss(transforms, targets, positive, PAPER)) == pytest.approx(expected)
    sharper = LossConfig(smooth_l1_beta=0.1)
    expected = sum(smooth_l1(error, 0.1) for error in (0.5, 0.0, -3.0, 0.1))
    assert float(box_loss(transforms, targets, positive, sharper)) == pytest.approx(expected)


def test_the_release_drops_far_targets():
    transforms = torch.zeros(1, 2, 4)
    targets = torch.tensor([[[1.0, 0, 0, 0], [0, 11.0, 0, 0]]])
    both = torch.tensor([[True, True]])
    assert float(box_loss(transforms, targets, both, PAPER)) == pytest.approx((0.5 + 10.5) / 2)
    assert float(
        box_loss(transforms, targets, both, LossConfig(largest_target=10.0))
    ) == pytest.approx(0.5)


def test_targets_of_negatives_never_matter():
    """A negative's target may be infinite (its truth has no size); neither loss nor gradient may
    feel it."""
    transforms = torch.zeros(1, 2, 4, requires_grad=True)
    targets = torch.tensor([[[1.0, 0, 0, 0], [math.inf, math.nan, 0, 0]]])
    loss = box_loss(transforms, targets, torch.tensor([[True, False]]), PAPER)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.5)
    assert transforms.grad is not None
    assert transforms.grad.isfinite().all()


ANCHORS = torch.tensor([[50.0, 50.0, 20.0, 20.0], [10.0, 10.0, 20.0, 20.0]])
TRUTH = (50.0, 40.0, 70.0, 60.0)  # the first anchor, moved right by half its width


def make_truths() -> Truths:
    zeros = torch.zeros(1, 1, dtype=torch.long)
    return Truths(
        torch.tensor([[TRUTH]]), torch.tensor([[True]]), zeros[..., None], zeros, torch.ones(1, 1)
    )


def make_proposals(transforms: torch.Tensor) -> LearnedProposals:
    boxes = torch.tensor([[[40.0, 40, 60, 60], [0, 0, 20, 20]]])
    return LearnedProposals(boxes, torch.tensor([[1.0, -1.0]]), transforms, ANCHORS)


def test_proposal_losses_by_hand():
    transforms = torch.tensor([[[0.1, 0, 0, 0], [3.0, 3, 3, 3]]])
    found = proposal_losses(
        make_proposals(transforms), make_sample([[True, False]]), make_truths(), PAPER
    )
    assert set(found) == {"proposal_score", "proposal_box"}
    assert float(found["proposal_score"]) == pytest.approx(
        logistic(1, 1)
    )  # and logistic(−1, 0), which is the same
    assert float(found["proposal_box"]) == pytest.approx(smooth_l1(0.5 - 0.1), rel=1e-5)


def test_the_release_pulls_all_transforms_to_zero_sampled_or_not():
    transforms = torch.tensor([[[0.5, 0, 0, 0], [1.0, 2, 0, 0]]])
    config, whole = LossConfig(transform_decay=5e-5), make_sample([[True, False]])
    first = Sample(*(getattr(whole, field.name)[:, :1] for field in fields(Sample)))
    for sample in (whole, first):
        found = proposal_losses(make_proposals(transforms), sample, make_truths(), config)
        assert float(found["transform_decay"]) == pytest.approx((0.25 + 5) / 2)


def test_final_losses_by_hand():
    """The final transform leads from the sampled region, not from its anchor, to the truth."""
    sample = make_sample([[True, False]])
    sample.boxes_xyxy[0] = torch.tensor(
        [[50.0, 40.0, 60.0, 60.0], [0, 0, 20, 20]]
    )  # half as wide as the truth
    transforms = torch.zeros(
        1, 3, 4
    )  # the third is a true box, which is recognised along with the sample
    recognized = Recognized(
        sample.boxes_xyxy, torch.tensor([[0.3, -0.7, 50.0]]), transforms, transforms, transforms[0]
    )
    found = final_losses(recognized, sample, None, make_truths(), PAPER)
    assert float(found["final_score"]) == pytest.approx((logistic(0.3, 1) + logistic(-0.7, 0)) / 2)
    expected = smooth_l1(0.5) + smooth_l1(
        math.log(2)
    )  # its middle 5 pixels off by 10, twice as wide
    assert float(found["final_box"]) == pytest.approx(expected, rel=1e-5)


def test_scores_learn_from_the_proposals_at_inference_which_come_last():
    sample, at_inference = make_sample([[True, False]]), make_sample([[False, True]])
    logits = torch.tensor([[0.3, -0.7, 50.0, 0.2, 0.9]])  # two sampled, a truth, two used
    nothing = torch.zeros(1, 5, 4)
    recognized = Recognized(nothing, logits, nothing, nothing, nothing[0])
    found = final_losses(recognized, sample, at_inference, make_truths(), PAPER)
    assert float(found["final_score"]) == pytest.approx((logistic(0.2, 0) + logistic(0.9, 1)) / 2)
    alone = final_losses(recognized, sample, None, make_truths(), PAPER)
    assert torch.equal(found["final_box"], alone["final_box"])


def test_soft_scores_look_at_the_boxes_as_they_have_become():
    sample = make_sample([[True, False]])
    boxes = torch.tensor([[[50.0, 40.0, 60.0, 60.0], [0, 0, 20, 20]]])  # IoU 0.5 with the truth
    logits = torch.tensor([[0.4, -0.7]])
    soft = LossConfig(soft_scores=True)
    recognized = Recognized(boxes, logits, torch.zeros(1, 2, 4), boxes, boxes[0])
    sample.boxes_xyxy[:] = boxes
    found = final_losses(recognized, sample, None, make_truths(), soft)["final_score"]
    assert float(found) == pytest.approx((logistic(0.4, 0.5) + logistic(-0.7, 0)) / 2)


def word_logits(*rows: list[float]) -> torch.Tensor:
    return torch.tensor([rows])


def loss_of(
    logits: torch.Tensor,
    words: torch.Tensor,
    photos: list[int],
    count: int,
    config: LossConfig,
    weights: tuple[float, ...] | None = None,
) -> torch.Tensor:
    """The loss of captions whose logits (R, T, V) are all at hand."""
    counted = counted_words(words, config)
    owners = torch.tensor(photos, dtype=torch.long)
    weighed = torch.ones(len(photos)) if weights is None else torch.tensor(weights)
    captions = CaptionTargets(owners, owners, words, words, counted, weighed)
    return caption_loss(logits[counted], captions, count, config)


def test_caption_loss_by_hand_ends_with_end():
    """Words 2, END; whatever comes after END is not looked at."""
    logits = word_logits([0, 0, 1.0], [2.0, 0, 0], [50.0, -50, 50])
    words = torch.tensor([[2, END, END]])
    first = -1 + math.log(2 + math.e)
    second = -2 + math.log(2 + math.e**2)
    found = loss_of(logits, words, [0], 1, PAPER)
    assert float(found) == pytest.approx((first + second) / 2)
    summed = loss_of(logits, words, [0], 1, LossConfig(sum_over_time=True))
    assert float(summed) == pytest.approx(first + second)


def test_unknown_words_can_be_left_out():
    logits = word_logits([0, 9.0, 1.0], [2.0, 0, 0], [0.0, 0, 0])
    words = torch.tensor([[UNKNOWN, 2, END]])
    found = loss_of(logits, words, [0], 1, LossConfig(ignore_unknown=True))
    second, third = math.log(2 + math.e**2), math.log(3)
    assert float(found) == pytest.approx((second + third) / 2)


def test_captions_are_averaged_over_photos():
    """Photo 0 has two captions, photo 1 one, photo 2 none."""
    logits = torch.zeros(3, 2, 4)
    logits[2, :, 3] = 5.0
    words = torch.tensor([[2, END], [2, END], [3, END]])
    even = math.log(4)
    good = -5 + math.log(3 + math.e**5)
    bad = math.log(3 + math.e**5)
    found = loss_of(logits, words, [0, 0, 1], 3, PAPER)
    assert float(found) == pytest.approx((even + (good + bad) / 2 + 0) / 3)


def test_a_caption_counts_as_much_as_its_weight():
    logits = torch.zeros(2, 2, 4)
    logits[1, :, 3] = 5.0
    words = torch.tensor([[2, END], [3, END]])
    first, second = (loss_of(logits[n : n + 1], words[n : n + 1], [0], 1, PAPER) for n in (0, 1))
    found = loss_of(logits, words, [0, 0], 1, PAPER, (0.5, 3.0))
    assert float(found) == pytest.approx(float(0.5 * first + 3 * second) / 2)


def test_no_captions_no_loss_and_a_gradient_all_the_same():
    logits = torch.zeros(0, 2, 4, requires_grad=True)
    loss = loss_of(logits, torch.zeros(0, 2, dtype=torch.long), [], 2, PAPER)
    loss.backward()
    assert float(loss.detach()) == 0
    assert logits.grad is not None


def test_paired_iou():
    a = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 10]]])
    b = torch.tensor([[[0.0, 0, 10, 10], [5, 0, 15, 10]]])
    assert paired_iou(a, b).tolist() == [pytest.approx([1, 1 / 3])]
