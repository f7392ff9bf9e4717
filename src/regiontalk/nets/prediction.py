"""The FCLN in use, for batches of photos in one go (DenseCap 3.1.2, test time): all on the net's device.

Shapes: N photos, K proposals, B regions a photo, T words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.gpu import Graphed, prepare, to_cpu
from regiontalk.nets.localization import Record, Suppression, as_it_is, clip_boxes, gather_boxes
from regiontalk.vocabulary import END


@dataclass(frozen=True)
class Predicted:
    """The regions of one photo, by falling score."""

    boxes_xyxy: Tensor  # (B, 4) in input pixels
    scores: Tensor  # (B,) probabilities
    tokens: Tensor  # (B, T)
    logprobs: Tensor  # (B,)


@dataclass(frozen=True)
class Described:
    """What the net says of the chosen proposals of a batch, before the last suppression."""

    boxes_xyxy: Tensor  # (N, B, 4) refined, in input pixels
    logits: Tensor  # (N, B) the recognition network's
    proposal_logits: Tensor  # (N, B)
    tokens: Tensor  # (N, B, T)
    logprobs: Tensor  # (N, B)
    counts: Tensor  # (N,) how many regions of each photo are meant


class Predictor:
    """Drives a net through its stages: find, choose, describe, rank.

    On a GPU the net is made ready for use in place (`gpu.prepare`), and `graphed` replays the stages as CUDA
    graphs, one per input shape.
    """

    def __init__(self, net: FCLN, start: int, config: PredictionConfig, graphed: bool = False) -> None:
        self.net, self.start, self.config = net, start, config
        self.device = next(net.parameters()).device
        if self.device.type == "cuda":
            prepare(net)
        record: Record = Graphed if graphed else as_it_is
        self.find, self.read = record(self._find), record(self._read)
        self.choose = Suppression(config.proposal_nms, config.proposals, record)
        self.rank = Ranking(config, record)

    def __call__(self, images: Tensor, sizes: Tensor) -> list[Predicted]:
        """Images (N, 3, H, W) with photos of `sizes` (N, 2) = (width, height) inside."""
        return self.rank(self.describe(images, sizes))

    @torch.inference_mode()
    def describe(self, images: Tensor, sizes: Tensor) -> Described:
        """Everything about the best proposals of each photo."""
        features, boxes, logits = self.find(images, sizes)
        index, counts = self.choose(boxes)
        refined, final_logits, tokens, logprobs = self.read(features, sizes, gather_boxes(boxes, index))
        return Described(refined, final_logits, logits.gather(1, index), tokens, logprobs, counts)

    @torch.inference_mode()
    def proposals(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """The chosen proposals (N, B, 4) and how many of them count (N,): what recall is measured on."""
        _, boxes, _ = self.find(images, sizes)
        index, counts = self.choose(boxes)
        return gather_boxes(boxes, index), counts

    @torch.inference_mode()
    def caption_boxes(self, images: Tensor, sizes: Tensor, boxes_xyxy: Tensor, counts: Tensor) -> list[Predicted]:
        """Captions of given boxes (N, B, 4), of which the first `counts` (N,) of each photo are meant."""
        with self._autocast():
            features = self.net.backbone(images)
        _, logits, tokens, logprobs = self._read(features, sizes, boxes_xyxy)
        scores = with_captions(torch.sigmoid(logits), tokens, logprobs, self.config.caption_weight)
        return [
            Predicted(boxes_xyxy[n, :count], scores[n, :count], tokens[n, :count], logprobs[n, :count])
            for n, count in enumerate(counts.tolist())
        ]

    def _find(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, ...]:
        """Features, and the best proposals cut to the photo (N, K', 4) with their logits (N, K'), best first."""
        with self._autocast():
            features, proposals = self.net.propose(images)
        count = min(self.config.candidates, proposals.logits.shape[1])
        logits, index = torch.topk(proposals.logits, count, dim=1)
        return features, clip_boxes(gather_boxes(proposals.boxes_xyxy, index), sizes), logits

    def _read(self, features: Tensor, sizes: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
        """Refined boxes (N, B, 4), logits (N, B), captions (N, B, T) and their log-probabilities (N, B)."""
        with self._autocast():
            recognized = self.net.recognize(features, sizes, boxes)
            seen = self.net.see(recognized, sizes, boxes)
            tokens, logprobs = self.net.language.greedy(seen, self.start, self.config.longest)
        shape = boxes.shape[:2]
        refined = clip_boxes(recognized.boxes_xyxy, sizes)
        return refined, recognized.logits, tokens.view(*shape, -1), logprobs.view(shape)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False)


def with_captions(scores: Tensor, tokens: Tensor, logprobs: Tensor, weight: float) -> Tensor:
    """Scores lowered where the caption's words are unsure."""
    words = (tokens != END).sum(dim=-1) + 1  # END was predicted too
    return scores * torch.exp(weight * logprobs / words)


class Ranking:
    """The last suppression: each photo's regions by falling score, on the CPU."""

    def __init__(self, config: PredictionConfig, record: Record = as_it_is) -> None:
        self.config = config
        self._sort = record(self._by_falling_score)
        self._suppress = Suppression(config.final_nms, config.proposals, record)

    @torch.inference_mode()
    def __call__(self, described: Described) -> list[Predicted]:
        *columns, meant = self._sort(*(getattr(described, item.name) for item in fields(Described)))
        places, kept = self._suppress(columns[0])
        *columns, meant, places, kept = to_cpu(*columns, meant, places, kept)
        counted = torch.arange(places.shape[1]) < kept[:, None]
        counts = (counted & (places < meant[:, None])).sum(dim=1)  # places rise, and what is not meant stands last
        photos = torch.arange(len(places))[:, None]
        columns = [column[photos, places] for column in columns]
        return [Predicted(*(column[n, :count] for column in columns)) for n, count in enumerate(counts.tolist())]

    def _by_falling_score(
        self, boxes: Tensor, logits: Tensor, proposal_logits: Tensor, tokens: Tensor, logprobs: Tensor, counts: Tensor
    ) -> tuple[Tensor, ...]:
        """The fields of `Predicted` for all regions, and how many of each photo are meant: the first ones."""
        scores = torch.sigmoid(logits)
        if self.config.score == "product":
            scores = scores * torch.sigmoid(proposal_logits)
        scores = with_captions(scores, tokens, logprobs, self.config.caption_weight)
        meant = counts.clamp(max=self.config.proposals)
        filling = torch.arange(scores.shape[1], device=scores.device) >= meant[:, None]
        scores, order = torch.sort(scores.masked_fill(filling, -1.0), dim=1, descending=True, stable=True)
        tokens = tokens.gather(1, order[..., None].expand_as(tokens))
        return gather_boxes(boxes, order), scores, tokens, logprobs.gather(1, order), meant


def rank(described: Described, config: PredictionConfig) -> list[Predicted]:
    """Each photo's regions after the last suppression."""
    return Ranking(config)(described)
