"""The test-time algorithm against a slow reference built from `boxes.nms`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regiontalk import boxes
from regiontalk.nets.fcln import FCLN, FCLNConfig
from regiontalk.nets.language import LanguageConfig
from regiontalk.nets.localization import LocalizationConfig
from regiontalk.nets.prediction import Described, PredictionConfig, Predictor, rank, with_captions
from regiontalk.nets.recognition import RecognitionConfig
from regiontalk.vocabulary import END

START = 7
CONFIG = PredictionConfig(proposals=20, candidates=30, proposal_nms=0.6, final_nms=0.4, longest=4)
SIZES = torch.tensor([[64.0, 48.0], [50.0, 40.0]])


@pytest.fixture(scope="module")
def net() -> FCLN:
    torch.manual_seed(1)
    config = FCLNConfig(
        backbone="tiny",
        channels=8,
        input_size=64,
        initialization="he",
        localization=LocalizationConfig(((24, 24), (40, 20)), filters=8),
        recognition=RecognitionConfig(cells=3, hidden=16, code=12, dropout=0.5),
        language=LanguageConfig(embedding=8, hidden=10),
    )
    net = FCLN(config, tokens=7, styles=1).eval()
    for head in (net.localization.scores, net.localization.transforms, net.recognition.transform):
        torch.nn.init.normal_(head.weight, std=0.3)  # boxes that differ
    torch.nn.init.normal_(net.recognition.score.weight, std=1.0)
    torch.nn.init.normal_(net.language.output.weight, std=2.0)
    return net


@pytest.fixture(scope="module")
def photos() -> torch.Tensor:
    return torch.rand(2, 3, 48, 64, generator=torch.Generator().manual_seed(2)) * 255


@torch.no_grad()
def reference(net: FCLN, photo: torch.Tensor, size: torch.Tensor, config: PredictionConfig) -> list[tuple[object, ...]]:
    """One photo, step by step: cut, suppress, recognise, caption, suppress."""
    features, proposals = net.propose(photo[None])
    width, height = size.tolist()
    cut = boxes.clip(proposals.boxes_xyxy[0].numpy(), width, height)
    logits = proposals.logits[0].numpy()
    best = np.argsort(-logits, kind="stable")[: config.candidates]
    chosen = best[boxes.nms(cut[best], logits[best], config.proposal_nms, config.proposals)]
    regions = torch.from_numpy(cut[chosen])[None]
    recognized = net.recognize(features, size[None], regions)
    seen = net.see(recognized, size[None], regions)
    tokens, logprobs = net.language.greedy(seen, START, config.longest)
    final = boxes.clip(recognized.boxes_xyxy[0].numpy(), width, height)
    scores = torch.sigmoid(recognized.logits[0]).numpy()
    if config.score == "product":
        scores = scores / (1 + np.exp(-logits[chosen]))
    kept = boxes.nms(final, scores, config.final_nms)
    return [(final[n].tolist(), float(scores[n]), tokens[n].tolist(), float(logprobs[n])) for n in kept]


@pytest.mark.parametrize("score", ["final", "product"])
def test_equals_the_reference_photo_by_photo(net, photos, score):
    config = replace(CONFIG, score=score)
    found = Predictor(net, START, config)(photos, SIZES)
    for n, predicted in enumerate(found):
        expected = reference(net, photos[n], SIZES[n], config)
        assert len(predicted.scores) == len(expected) > 2
        for row, (box, value, tokens, logprob) in enumerate(expected):
            np.testing.assert_allclose(predicted.boxes_xyxy[row], box, atol=1e-3)
            assert float(predicted.scores[row]) == pytest.approx(value, abs=1e-5)
            assert predicted.tokens[row].tolist() == tokens
            assert float(predicted.logprobs[row]) == pytest.approx(logprob, abs=1e-4)


def test_regions_lie_in_the_photo_and_fall_in_score(net, photos):
    for predicted, (width, height) in zip(Predictor(net, START, CONFIG)(photos, SIZES), SIZES.tolist(), strict=True):
        assert (predicted.boxes_xyxy[:, 0::2] >= 0).all()
        assert (predicted.boxes_xyxy[:, 2] <= width).all()
        assert (predicted.boxes_xyxy[:, 3] <= height).all()
        assert (predicted.scores.diff() <= 0).all()
        assert ((predicted.scores >= 0) & (predicted.scores <= 1)).all()
        assert np.triu(boxes.iou(predicted.boxes_xyxy.numpy(), predicted.boxes_xyxy.numpy()), 1).max() <= 0.4


def test_so_many_proposals_and_no_more(net, photos):
    chosen, counts = Predictor(net, START, replace(CONFIG, proposals=3)).proposals(photos, SIZES)
    assert chosen.shape == (2, 3, 4)
    assert counts.tolist() == [3, 3]
    apart, counts = Predictor(net, START, replace(CONFIG, proposals=30, proposal_nms=0.05)).proposals(photos, SIZES)
    assert (counts < 30).all()
    for n, count in enumerate(counts.tolist()):
        inside = apart[n, :count].numpy()
        assert np.triu(boxes.iou(inside, inside), 1).max() <= 0.05


def test_captions_of_given_boxes(net, photos):
    given = torch.tensor([[[2.0, 3, 30, 30], [10, 5, 60, 40]], [[5, 5, 40, 35], [0, 0, 0, 0]]])
    counts = torch.tensor([2, 1])
    predictor = Predictor(net, START, CONFIG)
    found = predictor.caption_boxes(photos, SIZES, given, counts)
    assert [len(photo.scores) for photo in found] == [2, 1]
    assert torch.equal(found[0].boxes_xyxy, given[0])  # as given: not refined, not sorted, not suppressed
    alone = predictor.caption_boxes(photos[1:], SIZES[1:], given[1:, :1], counts[1:])[0]
    assert alone.tokens.tolist() == found[1].tokens.tolist()


def test_nothing_is_dropped_at_random_in_use(net, photos):
    predictor = Predictor(net, START, CONFIG)
    first, second = predictor(photos, SIZES), predictor(photos, SIZES)
    assert all(torch.equal(a.scores, b.scores) for a, b in zip(first, second, strict=True))


def described(**changes: torch.Tensor) -> Described:
    base = Described(
        boxes_xyxy=torch.tensor([[[0.0, 0, 10, 10], [1, 0, 11, 10], [50, 50, 60, 60], [80, 80, 90, 90]]]),
        logits=torch.tensor([[1.0, 2.0, 0.0, 9.0]]),
        proposal_logits=torch.tensor([[3.0, -3.0, 0.0, 9.0]]),
        tokens=torch.tensor([[[2, END], [3, END], [4, 5], [6, END]]]),
        logprobs=torch.tensor([[-1.0, -4.0, -0.5, 0.0]]),
        counts=torch.tensor([3]),
    )
    return replace(base, **changes)


def test_rank_ignores_what_is_only_filling():
    (found,) = rank(described(), CONFIG)
    assert found.tokens[:, 0].tolist() == [3, 4]  # 2 is suppressed by 3, 6 is not meant


def test_rank_by_product_of_both_scores():
    (found,) = rank(described(), replace(CONFIG, score="product"))
    assert found.tokens[:, 0].tolist() == [2, 4]
    expected = 1 / (1 + math.exp(-1)) / (1 + math.exp(-3))
    assert float(found.scores[0]) == pytest.approx(expected)


def test_fewer_proposals_are_the_first_ones():
    (found,) = rank(described(), replace(CONFIG, proposals=1))
    assert found.tokens[:, 0].tolist() == [2]


def test_unsure_captions_lower_the_score():
    scores = torch.tensor([0.8, 0.8])
    tokens = torch.tensor([[2, 3, END], [2, 3, END]])
    found = with_captions(scores, tokens, torch.tensor([-3.0, 0.0]), 0.5)
    assert found.tolist() == pytest.approx([0.8 * math.exp(0.5 * -3 / 3), 0.8])  # two words and END
    assert with_captions(scores, tokens, torch.tensor([-3.0, 0.0]), 0.0).tolist() == pytest.approx([0.8, 0.8])


def test_no_region_at_all():
    (found,) = rank(described(counts=torch.tensor([0])), CONFIG)
    assert len(found.scores) == 0
