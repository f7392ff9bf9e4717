"""The five losses (DenseCap 3.2), each a mean over photos of a mean over regions, as a named dict.

Shapes: N photos, B sampled regions, R captioned regions, T words, V tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from regiontalk.lab.nets.fcln import Recognized
from regiontalk.lab.nets.localization import (
    LearnedProposals,
    box_iou,
    encode_boxes,
    gather_boxes,
    to_cxcywh,
)
from regiontalk.lab.training.detector.targets import CaptionTargets, Sample, Truths
from regiontalk.lab.training.recipe.detector import LossConfig
from regiontalk.language.vocabulary import END, UNKNOWN


def proposal_losses(
    proposals: LearnedProposals, sample: Sample, truths: Truths, config: LossConfig
) -> dict[str, Tensor]:
    """Scores and boxes of the localization layer."""
    true_boxes = gather_boxes(truths.boxes_xyxy, sample.truth)
    anchors = gather_boxes(proposals.anchors_cxcywh.expand_as(proposals.boxes_xyxy), sample.index)
    transforms = gather_boxes(proposals.transforms, sample.index)
    iou = paired_iou(gather_boxes(proposals.boxes_xyxy.detach(), sample.index), true_boxes)
    losses = {
        "proposal_score": score_loss(proposals.logits.gather(1, sample.index), sample, iou, config),
        "proposal_box": box_loss(
            transforms, encode_boxes(anchors, true_boxes), sample.positive, config
        ),
    }
    if config.transform_decay:
        losses["transform_decay"] = proposals.transforms.float().square().sum(dim=(1, 2)).mean() / 2
    return losses


def final_losses(
    recognized: Recognized,
    sample: Sample,
    at_inference: Sample | None,
    truths: Truths,
    config: LossConfig,
) -> dict[str, Tensor]:
    """Scores and boxes of the recognition network. Its first regions are the sample; its last are
    the proposals `at_inference`, where there are some, and scores then learn from those."""
    sampled = slice(0, sample.index.shape[1])
    targets = encode_boxes(
        to_cxcywh(sample.boxes_xyxy.detach()), gather_boxes(truths.boxes_xyxy, sample.truth)
    )
    scored = sample
    rows = sampled
    if at_inference is not None:
        scored = at_inference
        rows = slice(recognized.logits.shape[1] - at_inference.index.shape[1], None)
    iou = paired_iou(
        recognized.boxes_xyxy[:, rows].detach(), gather_boxes(truths.boxes_xyxy, scored.truth)
    )
    return {
        "final_score": score_loss(recognized.logits[:, rows], scored, iou, config),
        "final_box": box_loss(recognized.transforms[:, sampled], targets, sample.positive, config),
    }


def score_loss(logits: Tensor, sample: Sample, iou: Tensor, config: LossConfig) -> Tensor:
    """Logistic loss of (N, B) scores."""
    target = sample.positive.to(logits.dtype)
    if config.soft_scores:
        target = target * iou
    loss = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    negative = sample.used & ~sample.positive
    if config.separate_means:
        return mean_over_photos(loss, sample.positive) + mean_over_photos(loss, negative)
    return mean_over_photos(loss, sample.used)


def box_loss(transforms: Tensor, targets: Tensor, positive: Tensor, config: LossConfig) -> Tensor:
    """Smooth L1 of (N, B, 4) in transform space, over positives."""
    if config.largest_target is not None:
        positive = positive & (targets.abs() <= config.largest_target).all(dim=2)
    loss = F.smooth_l1_loss(
        transforms,
        torch.where(positive[..., None], targets, 0.0),
        reduction="none",
        beta=config.smooth_l1_beta,
    )
    return mean_over_photos(loss.sum(dim=2), positive)


def counted_words(words: Tensor, config: LossConfig) -> Tensor:
    """Which words (R, T) of captions, padded with END, are targets: all of them and the first
    END."""
    following = words == END
    counted = ~(following.cumsum(dim=1) > following)
    return counted & (words != UNKNOWN) if config.ignore_unknown else counted


def caption_loss(
    word_logits: Tensor, captions: CaptionTargets, count: int, config: LossConfig
) -> Tensor:
    """Cross entropy of (W, V) against the counted words of the captions.

    Mean over the words of a caption, then over a photo's captions, each as often as its weight
    says, then over the `count` photos.
    """
    words = captions.words
    counted = captions.counted
    photos = captions.photos
    per_word = F.cross_entropy(word_logits.float(), words[counted], reduction="none")
    loss = torch.zeros(words.shape, dtype=per_word.dtype, device=words.device)
    loss = loss.masked_scatter(counted, per_word).sum(dim=1)
    if not config.sum_over_time:
        loss = loss / counted.sum(dim=1).clamp(min=1)
    regions = torch.zeros(count, device=loss.device).index_add(0, photos, torch.ones_like(loss))
    return (captions.weights * loss / regions.clamp(min=1)[photos]).sum() / count


def mean_over_photos(values: Tensor, counted: Tensor) -> Tensor:
    """Mean over the counted regions of each photo, then over the photos: (N, B) -> ()."""
    weights = counted.to(values.dtype)
    return ((values * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)).mean()


def paired_iou(a_xyxy: Tensor, b_xyxy: Tensor) -> Tensor:
    """IoU of boxes one by one: (N, B, 4) twice -> (N, B)."""
    shape = a_xyxy.shape[:2]
    return box_iou(a_xyxy.reshape(-1, 1, 4), b_xyxy.reshape(-1, 1, 4)).view(shape)
