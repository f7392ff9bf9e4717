"""Self-critical sequence training of the captions (Rennie et al. 2017, "Self-critical Sequence Training for Image
Captioning"). Differs from the papers.

Cross entropy teaches a word given the true words before it. Here the language model says captions of its own, drawn at
random, and those become likelier that have more in common with the region's phrases than the others drawn for it.

Shapes: R regions, K captions drawn for each, L words of a drawn caption, G phrases of a photo, T words of a phrase.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from regiontalk.nets.language import LanguageModel
from regiontalk.nets.localization import box_iou
from regiontalk.training.detector.targets import Truths
from regiontalk.training.recipe.detector import RewardConfig
from regiontalk.vocabulary import END, UNKNOWN, Vocabulary

SAME_REGION = 0.7  # IoU from which on two true boxes have their phrases in common, as in the evaluation
BETA, GAMMA, DELTA = 0.2, 0.6, 0.75  # METEOR 1.5: Denkowski & Lavie 2014


def reward_loss(
    language: LanguageModel,
    seen: Tensor,
    truths: Truths,
    photos: Tensor,
    numbers: Tensor,
    words: Vocabulary,
    config: RewardConfig,
    longest: int,
) -> Tensor:
    """What `seen` (R, E) shows is true region `numbers` (R,) of `photos` (R,); regions whose phrase is in another style
    than captions are left out, and no more than `config.regions` are taken.

    -(r_k - mean of the other rewards) · log p(caption k), the mean over captions and regions, each of which counts as
    much as its weight says.
    """
    asked = truths.plain[photos, numbers].nonzero()[:, 0]
    asked = asked[torch.randperm(len(asked), device=asked.device)[: config.regions]]
    if not len(asked):
        return 0.0 * seen.sum()
    photos, numbers = photos[asked], numbers[asked]
    shown = seen[asked].repeat_interleave(config.samples, dim=0)  # (R·K, E)
    start = torch.full((len(shown),), words.start(), device=shown.device)
    drawn = draw_captions(language, shown.detach(), start, longest)  # (R·K, L)
    boxes = truths.boxes_xyxy[photos]
    own = boxes.gather(1, numbers[:, None, None].expand(-1, 1, 4))
    same = (box_iou(own, boxes)[:, 0] >= SAME_REGION) & (truths.valid & truths.plain)[photos]  # (R, G)
    is_content = torch.zeros(len(words), device=shown.device)
    is_content[list(words.content_tokens)] = 1.0
    scores = meteor(drawn.view(len(asked), config.samples, -1), truths.tokens[photos], is_content, config.recall)
    rewards = scores.masked_fill(~same[:, None, :], 0.0).amax(dim=2)  # (R, K)
    advantage = (rewards - rewards.mean(dim=1, keepdim=True)) * (config.samples / (config.samples - 1))
    advantage = advantage * truths.weights[photos, numbers][:, None]
    return -(advantage.flatten() * log_probability(language, shown, start, drawn)).mean()


@torch.no_grad()
def draw_captions(language: LanguageModel, seen: Tensor, start: Tensor, longest: int) -> Tensor:
    """Captions drawn word by word, (R, L), filled up with END."""
    h, c = language.begin(seen)
    token, ended, drawn = start, torch.zeros_like(start, dtype=torch.bool), []
    for _ in range(longest):
        log_probabilities, h, c = language.step(token, h, c, seen)
        probabilities = log_probabilities.exp()
        probabilities[:, UNKNOWN] = 0.0
        token = torch.multinomial(probabilities, 1)[:, 0].masked_fill(ended, END)
        ended = ended | (token == END)
        drawn.append(token)
    return torch.stack(drawn, dim=1)


def log_probability(language: LanguageModel, seen: Tensor, start: Tensor, captions: Tensor) -> Tensor:
    """log p of each caption (R, L), its first END included; (R,)."""
    closed = captions == END
    counted = ~(closed.cumsum(dim=1) > closed)
    logits = language(seen, torch.cat([start[:, None], captions[:, :-1]], dim=1), counted)
    found = torch.zeros(captions.shape, device=captions.device)
    return found.masked_scatter(counted, -F.cross_entropy(logits.float(), captions[counted], reduction="none")).sum(1)


def meteor(captions: Tensor, phrases: Tensor, is_content: Tensor, recall_weight: float) -> Tensor:
    """METEOR's score (R, K, G) of captions (R, K, L) against phrases (R, G, T), where words match that are the same:
    stems, synonyms and paraphrases do not count. `is_content` (V,) is 1 for content words, 0 for function words.

    The n-th "dog" of a caption matches the n-th "dog" of a phrase.
    """
    weight = torch.where(is_content > 0, DELTA, 1 - DELTA)
    said, written = captions != END, phrases != END
    caption_weights, phrase_weights = weight[captions] * said, weight[phrases] * written
    same = captions[:, :, None, :, None] == phrases[:, None, :, None, :]  # (R, K, G, L, T)
    turn = _turns(captions)[:, :, None, :, None] == _turns(phrases)[:, None, :, None, :]
    match = (same & turn & said[:, :, None, :, None] & written[:, None, :, None, :]).float()
    weighed = (match * caption_weights[:, :, None, :, None]).sum(dim=(3, 4))  # (R, K, G)
    precision = weighed / caption_weights.sum(dim=2)[:, :, None].clamp(min=1e-6)
    recall = weighed / phrase_weights.sum(dim=2)[:, None, :].clamp(min=1e-6)
    matches = match.sum(dim=(3, 4))
    chunks = matches - (match[..., :-1, :-1] * match[..., 1:, 1:]).sum(dim=(3, 4))
    perfect = (chunks == 1) & (matches == said.sum(dim=2)[:, :, None]) & (matches == written.sum(dim=2)[:, None, :])
    fragmentation = torch.where(perfect, 0.0, chunks / matches.clamp(min=1))
    mean = precision * recall / (recall_weight * precision + (1 - recall_weight) * recall).clamp(min=1e-6)
    return mean * (1 - GAMMA * fragmentation**BETA)


def _turns(tokens: Tensor) -> Tensor:
    """For each token how many of the same came before it: (..., L) -> (..., L)."""
    same = tokens[..., :, None] == tokens[..., None, :]
    return torch.tril(same, diagonal=-1).sum(dim=-1)
