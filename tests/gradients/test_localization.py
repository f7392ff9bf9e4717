"""Gradients of the sampler and of box decoding, in double precision, and where each loss sends its
gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck

from regiontalk.lab.nets.fcln import FCLN, FCLNConfig
from regiontalk.lab.nets.language import LanguageConfig
from regiontalk.lab.nets.localization import (
    LocalizationConfig,
    decode_boxes,
    encode_boxes,
    sample_regions,
)
from regiontalk.lab.nets.recognition import RecognitionConfig
from regiontalk.lab.training.detector.batches import Batch
from regiontalk.lab.training.detector.targets import Truths
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.recipe.detector import (
    DataConfig,
    FCLNRecipe,
    FCLNRunConfig,
    LossConfig,
    ProposalSamplerConfig,
)
from regiontalk.language.vocabulary import Vocabulary

CELLS = 3


def boxes_off_the_kinks(cells: int) -> torch.Tensor:
    """Boxes (1, 3, 4) none of whose sampling points lies near the middle of a feature cell, where
    eq. 3 bends."""
    generator = torch.Generator().manual_seed(0)
    while True:
        low = torch.rand(1, 3, 2, generator=generator, dtype=torch.float64) * 30
        boxes = torch.cat(
            [low, low + 10 + torch.rand(1, 3, 2, generator=generator, dtype=torch.float64) * 30],
            dim=2,
        )
        ratio = torch.linspace(0, 1, cells, dtype=torch.float64)
        points = boxes[..., :2, None] + (boxes[..., 2:, None] - boxes[..., :2, None]) * ratio
        if ((points / 16 - 0.5) - (points / 16 - 0.5).round()).abs().min() > 1e-2:
            return boxes


@pytest.mark.parametrize("samples_per_cell", [1, 2])
def test_sampling_reaches_features_and_box_coordinates(samples_per_cell):
    features = torch.randn(
        1, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    boxes = boxes_off_the_kinks(CELLS * samples_per_cell)
    assert gradcheck(
        lambda f, b: sample_regions(f, b, CELLS, samples_per_cell),
        (features.requires_grad_(), boxes.requires_grad_()),
        eps=1e-6,
    )


def test_sampling_outside_the_photo_has_its_gradient_too():
    features = torch.randn(
        1, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    box = torch.tensor([[[-7.3, -3.1, 59.7, 61.3]]], dtype=torch.float64)
    assert gradcheck(
        lambda f, b: sample_regions(f, b, 4),
        (features.requires_grad_(), box.requires_grad_()),
        eps=1e-6,
    )


@pytest.mark.parametrize("samples_per_cell", [1, 2])
def test_sampling_on_a_turned_grid_reaches_its_map_too(samples_per_cell):
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(1, 2, 4, 4, dtype=torch.float64, generator=generator)
    boxes = torch.tensor([[[5.3, 8.1, 41.7, 50.3], [20.9, 3.7, 58.3, 33.1]]], dtype=torch.float64)
    affine = torch.eye(2, 3, dtype=torch.float64) + 0.3 * torch.randn(
        1, 2, 2, 3, dtype=torch.float64, generator=generator
    )
    assert gradcheck(
        lambda f, b, a: sample_regions(f, b, CELLS, samples_per_cell, a),
        (features.requires_grad_(), boxes.requires_grad_(), affine.requires_grad_()),
        eps=1e-7,
    )


def test_decoding_and_encoding():
    generator = torch.Generator().manual_seed(3)
    anchors = torch.rand(5, 4, dtype=torch.float64, generator=generator) * 50 + 10
    transforms = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    assert gradcheck(decode_boxes, (anchors.requires_grad_(), transforms.requires_grad_()))
    boxes = decode_boxes(anchors, transforms).detach()
    assert gradcheck(encode_boxes, (anchors, boxes.requires_grad_()))


def make_task(
    sampler: ProposalSamplerConfig, losses: LossConfig | None = None, affine: bool = False
) -> FCLNTask:
    """A tiny net whose boxes have moved a little off their anchors; no data."""
    config = FCLNConfig(
        backbone="tiny",
        channels=8,
        input_size=64,
        initialization="he",
        localization=LocalizationConfig(((24, 24), (40, 20)), filters=8),
        recognition=RecognitionConfig(cells=3, hidden=16, code=16, dropout=0.0, affine=affine),
        language=LanguageConfig(embedding=8, hidden=8),
    )
    recipe = FCLNRecipe(
        FCLNRunConfig(1),
        (DataConfig("nowhere"),),
        net=config,
        sampler=sampler,
        losses=losses or LossConfig(),
    )
    torch.manual_seed(0)
    net = FCLN(config, tokens=6, starts=1)
    torch.nn.init.normal_(net.localization.transforms.weight, std=0.02)
    return FCLNTask(recipe, Vocabulary(("a", "b", "c", "d")), net, [])


def make_batch() -> Batch:
    generator = torch.Generator().manual_seed(4)
    truths = Truths(
        torch.tensor([[[5.0, 6.0, 30.0, 31.0], [20.0, 30.0, 58.0, 52.0]]]),
        torch.tensor([[True, True]]),
        torch.tensor([[[2, 3, 0], [4, 0, 0]]]),
        torch.tensor([[6, 6]]),
        torch.ones(1, 2),
    )
    images = torch.randint(0, 255, (1, 3, 64, 64), dtype=torch.uint8, generator=generator)
    return Batch(images, torch.tensor([[64.0, 64.0]]), truths, (7,), names=("scene",))


PARTS = (
    "localization.scores",
    "localization.transforms",
    "recognition.score",
    "recognition.transform",
    "language",
)


def moved_by(task: FCLNTask, loss: str) -> dict[str, bool]:
    """Which parts of the net get a gradient from one loss alone."""
    task.net.zero_grad(set_to_none=True)
    task.losses(make_batch())[loss].backward()
    return {
        part: any(
            parameter.grad is not None and parameter.grad.abs().max() > 0
            for name, parameter in task.net.named_parameters()
            if name.startswith(f"{part}.")
        )
        for part in (*PARTS, "backbone")
    }


def test_captions_alone_move_the_proposals():
    """What DenseCap replaces RoI pooling for (3.1.2), with the paper's sampler."""
    moved = moved_by(make_task(ProposalSamplerConfig()), "caption")
    assert moved["localization.transforms"]
    assert moved["language"]
    assert moved["backbone"]
    assert not moved["localization.scores"]  # which proposals are taken has no gradient
    assert not moved["recognition.score"]
    assert not moved["recognition.transform"]


def test_captions_teach_the_sampling_grid():
    """From the first step on, in which the grid is still the box itself."""
    task, batch = make_task(ProposalSamplerConfig(), affine=True), make_batch()
    change = task.net.recognition.affine.change.weight
    assert not change.any()
    before = task.losses(batch)["caption"]
    (gradient,) = torch.autograd.grad(before, [change])
    with torch.no_grad():
        change -= 1e-3 * gradient / gradient.norm()
    assert task.losses(batch)["caption"] < before


def test_a_step_down_the_caption_loss_changes_the_boxes_and_lowers_it():
    task, batch = make_task(ProposalSamplerConfig()), make_batch()
    before = task.losses(batch)["caption"]
    (gradient,) = torch.autograd.grad(before, [task.net.localization.transforms.weight])
    with torch.no_grad():
        task.net.localization.transforms.weight -= 1e-3 * gradient / gradient.norm()
    assert task.losses(batch)["caption"] < before


def test_the_gradient_to_the_boxes_can_be_cut():
    moved = moved_by(make_task(ProposalSamplerConfig(box_gradients=False)), "caption")
    assert not moved["localization.transforms"]
    assert moved["language"]
    assert moved["backbone"]


@pytest.mark.parametrize(
    ("loss", "own", "strangers"),
    [
        (
            "proposal_score",
            "localization.scores",
            {"localization.transforms", "recognition.score", "language"},
        ),
        (
            "proposal_box",
            "localization.transforms",
            {"localization.scores", "recognition.transform", "language"},
        ),
        (
            "final_score",
            "recognition.score",
            {"localization.scores", "recognition.transform", "language"},
        ),
        (
            "final_box",
            "recognition.transform",
            {"localization.scores", "recognition.score", "language"},
        ),
    ],
)
def test_detection_losses_move_their_own_heads(loss, own, strangers):
    task = make_task(ProposalSamplerConfig())
    torch.nn.init.normal_(task.net.recognition.transform.weight, std=0.1)
    torch.nn.init.normal_(task.net.recognition.score.weight, std=0.1)
    moved = moved_by(task, loss)
    assert moved[own]
    assert moved["backbone"]
    assert not any(moved[part] for part in strangers)
    if loss.startswith("final"):
        assert moved["localization.transforms"]  # through the sampled features, as the captions do


def test_a_score_is_pushed_up_for_positives_and_down_for_negatives():
    task = make_task(ProposalSamplerConfig(), LossConfig())
    outputs = []
    original = task.net.localization.forward

    def kept(features):
        proposals = original(features)
        proposals.logits.retain_grad()
        outputs.append(proposals)
        return proposals

    task.net.localization.forward = kept
    task.losses(make_batch())["proposal_score"].backward()
    (proposals,) = outputs
    gradient = proposals.logits.grad[0]
    overlap = torch.from_numpy(
        _iou(proposals.boxes_xyxy[0].detach(), make_batch().truths.boxes_xyxy[0])
    ).amax(dim=1)
    assert (gradient[overlap >= 0.7] <= 0).all()
    assert (gradient[overlap < 0.05] >= 0).all()
    ignored = (overlap >= 0.3) & (overlap < 0.7)
    assert (gradient[ignored] <= 0).all()  # the best box of a truth, or nothing


def _iou(a, b):
    from regiontalk import boxes

    return boxes.iou(a.numpy(), b.numpy())


def test_weights_of_losses_scale_their_gradients():
    """The engine multiplies each loss with the recipe's weight (DenseCap 3.2: 0.1 four times, 1.0
    for captions)."""
    task = make_task(ProposalSamplerConfig())
    assert [
        task.weight(name) for name in ("proposal_score", "proposal_box", "final_score", "final_box")
    ] == [0.1] * 4
    assert task.weight("caption") == 1.0
    heavier = replace(task.recipe, losses=replace(task.recipe.losses, caption=3.0))
    assert FCLNTask(heavier, task.words, task.net, []).weight("caption") == 3.0
