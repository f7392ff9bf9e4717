"""The whole network: first weights, shapes, and that photos of a batch do not meddle with one
another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regiontalk.lab.nets.fcln import FCLN, FCLNConfig
from regiontalk.lab.nets.language import LanguageConfig
from regiontalk.lab.nets.localization import (
    LocalizationConfig,
    box_geometry,
    decode_boxes,
    to_cxcywh,
)
from regiontalk.lab.nets.recognition import RecognitionConfig

CONFIG = FCLNConfig(
    backbone="tiny",
    channels=8,
    input_size=64,
    initialization="he",
    localization=LocalizationConfig(((24, 24), (40, 20)), filters=8),
    recognition=RecognitionConfig(cells=3, hidden=16, code=12, dropout=0.0),
    language=LanguageConfig(embedding=8, hidden=10),
)


def make_net(initialization: str = "he", **language: object) -> FCLN:
    torch.manual_seed(0)
    config = replace(
        CONFIG, initialization=initialization, language=replace(CONFIG.language, **language)
    )
    return FCLN(config, tokens=7, starts=2).eval()


def photos(count: int = 2) -> torch.Tensor:
    return torch.rand(count, 3, 48, 64, generator=torch.Generator().manual_seed(1)) * 255


BOXES = torch.tensor([[[3.0, 4.0, 30.0, 40.0], [10.0, 10.0, 60.0, 30.0]]] * 2)
SIZES = torch.tensor([[64.0, 48.0], [50.0, 40.0]])


def test_the_final_box_is_the_region_moved_by_the_final_transform():
    net = make_net()
    torch.nn.init.normal_(net.recognition.transform.weight)
    features, _ = net.backbone(photos(), SIZES)
    recognized = net.recognize(features, SIZES, BOXES)
    torch.testing.assert_close(
        recognized.boxes_xyxy, decode_boxes(to_cxcywh(BOXES), recognized.transforms)
    )
    assert not torch.allclose(recognized.boxes_xyxy, BOXES)


@pytest.mark.parametrize("initialization", ["gaussian", "released", "he"])
def test_affine_regions_start_as_the_boxes_themselves(initialization):
    net = make_net(initialization)
    torch.manual_seed(0)
    recognition = replace(CONFIG.recognition, affine=True)
    affine = FCLN(replace(net.config, recognition=recognition), tokens=7, starts=2).eval()
    affine.load_state_dict(net.state_dict(), strict=False)
    features, _ = net.backbone(photos(), SIZES)
    before = net.recognize(features, SIZES, BOXES).codes
    torch.testing.assert_close(affine.recognize(features, SIZES, BOXES).codes, before)
    torch.nn.init.normal_(affine.recognition.affine.change.bias)
    assert not torch.allclose(affine.recognize(features, SIZES, BOXES).codes, before)


def test_photos_of_a_batch_are_seen_as_if_alone():
    net = make_net(surroundings=True)
    together = net.recognize(net.backbone(photos(), SIZES)[0], SIZES, BOXES)
    seen = net.visual_inputs(together, SIZES, BOXES).view(2, 2, -1)
    for n in range(2):
        one = slice(n, n + 1)
        alone = net.recognize(net.backbone(photos()[one], SIZES[one])[0], SIZES[one], BOXES[one])
        torch.testing.assert_close(alone.codes[0], together.codes[n])
        torch.testing.assert_close(alone.logits[0], together.logits[n])
        torch.testing.assert_close(net.visual_inputs(alone, SIZES[one], BOXES[one]), seen[n])


def test_the_photo_code_is_that_of_the_photo_without_its_padding():
    net = make_net()
    features, _ = net.backbone(photos(), SIZES)
    recognized = net.recognize(features, SIZES, BOXES)
    whole = torch.cat([torch.zeros_like(SIZES), SIZES], dim=1)[:, None]
    torch.testing.assert_close(
        recognized.photo_codes, net.recognize(features, SIZES, whole).codes[:, 0]
    )


def test_geometry_says_where_a_box_lies_in_its_photo():
    found = box_geometry(
        torch.tensor([[[0.0, 10.0, 50.0, 30.0], [-10.0, 0.0, 200.0, 40.0]]]),
        torch.tensor([[100.0, 40]]),
    )
    expected = torch.tensor([[[0, 0.25, 0.5, 0.75, 0.25], [0, 0, 1, 1, 1.0]]])
    torch.testing.assert_close(found, expected)


def heads(net: FCLN) -> dict[str, torch.Tensor]:
    return {
        name: weight.detach()
        for name, weight in net.named_parameters()
        if not name.startswith("backbone.")
    }


def test_gaussian_first_weights_are_the_papers():
    """Section 3.3: everything but the CNN from a Gaussian with standard deviation 0.01."""
    weights = torch.cat([w.flatten() for w in heads(make_net("gaussian")).values() if w.dim() > 1])
    assert abs(float(weights.std()) - 0.01) < 5e-4
    assert abs(float(weights.mean())) < 5e-4
    assert all((w == 0).all() for w in heads(make_net("gaussian")).values() if w.dim() == 1)


def test_released_first_weights():
    """Box heads zero, LSTM N(0, 1/√(D+H)), forget bias 1, score heads N(0, 0.01)."""
    net = make_net("released", hidden=64)
    weights = heads(net)
    assert not weights["localization.transforms.weight"].any()
    assert not weights["recognition.transform.weight"].any()
    assert abs(float(weights["language.lstm.weight_hh_l0"].std()) - (8 + 64) ** -0.5) < 0.01
    assert abs(float(weights["localization.scores.weight"].std()) - 0.01) < 5e-3
    total = weights["language.lstm.bias_ih_l0"] + weights["language.lstm.bias_hh_l0"]
    assert total.tolist() == [0.0] * 64 + [1.0] * 64 + [0.0] * 128  # input, forget, cell, output


def test_scaled_first_weights_leave_boxes_and_scores_undecided():
    net = make_net("he")
    proposals = net.localization(net.backbone(photos(), SIZES)[0])
    assert not proposals.transforms.any()
    assert float(proposals.logits.detach().abs().max()) < 1
    assert float(net.recognition.first.weight.detach().std()) > 0.05


@pytest.mark.parametrize("how", ["gaussian", "released", "he"])
def test_first_weights_do_not_touch_the_backbone(how):
    torch.manual_seed(0)
    backbone = FCLN(replace(CONFIG, initialization=how), tokens=7, starts=1).backbone
    torch.manual_seed(0)
    other = FCLN(replace(CONFIG, initialization="he"), tokens=7, starts=1).backbone
    assert all(
        torch.equal(a, b) for a, b in zip(backbone.parameters(), other.parameters(), strict=True)
    )


def test_defaults_are_the_papers():
    config = FCLNConfig()
    assert (config.backbone, config.input_size, config.initialization) == ("vgg16", 720, "gaussian")
    assert (
        len(config.localization.anchors),
        config.localization.filters,
        config.localization.score_ways,
    ) == (
        12,
        256,
        1,
    )
    assert (config.language.embedding, config.language.hidden, config.language.feed) == (
        512,
        512,
        "once",
    )
