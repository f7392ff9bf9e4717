"""The FCLN in use, for batches of photos in one go (DenseCap 3.1.2, test time): all on the net's device.

Shapes: N photos, K proposals, B regions a photo, T words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regiontalk.nets.fcln import FCLN, Recognized
from regiontalk.nets.localization import clip_boxes, suppress
from regiontalk.vocabulary import END

Stage = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class PredictionConfig:
    """How regions are chosen in use; to be chosen on dev. The defaults are the paper's and the release's."""

    proposals: int = 300
    candidates: int = 6000
    """So many of the best proposals go into suppression."""
    proposal_nms: float = 0.7
    final_nms: float = 0.3
    longest: int = 15
    """Words in a caption, at most."""
    score: str = "final"
    """`final`: the recognition network's score. `product`: times the proposal's."""
    caption_weight: float = 0.0
    """The score is multiplied with exp(this · mean log-probability of the caption's words)."""


@dataclass(frozen=True)
class Predicted:
    """The regions of one photo, by falling score."""

    boxes_xyxy: Tensor  # (B, 4) in input pixels
    scores: Tensor  # (B,) probabilities
    tokens: Tensor  # (B, T)
    logprobs: Tensor  # (B,)


class Predictor:
    """Drives a net through its three stages; `graphed` replays them as CUDA graphs, one per input shape."""

    def __init__(self, net: FCLN, start: int, config: PredictionConfig, graphed: bool = False) -> None:
        self.net, self.start, self.config = net, start, config
        self._find: Stage = Graphed(self._find_candidates) if graphed else self._find_candidates
        self._describe: Stage = Graphed(self._recognize_and_caption) if graphed else self._recognize_and_caption

    @torch.inference_mode()
    def __call__(self, images: Tensor, sizes: Tensor) -> list[Predicted]:
        """Images (N, 3, H, W) with photos of `sizes` (N, 2) = (width, height) inside."""
        features, boxes, logits = self._find(images, sizes)
        index, counts = suppress(boxes, logits, self.config.proposal_nms, self.config.proposals)
        chosen = boxes.gather(1, index[..., None].expand(-1, -1, 4))
        refined, final_logits, tokens, logprobs = self._describe(features, sizes, chosen)
        scores = torch.sigmoid(final_logits)
        if self.config.score == "product":
            scores = scores * torch.sigmoid(logits.gather(1, index))
        return self._rank(refined, self._with_captions(scores, tokens, logprobs), tokens, logprobs, counts)

    @torch.inference_mode()
    def proposals(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """The chosen proposals (N, B, 4) and how many of them count (N,): what recall is measured on."""
        _, boxes, logits = self._find(images, sizes)
        index, counts = suppress(boxes, logits, self.config.proposal_nms, self.config.proposals)
        return boxes.gather(1, index[..., None].expand(-1, -1, 4)), counts

    @torch.inference_mode()
    def caption_boxes(self, images: Tensor, sizes: Tensor, boxes_xyxy: Tensor, counts: Tensor) -> list[Predicted]:
        """Captions of given boxes (N, B, 4), of which the first `counts` (N,) of each photo are meant."""
        features = self.net.backbone(images)
        _, logits, tokens, logprobs = self._recognize_and_caption(features, sizes, boxes_xyxy)
        scores = self._with_captions(torch.sigmoid(logits), tokens, logprobs)
        return [
            Predicted(boxes_xyxy[n, :count], scores[n, :count], tokens[n, :count], logprobs[n, :count])
            for n, count in enumerate(counts.tolist())
        ]

    def _find_candidates(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features, and the best proposals cut to the photo (N, K', 4) with their logits (N, K')."""
        features, proposals = self.net.propose(images)
        count = min(self.config.candidates, proposals.logits.shape[1])
        logits, index = torch.topk(proposals.logits, count, dim=1)
        boxes = proposals.boxes_xyxy.gather(1, index[..., None].expand(-1, -1, 4))
        return features, clip_boxes(boxes, sizes), logits

    def _recognize_and_caption(
        self, features: Tensor, sizes: Tensor, boxes: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        recognized: Recognized = self.net.recognize(features, sizes, boxes)
        seen = self.net.see(recognized, sizes, boxes)
        tokens, logprobs = self.net.language.greedy(seen, self.start, self.config.longest)
        shape = boxes.shape[:2]
        refined = clip_boxes(recognized.boxes_xyxy, sizes)
        return refined, recognized.logits, tokens.view(*shape, -1), logprobs.view(shape)

    def _with_captions(self, scores: Tensor, tokens: Tensor, logprobs: Tensor) -> Tensor:
        words = (tokens != END).sum(dim=-1) + 1  # END was predicted too
        return scores * torch.exp(self.config.caption_weight * logprobs / words)

    def _rank(self, boxes: Tensor, scores: Tensor, tokens: Tensor, logprobs: Tensor, counts: Tensor) -> list[Predicted]:
        real = torch.arange(scores.shape[1], device=scores.device) < counts[:, None]
        ranked = torch.where(real, scores, -1.0)
        index, kept = suppress(boxes, ranked, self.config.final_nms, scores.shape[1])
        out = []
        for n, count in enumerate(kept.tolist()):
            rows = index[n, :count]
            rows = rows[ranked[n, rows] >= 0]
            out.append(Predicted(boxes[n, rows], scores[n, rows], tokens[n, rows], logprobs[n, rows]))
        return out


class Graphed:
    """A function of tensors, recorded once per input shape as a CUDA graph and replayed."""

    WARM_UPS = 3

    def __init__(self, function: Stage) -> None:
        self.function = function
        self._recorded: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, ...]]] = {}

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        key = tuple(tensor.shape for tensor in inputs)
        if key not in self._recorded:
            self._recorded[key] = self._record(inputs)
        graph, places, outputs = self._recorded[key]
        for place, tensor in zip(places, inputs, strict=True):
            place.copy_(tensor)
        graph.replay()
        return outputs

    def _record(self, inputs: tuple[Tensor, ...]) -> tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, ...]]:
        places = [tensor.clone() for tensor in inputs]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.WARM_UPS):
                self.function(*places)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self.function(*places)
        return graph, places, outputs
