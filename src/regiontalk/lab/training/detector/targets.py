"""Which proposals are learned from (DenseCap 3.1.2, "box sampling"), for a whole batch at once.

Shapes: N photos, K proposals, G true regions (padded), B sampled regions, all static: a sample that
could not be filled says so in `used`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regiontalk.lab.nets.localization import (
    LearnedProposals,
    Proposals,
    Suppression,
    box_iou,
    clip_boxes,
    decode_boxes,
    gather_boxes,
)
from regiontalk.lab.training.recipe.detector import ProposalSamplerConfig, SamplerConfig
from regiontalk.models.settings import PredictionConfig

CANDIDATES_FOR_ONE = (
    28  # measured on a trained net: NMS leaves one of this many of the best proposals
)


@dataclass(frozen=True)
class Truths:
    """The true regions of a batch, padded to the same number."""

    boxes_xyxy: Tensor  # (N, G, 4)
    valid: Tensor  # (N, G) bool
    tokens: Tensor  # (N, G, T) words, then END
    starts: Tensor  # (N, G) START tokens
    weights: Tensor  # (N, G) how much the caption of each counts


@dataclass(frozen=True)
class Sample:
    """The regions sampled from the proposals of a batch."""

    index: Tensor  # (N, B) into the proposals
    boxes_xyxy: Tensor  # (N, B, 4); gradients flow on to the proposals
    positive: Tensor  # (N, B) bool
    used: Tensor  # (N, B) bool: positive or negative, not padding
    truth: Tensor  # (N, B) the true region that each overlaps most


@dataclass(frozen=True)
class CaptionTargets:
    """The captioned regions of a batch."""

    rows: Tensor  # (R,) into the batch's regions, photo after photo
    photos: Tensor  # (R,)
    fed: Tensor  # (R, T) START and words
    words: Tensor  # (R, T) words and END
    counted: Tensor  # (R, T) which of the words are targets
    weights: Tensor  # (R,) how much each counts


def random_keys(seeds: Sequence[int], count: int, device: torch.device) -> Tensor:
    """(N, count) uniform numbers, each photo's from its own seed: the same however a batch is
    split."""
    generators = (torch.Generator(device=device).manual_seed(seed) for seed in seeds)
    return torch.stack(
        [torch.rand(count, generator=generator, device=device) for generator in generators]
    )


def sample_proposals(
    proposals: Proposals,
    truths: Truths,
    sizes: Tensor,
    seeds: Sequence[int],
    config: ProposalSamplerConfig,
) -> Sample:
    """Regions among the predicted boxes."""
    boxes = clip_boxes(proposals.boxes_xyxy, sizes) if config.clip else proposals.boxes_xyxy
    if not config.box_gradients:
        boxes = boxes.detach()
    return sample_boxes(boxes, proposals.logits, truths, sizes, seeds, config)


def sample_truths(truths: Truths, seeds: Sequence[int], count: int) -> Sample:
    """True regions as they are, `count` of each photo at most: what a net without proposals learns
    from."""
    keys = random_keys(seeds, truths.valid.shape[1], truths.valid.device).masked_fill(
        ~truths.valid, -1.0
    )
    index = torch.topk(keys, min(count, keys.shape[1]), dim=1).indices
    used = truths.valid.gather(1, index)
    return Sample(index, gather_boxes(truths.boxes_xyxy, index), used, used, index)


def sample_anchors(
    proposals: LearnedProposals,
    truths: Truths,
    sizes: Tensor,
    seeds: Sequence[int],
    config: SamplerConfig,
) -> Sample:
    """Proposals by the overlaps of their anchors with the true boxes."""
    anchors = proposals.anchors_cxcywh
    boxes = decode_boxes(anchors, torch.zeros_like(anchors)).expand_as(proposals.boxes_xyxy)
    boxes = clip_boxes(boxes, sizes) if config.clip else boxes
    return sample_boxes(boxes, proposals.logits, truths, sizes, seeds, config)


def inference_proposals(
    proposals: Proposals,
    truths: Truths,
    sizes: Tensor,
    config: ProposalSamplerConfig,
    prediction: PredictionConfig,
) -> Sample:
    """The best proposals, chosen as at inference; each is positive or negative, none is left
    out."""
    with torch.no_grad():
        count = min(
            prediction.candidates,
            config.inference_proposals * CANDIDATES_FOR_ONE,
            proposals.logits.shape[1],
        )
        order = torch.topk(proposals.logits, count, dim=1).indices
        boxes = clip_boxes(gather_boxes(proposals.boxes_xyxy, order), sizes)
        places, counts = Suppression(prediction.proposal_nms, config.inference_proposals)(boxes)
        boxes = gather_boxes(boxes, places)
        overlap = box_iou(boxes, truths.boxes_xyxy).masked_fill(
            ~truths.valid[:, None, :], -1.0
        )  # (N, B, G)
        iou, truth = overlap.max(dim=2)
        used = torch.arange(boxes.shape[1], device=boxes.device) < counts[:, None]
    positive = used & (iou >= config.positive_iou)
    return Sample(order.gather(1, places), boxes, positive, used, truth)


def sample_boxes(
    boxes: Tensor,
    logits: Tensor,
    truths: Truths,
    sizes: Tensor,
    seeds: Sequence[int],
    config: SamplerConfig,
) -> Sample:
    """Samples at most half positives, the rest negatives, drawn without replacement from boxes (N,
    K, 4)."""
    count = boxes.shape[1]
    keys = random_keys(seeds, 2 * count + truths.valid.shape[1], boxes.device)
    positive_keys = keys[:, :count]
    negative_keys = keys[:, count : 2 * count]
    tie_keys = keys[:, 2 * count :]
    with torch.no_grad():
        overlap = box_iou(boxes.detach(), truths.boxes_xyxy)  # (N, K, G)
        overlap = overlap.masked_fill(~truths.valid[:, None, :], -1.0)
        iou = overlap.amax(dim=2).clamp(min=0)
        # several phrases on one box: each is as likely as the others
        truth = (overlap + 1e-4 * tie_keys[:, None, :]).argmax(dim=2)
        positive, negative = label(overlap, iou, boxes.detach(), truths, sizes, config)
        weights = (
            balancing_weights(positive, truth, truths) if config.balance else torch.zeros_like(iou)
        )
        chosen_positive, is_positive = draw(positive, weights, positive_keys, config.regions // 2)
        hard = config.hardness * logits.detach()
        chosen_negative, is_negative = draw(negative, hard, negative_keys, config.regions)
        rank = torch.cat([is_positive * 2, is_negative * 1], dim=1)
        best = torch.sort(rank, dim=1, descending=True, stable=True)
        kind = best.values[:, : config.regions]
        places = best.indices[:, : config.regions]
        index = torch.cat([chosen_positive, chosen_negative], dim=1).gather(1, places)
    return Sample(index, gather_boxes(boxes, index), kind == 2, kind > 0, truth.gather(1, index))


def balancing_weights(positive: Tensor, truth: Tensor, truths: Truths) -> Tensor:
    """Log-weights (N, K) that give every true region the same chance."""
    zeros = torch.zeros(truths.valid.shape, device=truth.device)
    shares = zeros.scatter_add(1, truth, positive.to(zeros.dtype))
    return -torch.log(shares.gather(1, truth).clamp(min=1))


def label(
    overlap: Tensor,
    iou: Tensor,
    boxes: Tensor,
    truths: Truths,
    sizes: Tensor,
    config: SamplerConfig,
) -> tuple[Tensor, Tensor]:
    """Positive: IoU ≥ 0.7, or the best box of a true region. Negative: IoU < 0.3 with all of them.
    (N, K) each."""
    best_iou, best = overlap.max(dim=1)  # (N, G)
    counts = truths.valid & (best_iou >= config.best_iou)  # padding hits nothing
    hits = torch.zeros_like(iou).scatter_add(1, best, counts.to(iou.dtype))
    is_best = hits > 0
    positive = iou >= config.positive_iou
    negative = iou < config.negative_iou
    if config.drop_crossing:
        inside = (boxes[..., :2] >= 0).all(dim=2) & (boxes[..., 2:] <= sizes[:, None, :]).all(dim=2)
        positive = positive & inside
        negative = negative & inside
    return positive | is_best, negative & ~is_best


def draw(
    allowed: Tensor, log_weights: Tensor, uniform: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """`count` of the allowed without replacement, by weight (Gumbel's trick): their indices, and
    which are valid."""
    gumbel = -torch.log(-torch.log(uniform.clamp(1e-7, 1 - 1e-6)))
    keys = (log_weights + gumbel).masked_fill(~allowed, -torch.inf)
    top = torch.topk(keys, min(count, keys.shape[1]), dim=1)
    return top.indices, torch.isfinite(top.values)
