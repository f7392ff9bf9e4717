"""Ranking losses against their definitions, written out as loops."""

from __future__ import annotations

import math

import pytest
import torch

from regiontalk.lab.training.heads.ranking_losses import (
    contrastive_loss,
    margin_loss,
    matching_loss,
)

OWNERS = torch.tensor([0, 0, 1, 2])


def random_scores(photos: int = 3, sentences: int = 4) -> torch.Tensor:
    return torch.randn(photos, sentences, generator=torch.Generator().manual_seed(5))


def hinges(
    scores: torch.Tensor, owners: torch.Tensor, margin: float
) -> tuple[list[list[float]], list[list[float]]]:
    """For each pair its mistakes with other photos and with other photos' sentences."""
    images, sentences = [], []
    for sentence, photo in enumerate(owners.tolist()):
        own = float(scores[photo, sentence])
        images.append(
            [
                max(0.0, margin + float(scores[k, sentence]) - own)
                for k in range(len(scores))
                if k != photo
            ]
        )
        others = [n for n, owner in enumerate(owners.tolist()) if owner != photo]
        sentences.append([max(0.0, margin + float(scores[photo, n]) - own) for n in others])
    return images, sentences


@pytest.mark.parametrize("owners", [OWNERS, torch.tensor([0, 1, 2])])
def test_eq_9(owners: torch.Tensor) -> None:
    scores = random_scores(3, len(owners))
    images, sentences = hinges(scores, owners, 1.0)
    expected = sum(map(sum, images + sentences)) / len(owners)
    assert float(margin_loss(scores, owners, 1.0, hardest=False)) == pytest.approx(
        expected, abs=1e-5
    )


def test_the_hardest_mistakes_alone() -> None:
    scores = random_scores()
    images, sentences = hinges(scores, OWNERS, 0.5)
    expected = sum(map(max, images)) / 4 + sum(map(max, sentences)) / 4
    assert float(margin_loss(scores, OWNERS, 0.5, hardest=True)) == pytest.approx(
        expected, abs=1e-5
    )


def test_no_loss_where_all_is_well() -> None:
    scores = torch.full((3, 4), -5.0)
    scores[OWNERS, torch.arange(4)] = 5.0
    assert float(margin_loss(scores, OWNERS, 1.0, hardest=False)) == 0
    assert float(contrastive_loss(scores, OWNERS, torch.tensor(3.0))) < 1e-6


def test_contrastive() -> None:
    scores, scale = random_scores(), 2.0
    total = 0.0
    for sentence, photo in enumerate(OWNERS.tolist()):
        own = math.exp(scale * scores[photo, sentence])
        images = sum(math.exp(scale * scores[k, sentence]) for k in range(3))
        others = sum(math.exp(scale * scores[photo, n]) for n in range(4) if OWNERS[n] != photo)
        total -= math.log(own / images) + math.log(own / (own + others))
    found = contrastive_loss(scores, OWNERS, torch.tensor(scale))
    assert float(found) == pytest.approx(total / 8, abs=1e-5)


def test_matches_of_one_sentence_a_photo_are_the_contrastive_loss() -> None:
    scores = random_scores(3, 3)
    owners = torch.arange(3)
    scale = torch.tensor(4.0)
    expected = contrastive_loss(scores, owners, scale)
    torch.testing.assert_close(matching_loss(scores, torch.eye(3).bool(), scale, 0.0), expected)


def test_several_matches_are_equally_right() -> None:
    """Two boxes are called by the first of two names, none by the second, and a third box by
    neither."""
    scores = random_scores(3, 2)
    matches = torch.tensor([[True, False], [True, False], [False, False]])
    by_name = scores.log_softmax(dim=1)[:2, 0]
    by_box = scores.log_softmax(dim=0)[:2, 0]
    expected = -(by_name.mean() + by_box.mean()) / 2
    found = matching_loss(scores, matches, torch.tensor(1.0), 0.0)
    torch.testing.assert_close(found, expected)


def test_smoothing_spreads_a_share_of_the_target() -> None:
    scores = random_scores(4, 4)
    log_probabilities = scores.log_softmax(dim=1), scores.log_softmax(dim=0)
    targets = 0.9 * torch.eye(4) + 0.1 / 4
    expected = -sum((targets * each).sum() / 4 for each in log_probabilities) / 2
    found = matching_loss(scores, torch.eye(4).bool(), torch.tensor(1.0), 0.1)
    torch.testing.assert_close(found, torch.as_tensor(expected))
