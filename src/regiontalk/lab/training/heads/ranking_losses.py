"""Ranking losses: a photo's own sentences should score higher than those of others.

`scores` is (K photos, L sentences); `owners` (L,) says which photo of the batch a sentence belongs
to. With one sentence for every photo these are the K&FF paper's sums over k and l.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

EXCLUDED_SCORE = -1e4  # in place of a score that must not count


def margin_loss(scores: Tensor, owners: Tensor, margin: float, hardest: bool) -> Tensor:
    """Eq. 9, the mean over pairs instead of the sum. `hardest`, which differs from the paper: only
    the worst offender of each sum counts.
    """
    is_own, pairs = _own(scores, owners)
    images = F.relu(margin + scores - pairs[None, :]).masked_fill(
        is_own, 0
    )  # (K, L): other photos of a sentence
    rows = scores[owners]  # (L, L): what each pair's photo scores with every sentence
    sentences = F.relu(margin + rows - pairs[:, None]).masked_fill(is_own[owners], 0)
    if hardest:
        return images.amax(dim=0).mean() + sentences.amax(dim=1).mean()
    return (images.sum() + sentences.sum()) / len(owners)


def contrastive_loss(scores: Tensor, owners: Tensor, scale: Tensor) -> Tensor:
    """Differs from the paper: cross entropy of the right photo among all, and of each own sentence
    among those of other photos, with scores multiplied by `scale`.
    """
    logits = scores * scale
    is_own, _ = _own(scores, owners)
    images = F.cross_entropy(logits.T, owners)
    number = torch.arange(len(owners), device=owners.device)
    others = is_own[owners] & (
        number[:, None] != number
    )  # the photo's further sentences are no mistakes
    sentences = F.cross_entropy(logits[owners].masked_fill(others, EXCLUDED_SCORE), number)
    return (images + sentences) / 2


def matching_loss(scores: Tensor, matches: Tensor, scale: Tensor, smoothing: float) -> Tensor:
    """Differs from the paper: cross entropy of each row's and of each column's matches among all,
    with scores (K, L) multiplied by `scale`; `matches` (K, L) says which pairs belong together.

    Where something has several matches, each is as right as the others. With `smoothing`, this
    share of the target is spread evenly over all. Rows and columns without a match are left out.
    """
    logits = scores * scale
    halves = [
        _cross_entropy(direction, targets, smoothing)
        for direction, targets in ((logits, matches), (logits.T, matches.T))
    ]
    return (halves[0] + halves[1]) / 2


def _cross_entropy(logits: Tensor, matches: Tensor, smoothing: float) -> Tensor:
    counted = matches.any(dim=1)
    targets = matches[counted].to(logits.dtype)
    targets = targets / targets.sum(dim=1, keepdim=True)
    return F.cross_entropy(logits[counted], targets, label_smoothing=smoothing)


def _own(scores: Tensor, owners: Tensor) -> tuple[Tensor, Tensor]:
    """(K, L) whether a sentence is the photo's own, and (L,) the scores of the right pairs."""
    is_own = torch.arange(len(scores), device=owners.device)[:, None] == owners
    return is_own, scores[owners, torch.arange(len(owners), device=owners.device)]
